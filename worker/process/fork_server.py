"""The fork-server: a single-threaded process that has imported all modules and forks agents.

It runs no Trio loop and holds no ZeroMQ context: a child inherits neither. It adopts and kills the
orphans of an ended agent, so no command outlives its agent. If it dies itself, agents continue.

Cold start: `python -P -m swarm.worker.process.fork_server CHANNEL_FD LIFELINE_FD`.
"""

import gc
import importlib
import os
import select
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import NamedTuple, NoReturn

from swarm.mailbox.base.after_fork import (
    after_fork_in_parent,
    become_subreaper,
    before_fork,
    disable_core_dumps,
    exit_child,
    fork_bare,
    gc_paused,
    ignore_interrupts,
    leave_working_folder,
    limit_malloc_arenas,
    run_and_exit,
)
from swarm.mailbox.base.key_wiping import take_keys, wipe_secrets
from swarm.mailbox.base.process_tree import children_of, kill_descendants, kill_descendants_once
from swarm.mailbox.protocol.forking import (
    AnyForkOrder,
    AnyForkReport,
    ChangeVariable,
    GuardProcess,
    LoopAnswered,
    LoopAsked,
    ProcessExited,
    ProcessStarted,
    ServerReady,
    StartFailed,
    StartProcess,
    WatchSupervisor,
    decode_fork_order,
    encode_fork,
)

from ..base import lifeline
from ..base.process_title import set_title
from . import boot
from .boot import ChildSetup, ForkedChild
from .loop_watch import LoopWatch

_PACKET_BYTES = 64 * 1024
_MAX_FDS = 4
_REAP_RETRY_MS = 5
_PREWARM_DELAY_MS = 200  # the first agent keeps both processors busy for 30 to 100 ms
_BURST_STARTS = 40  # so many agents start sooner without the steps that only speed them up
_PREFORK_DELAY_MS = 5  # after this idle time a process is preforked, so that no order waits for it
_ORPHANS_LIMIT_S = 1.0  # longer only in an uninterruptible wait; then the end is reported anyway
PRELOADED_MODULES = (
    "trio",
    "zmq",
    "msgspec",
    "swarm.worker.agent.agent_process",
    "swarm.worker.exec.launcher_client",
    "swarm.worker.tools.orchestrator",
    "swarm.worker.policy.command_decision",
    "swarm.worker.parts.patch.apply",
    "swarm.worker.sandbox.sandbox_plan",
)


class PrewarmSteps(NamedTuple):
    """Work done once, here, for all agents. Leaves no thread and no descriptor."""

    before_first_fork: Callable[[], None]  # before the first child, which waits for it
    while_idle: Callable[[], Iterator[None]]  # in short steps; a child may be forked between two


class PreforkedProcess(NamedTuple):
    """The next agent's process: at most one, once an order has said that others may follow."""

    pid: int
    channel: socket.socket

    def assign(self, order: StartProcess, fds: Sequence[int]) -> bool:
        """Send the process its order. False: it is dead, and another process must be forked."""
        try:
            socket.send_fds(self.channel, [encode_fork(order)], fds)
        except OSError:
            return False
        finally:
            self.channel.close()
        return True


def run_fork_server(channel_fd: int, lifeline_fd: int) -> NoReturn:
    """Preload modules and serve orders, in a child of the entry process. Never returns."""
    started = time.monotonic()
    lifeline.hold_lifeline(lifeline_fd)  # first of all: the process may be stopped while it imports
    with gc_paused():
        for name in PRELOADED_MODULES:
            with suppress(ImportError):  # an agent that needs the module shows the error
                importlib.import_module(name)
        from ..exec.launcher_client import configure_early_launcher, fork_launcher_early
        from .prewarm import run_prewarm_steps, run_session_in_memory
    setup = ChildSetup(fork_launcher_early, configure_early_launcher, run_session_in_memory)
    serve_orders(
        socket.socket(fileno=channel_fd),
        ForkedChild(boot.run_from_spec, lifeline_fd, setup),
        prepare=PrewarmSteps(run_session_in_memory, run_prewarm_steps),
        preload_s=time.monotonic() - started,
    )


def serve_orders(
    channel: socket.socket,
    child: ForkedChild,
    *,
    prepare: PrewarmSteps | None = None,
    preload_s: float = 0.0,
) -> NoReturn:
    """Serve orders until the channel or the lifeline closes; then kill all descendants.

    Args:
        channel: A blocking SOCK_SEQPACKET whose other end the supervisor holds.
        child: What each child runs.
        prepare: The first part runs before the first child. The steps run while the server is idle
            after the first agent; else the first one after the second agent, and the others from
            the 41st on.
        preload_s: Duration of the imports; reported once.
    """
    set_title("swarm: fork-server")  # the first call sets up state that later calls share
    become_subreaper()
    limit_malloc_arenas()
    server = _ForkServer(channel, child, prepare)
    lifeline.hold_lifeline(child.lifeline_fd, at_end=server.kill_all)  # with the guarded ones
    if prepare is not None:
        prepare.before_first_fork()
    gc.collect()
    gc.freeze()  # children share these pages until one writes to them
    with suppress(BrokenPipeError, ConnectionResetError):  # the supervisor is gone
        server.report(ServerReady(preload_s=preload_s))
        server.loop()
    if lifeline.is_lifeline_closed(child.lifeline_fd):
        lifeline.kill_tree_and_self()
    lifeline.kill_all_below(os.getpid())
    exit_child(0)


class _ForkServer:
    def __init__(
        self,
        channel: socket.socket,
        child: ForkedChild,
        prepare: PrewarmSteps | None,
    ) -> None:
        self._channel, self._child = channel, child
        self._steps = None if prepare is None else prepare.while_idle()
        # Idle time before the next step; None until the first agent.
        self._prewarm_delay_ms: int | None = None
        self._agent_starts = 0
        self._children: set[int] = set()  # pids of agents not yet reaped
        self._ended: dict[int, float] = {}  # ended agents → latest time to report them
        self._guarded: dict[int, int] = {}  # pid → pidfd of processes that are not our descendants
        self._run = ""
        self._watch: LoopWatch | None = None
        self._poll = select.poll()
        self._preforked: PreforkedProcess | None = None
        self._wants_prefork = False
        # Preforked processes without an order: their end is not reported.
        self._unassigned: set[int] = set()
        self._wakeup_read_fd, self._wakeup_write_fd = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)

    def loop(self) -> None:
        """Return when the supervisor closed the channel or is gone."""
        signal.signal(signal.SIGCHLD, _on_sigchld)
        self._arm_wakeup_fd()
        for one in (self._channel.fileno(), self._child.lifeline_fd, self._wakeup_read_fd):
            self._poll.register(one, select.POLLIN)
        while True:
            ready = {fd for fd, _ in self._poll.poll(self._poll_timeout_ms())}
            if self._child.lifeline_fd in ready:
                return
            if self._watch is not None:
                self._look_at_supervisor(self._watch, ready)
            if self._wakeup_read_fd in ready:
                os.read(self._wakeup_read_fd, 4096)
            if self._wakeup_read_fd in ready or self._ended:
                self._reap()
            if self._channel.fileno() in ready and not self._handle_order():
                return
            if not ready:
                self._on_idle()

    def _look_at_supervisor(self, watch: LoopWatch, ready: set[int]) -> None:
        if watch.signal_fd in ready and not watch.read_signals():
            self._poll.unregister(watch.signal_fd)
        watch.look(lambda: self.report(LoopAsked()))

    def _poll_timeout_ms(self) -> int | None:
        own = self._work_timeout_ms()
        watch = None if self._watch is None else self._watch.wait_ms()
        return min((one for one in (own, watch) if one is not None), default=None)

    def _work_timeout_ms(self) -> int | None:
        if self._ended:
            return _REAP_RETRY_MS
        if self._steps is not None:
            return self._prewarm_delay_ms
        return _PREFORK_DELAY_MS if self._wants_prefork else None

    def _on_idle(self) -> None:
        if self._prewarm_delay_ms is not None and self._steps is not None:
            self._run_prewarm_step(self._steps)
        elif self._wants_prefork:
            self._prefork()

    def _arm_wakeup_fd(self) -> None:
        signal.set_wakeup_fd(self._wakeup_write_fd, warn_on_full_buffer=False)

    def _prewarm_after_start(self) -> None:
        """After the first agent, start the idle timer. In a row of starts that leaves no idle time,
        run the first step after the second agent, and the others after one agent each once the row
        is long.
        """
        self._agent_starts += 1
        if self._prewarm_delay_ms is None:
            self._prewarm_delay_ms = _PREWARM_DELAY_MS
        elif self._steps is not None and (
            self._agent_starts == 2 or self._agent_starts > _BURST_STARTS
        ):
            self._run_prewarm_step(self._steps)

    def _run_prewarm_step(self, steps: Iterator[None]) -> None:
        """Run one step between two forks; processes that end meanwhile are reaped after it."""
        self._prewarm_delay_ms = 0
        signal.set_wakeup_fd(-1)
        if next(steps, self) is self:  # that was the last step
            self._steps = None
            gc.collect()
            gc.freeze()
        self._arm_wakeup_fd()
        self._reap()

    def report(self, report: AnyForkReport, *fds: int) -> None:
        socket.send_fds(self._channel, [encode_fork(report)], fds)

    def kill_all(self) -> None:
        """Kill all agents, then the guarded trees, each stopped first so that it cannot fork."""
        for pid in self._children:  # not reaped yet, so the pids are still theirs
            os.kill(pid, signal.SIGKILL)
        for pid, pidfd in self._guarded.items():
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(pidfd, signal.SIGSTOP)
                kill_descendants(pid)
                signal.pidfd_send_signal(pidfd, signal.SIGKILL)

    def _handle_order(self) -> bool:
        flags = socket.MSG_CMSG_CLOEXEC
        packet, fds, _, _ = socket.recv_fds(self._channel, _PACKET_BYTES, _MAX_FDS, flags)
        if not packet:
            return False
        received: AnyForkOrder = decode_fork_order(packet)
        match received:
            case StartProcess() as order:
                self._start(order, fds)
                if not order.is_service:
                    self._prewarm_after_start()
            case GuardProcess(pid=pid):
                self._drop_ended_guarded()
                self._guarded[pid] = fds[0]
            case WatchSupervisor(pid=pid, deadline_s=deadline_s):
                self._watch = LoopWatch(pid, fds[0], fds[1], deadline_s)
                self._poll.register(fds[1], select.POLLIN)
            case LoopAnswered():
                if self._watch is not None:
                    self._watch.note_answer()
            case ChangeVariable() as change:
                _change_environment(change)
        return True

    def _start(self, order: StartProcess, fds: list[int]) -> None:
        if order.run != self._run:
            self._run = order.run
            set_title(f"swarm: fork-server {order.run}")
        try:
            pid = self._use_preforked(order, fds) or self._fork(order, fds)
        except OSError as error:
            self.report(StartFailed(request=order.request, reason=f"fork: {error.strerror}"))
        else:
            self._children.add(pid)
            with suppress(OSError):  # the child calls it too; whichever comes first
                os.setpgid(pid, pid)
            pidfd = os.pidfd_open(pid)
            self.report(ProcessStarted(request=order.request, pid=pid), pidfd)
            os.close(pidfd)
        finally:
            for fd in fds:
                os.close(fd)

    def _use_preforked(self, order: StartProcess, fds: list[int]) -> int:
        """Return the pid of the preforked process that took this order; 0 if there is none."""
        if order.has_keys or order.is_service or order.in_copy:
            return 0
        spare, self._preforked = self._preforked, None
        self._wants_prefork = order.may_follow and self._child.setup is not None
        if spare is None or not spare.assign(order, fds):
            return 0
        self._unassigned.discard(spare.pid)
        return spare.pid

    def _prefork(self) -> None:
        self._wants_prefork = False
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        before_fork()
        try:
            pid = fork_bare()
            if pid == 0:
                run_and_exit(lambda: self._child.wait_for_order(theirs, self._run))
        except OSError:  # the next agent is forked on demand
            ours.close()
            return
        finally:
            after_fork_in_parent()
            theirs.close()
        self._children.add(pid)
        self._unassigned.add(pid)
        self._preforked = PreforkedProcess(pid, ours)

    def _fork(self, order: StartProcess, fds: list[int]) -> int:
        before_fork()
        try:
            pid = fork_bare()
            if pid == 0:
                run_and_exit(lambda: self._child.run_order(order, fds))
        finally:
            after_fork_in_parent()
        return pid

    def _reap(self) -> None:
        """Report the agents that ended, each once all orphans that it left are dead.

        Until then the agent stays a zombie, so that its pid is not reused.
        """
        now = time.monotonic()
        for pid in [one for one in self._children if one not in self._ended and _has_ended(one)]:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(pid, signal.SIGKILL)  # a zombie still owns its group
            self._ended[pid] = now + _ORPHANS_LIMIT_S
        left = self._kill_orphans()  # after the agents ended: their orphans are ours by now
        for pid, latest in list(self._ended.items()):
            if not left or now > latest:
                _, status = os.waitpid(pid, 0)
                del self._ended[pid]
                self._children.discard(pid)
                if pid not in self._unassigned:
                    self.report(ProcessExited(pid=pid, status=status))
                self._unassigned.discard(pid)

    def _kill_orphans(self) -> int:
        """Kill orphans for one round and return how many were found; 0 means that none is left.

        An ended orphan counts too: its own orphans may have come to us after the listing.
        """
        orphans = set(children_of(os.getpid())) - self._children
        for orphan in orphans:
            if _has_ended(orphan):
                os.waitpid(orphan, 0)
                continue
            kill_descendants_once(orphan)
            with suppress(PermissionError):
                os.kill(orphan, signal.SIGKILL)
        return len(orphans)

    def _drop_ended_guarded(self) -> None:
        for pid, pidfd in list(self._guarded.items()):
            if lifeline.has_process_ended(pidfd):
                os.close(self._guarded.pop(pid))


def _change_environment(change: ChangeVariable) -> None:
    """Set or remove an environment variable; a removed key is wiped from memory."""
    if change.value is None:
        wipe_secrets(take_keys(os.environ, (change.name,)).values())
    else:
        os.environ[change.name] = change.value


def _has_ended(child: int) -> bool:
    """True if this child of ours waits to be reaped."""
    return os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def _on_sigchld(number: int, frame: object) -> None:
    """Do nothing: the wake-up descriptor wakes the loop."""


def main() -> NoReturn:
    """Run the cold fork-server; descriptors are given as numbers."""
    channel_fd, lifeline_fd = map(int, sys.argv[1:3])
    for fd in (channel_fd, lifeline_fd):
        os.set_inheritable(fd, False)
    disable_core_dumps()
    leave_working_folder()
    ignore_interrupts()
    run_fork_server(channel_fd, lifeline_fd)


if __name__ == "__main__":
    main()

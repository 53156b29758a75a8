"""The fork-server: one single-threaded process that has imported everything, and forks.

It runs no Trio and holds no ZeroMQ context: a child starts clean. It adopts what a dead agent
leaves behind and kills it, so no command outlives its agent. If it dies itself, agents live on.

Cold: `python -P -m swarm.worker.forkserver CHANNEL_FD LIFELINE_FD`.
"""

import gc
import importlib
import os
import select
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import NamedTuple, NoReturn

from swarm.mailbox.forked import (
    become_subreaper,
    before_fork,
    forbid_dumps,
    fork_bare,
    ignore_interrupts,
    leave,
    leave_folder,
    live_and_leave,
    no_collections,
    settle_child,
    settle_parent,
    share_one_heap,
    shed_inheritance,
)
from swarm.mailbox.keys import forget, take_keys
from swarm.mailbox.lineage import children_of, kill_descendants, strike_descendants
from swarm.mailbox.protocol.forking import (
    AnyForkOrder,
    AnyForkReport,
    ChangeVariable,
    GuardProcess,
    ProcessExited,
    ProcessStarted,
    ServerReady,
    StartFailed,
    StartProcess,
    decode_fork_order,
    encode_fork,
)

from . import boot, lifeline
from .spare import Beginning, Entry, Spare, wait_and_become

_PACKET_BYTES = 64 * 1024
_MOST_FDS = 4
_LOOK_AGAIN_MS = 5
_CALM_MS = 200  # the first agent needs 30 to 100 ms and both processors to ask its first question
_IDLE_MS = 5  # then a spare is forked: while orders come, nobody waits for it
_LEFTOVERS_LIMIT_S = 1.0  # more only in an uninterruptible wait; then its agent is reported anyway
PRELOADED = (
    "trio",
    "zmq",
    "msgspec",
    "swarm.worker.agent",
    "swarm.worker.exec.launcher",
    "swarm.worker.tools.registry",
    "swarm.worker.policy.decide",
    "swarm.worker.patch.apply",
    "swarm.worker.sandbox.plan",
)


class Preparation(NamedTuple):
    """Done once, here, what every agent would do for itself. Leaves no thread and no descriptor."""

    quickly: Callable[[], None]  # before the first child, which waits for it
    thoroughly: Callable[[], Iterator[None]]  # in short steps: a child may be forked between two


def begin(channel_fd: int, lifeline_fd: int) -> NoReturn:
    """Preload and serve; the entry by name, for a child of the entry process. Never returns."""
    started = time.monotonic()
    lifeline.hold_lifeline(lifeline_fd)  # before all else: it may be stopped while it imports
    with no_collections():
        for name in PRELOADED:
            with suppress(ImportError):  # an agent that needs it repeats it and shows the error
                importlib.import_module(name)
        launcher = importlib.import_module("swarm.worker.exec.launcher")
        preparation = importlib.import_module("swarm.worker.preparation")
    serve(
        socket.socket(fileno=channel_fd),
        lifeline_fd,
        boot.run,
        early=Beginning(launcher.fork_early, launcher.tell_early, preparation.live_in_memory),
        prepare=Preparation(preparation.live_in_memory, preparation.prepare_thoroughly),
        preload_s=time.monotonic() - started,
    )


def serve(
    channel: socket.socket,
    lifeline_fd: int,
    entry: Entry,
    *,
    early: Beginning | None = None,
    prepare: Preparation | None = None,
    preload_s: float = 0.0,
) -> NoReturn:
    """Obey orders until the channel or the life-line ends; then end everything below.

    Args:
        channel: A blocking SOCK_SEQPACKET whose other end the supervisor holds.
        lifeline_fd: The life-line's reading end; every child keeps it.
        entry: What a child becomes.
        early: What a child without keys (an agent) does before it is touched.
        prepare: Quickly before the first child; thoroughly, step by step, while nothing is ordered
            after the first agent, and one step after each further agent however many wait.
        preload_s: What the imports took; reported once.
    """
    boot.set_title("swarm: fork-server")  # its first call sets up what later ones share
    become_subreaper()
    share_one_heap()
    server = _ForkServer(channel, lifeline_fd, entry, early, prepare)
    lifeline.hold_lifeline(lifeline_fd, at_end=server.kill_all)  # now the guarded ones too
    if prepare is not None:
        prepare.quickly()
    gc.collect()
    gc.freeze()  # children share these pages until somebody writes to them
    with suppress(BrokenPipeError, ConnectionResetError):  # the supervisor is gone
        server.report(ServerReady(preload_s=preload_s))
        server.loop()
    if lifeline.has_ended(lifeline_fd):
        lifeline.end_everything()
    lifeline.sweep(os.getpid())
    leave(0)


class _ForkServer:
    def __init__(
        self,
        channel: socket.socket,
        lifeline_fd: int,
        entry: Entry,
        early: Beginning | None,
        prepare: Preparation | None,
    ) -> None:
        self._channel, self._lifeline_fd = channel, lifeline_fd
        self._entry, self._early = entry, early
        self._steps = None if prepare is None else prepare.thoroughly()
        self._calm_ms: int | None = None  # before the next step; None: until the first agent
        self._ours: set[int] = set()  # pids of agents not yet reaped
        self._dead: dict[int, float] = {}  # those that ended → when to report them at the latest
        self._guarded: dict[int, int] = {}  # pid → pidfd of processes that are not below us
        self._run = ""
        self._spare: Spare | None = None
        self._wants_spare = False
        self._silent: set[int] = set()  # spares that have no order: nobody is told of their end
        self._woken, self._waker = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)

    def loop(self) -> None:
        """Return when the supervisor closed the channel or is gone."""
        signal.signal(signal.SIGCHLD, _wake)
        self._listen()
        poll = select.poll()
        poll.register(self._channel, select.POLLIN)
        poll.register(self._lifeline_fd, select.POLLIN)
        poll.register(self._woken, select.POLLIN)
        while True:
            ready = {fd for fd, _ in poll.poll(self._patience_ms())}
            if self._lifeline_fd in ready:
                return
            if self._woken in ready:
                os.read(self._woken, 4096)
            if self._woken in ready or self._dead:
                self._reap()
            if self._channel.fileno() in ready and not self._obey():
                return
            if not ready:
                self._use_idleness()

    def _patience_ms(self) -> int | None:
        if self._dead:
            return _LOOK_AGAIN_MS
        if self._steps is not None:
            return self._calm_ms
        return _IDLE_MS if self._wants_spare else None

    def _use_idleness(self) -> None:
        if self._calm_ms is not None and self._steps is not None:
            self._prepare_on(self._steps)
        elif self._wants_spare:
            self._fork_spare()

    def _listen(self) -> None:
        signal.set_wakeup_fd(self._waker, warn_on_full_buffer=False)

    def _prepare_after_birth(self) -> None:
        """The first agent has the processors to itself; of many in a row each pays for a step."""
        if self._calm_ms is None:
            self._calm_ms = _CALM_MS
        elif self._steps is not None:
            self._prepare_on(self._steps)

    def _prepare_on(self, steps: Iterator[None]) -> None:
        """One step, between two children; what ends meanwhile is reaped after it."""
        self._calm_ms = 0
        signal.set_wakeup_fd(-1)
        if next(steps, self) is self:  # that was the last
            self._steps = None
            gc.collect()
            gc.freeze()
        self._listen()
        self._reap()

    def report(self, report: AnyForkReport, *fds: int) -> None:
        socket.send_fds(self._channel, [encode_fork(report)], fds)

    def kill_all(self) -> None:
        """Every agent at once: what they leave comes to us. Then the trees that are not below us:
        first stop each, so that nothing new is born.
        """
        for pid in self._ours:  # not reaped, so the numbers are theirs
            os.kill(pid, signal.SIGKILL)
        for pid, pidfd in self._guarded.items():
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(pidfd, signal.SIGSTOP)
                kill_descendants(pid)
                signal.pidfd_send_signal(pidfd, signal.SIGKILL)

    def _obey(self) -> bool:
        flags = socket.MSG_CMSG_CLOEXEC
        packet, fds, _, _ = socket.recv_fds(self._channel, _PACKET_BYTES, _MOST_FDS, flags)
        if not packet:
            return False
        received: AnyForkOrder = decode_fork_order(packet)
        match received:
            case StartProcess() as order:
                self._start(order, fds)
                if not order.is_service:
                    self._prepare_after_birth()
            case GuardProcess(pid=pid):
                self._forget_dead()
                self._guarded[pid] = fds[0]
            case ChangeVariable() as change:
                _change(change)
        return True

    def _start(self, order: StartProcess, fds: list[int]) -> None:
        if order.run != self._run:
            self._run = order.run
            boot.set_title(f"swarm: fork-server {order.run}")
        try:
            pid = self._use_spare(order, fds) or self._fork(order, fds)
        except OSError as error:
            self.report(StartFailed(request=order.request, reason=f"fork: {error.strerror}"))
        else:
            self._ours.add(pid)
            with suppress(OSError):  # the child does it too; whoever comes first
                os.setpgid(pid, pid)
            pidfd = os.pidfd_open(pid)
            self.report(ProcessStarted(request=order.request, pid=pid), pidfd)
            os.close(pidfd)
        finally:
            for fd in fds:
                os.close(fd)

    def _use_spare(self, order: StartProcess, fds: list[int]) -> int:
        """The process that was ready for this order; 0: there is none."""
        if order.has_keys or order.is_service:
            return 0
        spare, self._spare = self._spare, None
        self._wants_spare = order.may_follow and self._early is not None
        if spare is None or not spare.obey(order, fds):
            return 0
        self._silent.discard(spare.pid)
        return spare.pid

    def _fork_spare(self) -> None:
        self._wants_spare = False
        early = self._early
        assert early is not None
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        before_fork()
        try:
            pid = fork_bare()
            if pid == 0:
                line = self._lifeline_fd
                live_and_leave(lambda: wait_and_become(self._entry, early, theirs, line, self._run))
        except OSError:  # the next agent is forked when it is wanted
            ours.close()
            return
        finally:
            settle_parent()
            theirs.close()
        self._ours.add(pid)
        self._silent.add(pid)
        self._spare = Spare(pid, ours)

    def _fork(self, order: StartProcess, fds: list[int]) -> int:
        before_fork()
        try:
            pid = fork_bare()
            if pid == 0:
                live_and_leave(lambda: self._become(order, fds))
        finally:
            settle_parent()
        return pid

    def _become(self, order: StartProcess, fds: list[int]) -> int:
        """In the child: shed what is the server's and be what was ordered; its exit code."""
        spec_fd, stderr_fd, *rest = fds
        kept = {spec_fd, self._lifeline_fd, *rest}
        if self._early is not None and not (order.has_keys or order.is_service):
            sock = self._early.fork_launcher(
                lifeline_fd=self._lifeline_fd,
                stderr_fd=stderr_fd,
                spec_fd=spec_fd,
                title=boot.launcher_title(order.title),
            )
            kept.add(sock)
        settle_child()
        self._channel.close()
        shed_inheritance(stderr_fd=stderr_fd, keep=kept)
        boot.set_title(order.title)
        return self._entry(spec_fd, rest[0] if order.has_keys else None, self._lifeline_fd)

    def _reap(self) -> None:
        """Report the agents that ended, each once nothing lives that it left to us.

        Until then it stays a zombie: its number must not become another agent's.
        """
        now = time.monotonic()
        for pid in [one for one in self._ours if one not in self._dead and _has_ended(one)]:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(pid, signal.SIGKILL)  # nobody else's group, while it is a zombie
            self._dead[pid] = now + _LEFTOVERS_LIMIT_S
        left = self._kill_orphans()  # looked for after the deaths: what the dead left is ours now
        for pid, latest in list(self._dead.items()):
            if not left or now > latest:
                _, status = os.waitpid(pid, 0)
                del self._dead[pid]
                self._ours.discard(pid)
                if pid not in self._silent:
                    self.report(ProcessExited(pid=pid, status=status))
                self._silent.discard(pid)

    def _kill_orphans(self) -> int:
        """One round; returns how many it found. None: nothing lives that the dead left to us.

        One that has ended counts too: what it left came to us after we had begun to look.
        """
        orphans = set(children_of(os.getpid())) - self._ours
        for orphan in orphans:
            if _has_ended(orphan):
                os.waitpid(orphan, 0)
                continue
            strike_descendants(orphan)
            with suppress(PermissionError):
                os.kill(orphan, signal.SIGKILL)
        return len(orphans)

    def _forget_dead(self) -> None:
        for pid, pidfd in list(self._guarded.items()):
            if lifeline.is_over(pidfd):
                os.close(self._guarded.pop(pid))


def _change(change: ChangeVariable) -> None:
    """Have the environment of today; of a key that was in yesterday's no copy is left."""
    if change.value is None:
        forget(take_keys(os.environ, (change.name,)).values())
    else:
        os.environ[change.name] = change.value


def _has_ended(child: int) -> bool:
    """True if this child of ours waits to be reaped."""
    return os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def _wake(number: int, frame: object) -> None:
    """The wake-up descriptor does the work."""


def main() -> NoReturn:
    """The cold entry; descriptors are given as numbers."""
    channel_fd, lifeline_fd = map(int, sys.argv[1:3])
    for fd in (channel_fd, lifeline_fd):
        os.set_inheritable(fd, False)
    forbid_dumps()
    leave_folder()
    ignore_interrupts()
    begin(channel_fd, lifeline_fd)


if __name__ == "__main__":
    main()

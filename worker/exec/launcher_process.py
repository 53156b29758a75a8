"""The launcher process: starts commands, reaps them, and leaves none behind.

It has one thread, no Trio and no ZeroMQ. When its socket or the lifeline closes, it kills all its
descendants and exits. As a child subreaper it adopts orphans of commands. While it kills a command,
it also kills orphans that belong to no running command or whose owner is unknown.
"""

import contextlib
import gc
import os
import resource
import select
import signal
import socket
import time
import traceback
from collections import deque
from typing import NoReturn

from setproctitle import setproctitle

from swarm.mailbox.base.after_fork import (
    DEFAULT_HANDLER,
    IGNORE_HANDLER,
    after_fork_in_child,
    become_subreaper,
    close_all_but,
    redirect_output,
    set_handler,
)
from swarm.mailbox.base.process_tree import children_of, descendants_of, kill_descendants_once

from ..sandbox.placeholders import remove_placeholder
from . import command_spawn
from .brokered_spawn import wait_for_brokers
from .command_processes import (
    COMMAND_VARIABLE,
    CommandTable,
    command_mark,
    has_children,
    kill_groups,
    outside_group,
)
from .forked_command import ForkedCommand, exec_forked_command, receive_child_report
from .launch_policy import LaunchPolicy, read_launch_policy
from .launcher_protocol import (
    AnyOrder,
    AnyReply,
    CommandEnded,
    CommandLaunched,
    CommandLimits,
    KillOrder,
    LaunchOrder,
    NotLaunched,
    Overrun,
    Ping,
    Pong,
    SignalOrder,
    TreeGone,
    receive_order,
    send_reply,
)
from .orphan_usage import OrphanUsage, add_usage, usage_of
from .watchdog import Watchdog

_SHUTDOWN_LIMIT_S = 2.0
_KILL_INTERVAL_MS, _TITLE_BYTES = 2, 4096


class LauncherProcess:
    """The state of one launcher. Only `run` blocks."""

    def __init__(
        self, sock: socket.socket, lifeline_fd: int | None, pin: LaunchPolicy | None
    ) -> None:
        self._sock, self._lifeline, self._launch_policy = sock, lifeline_fd, pin
        self._commands, self._poll = CommandTable(), select.poll()
        self._wrapped: set[int] = set()
        self._starting: dict[int, ForkedCommand] = {}  # by the report's descriptor
        self._outbox: deque[AnyReply] = deque()
        self._placeholders: set[str] = set()
        self._watchdog, self._orphans = Watchdog(), OrphanUsage()

    def run(self) -> None:
        """Serve orders; return when the agent or the run has ended."""
        awake, wake = socket.socketpair()
        for end in (awake, wake, self._sock):
            end.setblocking(False)
        signal.set_wakeup_fd(wake.fileno(), warn_on_full_buffer=False)
        try:
            self._serve(awake)
        finally:
            signal.set_wakeup_fd(-1)

    def _serve(self, awake: socket.socket) -> None:
        for one in (awake, self._sock, self._lifeline):
            if one is not None:
                self._poll.register(one, select.POLLIN)
        while True:
            wait_ms = _KILL_INTERVAL_MS if self._commands.dying else self._watchdog.next_check_ms()
            for fd, _ in self._poll.poll(wait_ms):
                if fd == self._sock.fileno():
                    if not self._receive_orders():
                        return
                elif fd == self._lifeline:
                    return
                elif fd in self._starting:
                    self._handle_started(fd)
                else:
                    if signal.SIGTERM in _drained(awake):
                        return
                    self._reap()
            self._commands.dying.update(self._watchdog.check(self._commands.processes_by_command))
            if self._commands.dying:
                self._kill_dying()
            self._flush()

    def shut_down(self) -> None:
        """Kill all descendants until none is left, for at most 2 s (one may hang on a disk)."""
        self._watchdog.drop_priority()
        deadline = time.monotonic() + _SHUTDOWN_LIMIT_S
        while has_children() and time.monotonic() < deadline:
            kill_descendants_once(os.getpid())
            time.sleep(0.001)
        self._watchdog.close()
        wait_for_brokers(_SHUTDOWN_LIMIT_S)
        for path in self._placeholders:
            remove_placeholder(path)

    def _receive_orders(self) -> bool:
        while True:
            try:
                received = receive_order(self._sock)
            except BlockingIOError:
                return True
            except OSError:
                return False
            if received is None:
                return False
            order, fds = received
            self._handle_order(order, fds)
            for fd in fds:
                os.close(fd)

    def _handle_order(self, order: AnyOrder, fds: list[int]) -> None:
        match order:
            case LaunchOrder():
                self._launch(order, fds)
            case SignalOrder(token=token, number=number):
                self._signal(token, number)
            case KillOrder(token=token):
                self._commands.dying.add(token)
            case Ping():
                self._reply(Pong())

    def _launch(self, order: LaunchOrder, fds: list[int]) -> None:
        if self._launch_policy is not None:
            allowed = self._launch_policy.enforce(order, fds)
            if allowed is None:
                self._reply(NotLaunched(token=order.token, errno=1, step="pinned"))
                return
            order = allowed
        self._watchdog.prepare(order.resources)
        order.environment[COMMAND_VARIABLE] = command_mark(order.token)
        self._placeholders.update(order.placeholders)
        if order.wrapped:
            self._wrapped.add(order.token)
        if command_spawn.needs_fork(order):
            self._fork(order, fds)
            return
        try:
            pid = command_spawn.spawn_command(order, fds)
        except command_spawn.SpawnFailed as failure:
            self._wrapped.discard(order.token)
            self._reply(NotLaunched(token=order.token, errno=failure.number, step=failure.step))
            return
        self._add_command(order, pid)
        self._reply(CommandLaunched(token=order.token, pid=pid))

    def _add_command(self, order: LaunchOrder, pid: int) -> None:
        self._commands.add(order.token, pid)
        self._watchdog.watch(order.token, order.resources)

    def _fork(self, order: LaunchOrder, fds: list[int]) -> None:
        """Fork a command that cannot be spawned; it runs once its report socket closes."""
        report, written = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        report.setblocking(False)
        try:
            pid = command_spawn.fork_command(
                order, fds, lambda now: exec_forked_command(now, fds, written.fileno())
            )
        except OSError as error:
            report.close()
            written.close()
            self._reply(NotLaunched(token=order.token, errno=error.errno or 0, step="fork"))
            return
        written.close()
        self._add_command(order, pid)
        self._starting[report.fileno()] = ForkedCommand(order, pid, report)
        self._poll.register(report, select.POLLIN)

    def _handle_started(self, report: int) -> None:
        """The child became its command (end of file), reported a failure, or sent its listener."""
        start = self._starting[report]
        said, listener = receive_child_report(start.report)
        if listener is not None and start.order.confinement is not None:
            command_spawn.serve_syscalls(listener, start.order.confinement)
            return  # its end of file follows
        del self._starting[report]
        self._poll.unregister(report)
        start.report.close()
        token, pid = start.order.token, start.pid
        if not said:
            self._reply(CommandLaunched(token=token, pid=pid))
            return
        number, _, step = said.decode().partition(" ")
        self._forget(pid)
        self._commands.drop_tree(token)
        self._reply(NotLaunched(token=token, errno=int(number), step=step))

    def _reap(self) -> None:
        with contextlib.suppress(ChildProcessError):
            while (ended := os.wait4(-1, os.WNOHANG))[0]:
                self._handle_ended(*ended)

    def _handle_ended(self, pid: int, status: int, used: resource.struct_rusage) -> None:
        for report in [fd for fd, start in self._starting.items() if start.pid == pid]:
            while report in self._starting:
                self._handle_started(report)  # it ended before its report was read
        token = self._commands.tokens.get(pid)
        if token is None:
            self._orphans.reaped(pid, used)  # or it never became a command
            return
        code = os.waitstatus_to_exitcode(status)
        usage = usage_of(used, peak_bytes=self._watchdog.peak_bytes(token))
        orphans = [one for one in children_of(os.getpid()) if one not in self._commands.tokens]
        if token in self._wrapped and not orphans:  # its inner process was reaped before it
            usage = add_usage(usage, self._orphans.take_early())
        overrun = self._forget(pid, was_killed=code in (-signal.SIGKILL, 128 + signal.SIGKILL))
        self._orphans.note(token, orphans)
        if not orphans and token not in self._commands.dying:
            self._commands.drop_tree(token)
        self._reply(
            CommandEnded(
                token=token,
                exit_code=code if code >= 0 else None,
                signal=-code if code < 0 else None,
                leftovers=bool(orphans),
                overrun=overrun,
                usage=usage,
            )
        )

    def _forget(self, pid: int, *, was_killed: bool = False) -> Overrun | None:
        """Forget a command's first process; return the overrun for which it was killed, if any."""
        token = self._commands.tokens.pop(pid)
        self._commands.pids.pop(token)
        self._wrapped.discard(token)
        return self._watchdog.unwatch(token, was_killed=was_killed)

    def _signal(self, token: int, number: int) -> None:
        pid = self._commands.pids.get(token)
        if pid is None:
            return
        if token in self._wrapped:
            # The signal would kill bwrap and its init, and the command with them.
            spared = {pid, *children_of(pid)}
            targets = [one for one in descendants_of(pid) if one not in spared]
        else:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(pid, number)
            targets = outside_group(descendants_of(pid), pid)
        for one in targets:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(one, number)

    def _kill_dying(self) -> None:
        """One round of killing for every dying token; a token with no live process is done."""
        self._reap()
        for token in tuple(self._commands.dying):
            victims = self._commands.processes_of(token)
            kill_groups(victims)  # first: all at once, so that no fork escapes
            for pid in victims:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            if not victims and token not in self._commands.pids:
                self._reap()  # what has just died
                self._commands.drop_tree(token)
                self._reply(TreeGone(token=token, usage=self._orphans.take(token)))

    def _reply(self, reply: AnyReply) -> None:
        self._outbox.append(reply)

    def _flush(self) -> None:
        events = select.POLLIN
        while self._outbox:
            try:
                send_reply(self._sock, self._outbox[0])
            except BlockingIOError:
                events |= select.POLLOUT
                break
            except OSError:
                break  # the agent is gone; the next poll reports it
            self._outbox.popleft()
        self._poll.modify(self._sock, events)


def _drained(sock: socket.socket) -> bytes:
    with contextlib.suppress(BlockingIOError):
        return sock.recv(4096)
    return b""


def become_launcher(
    sock: socket.socket,
    lifeline_fd: int | None,
    stderr_fd: int | None = None,
    spec_fd: int | None = None,
    title: str = "",
    *,
    waits: bool = False,
) -> NoReturn:
    """Run the launcher in a bare forked process; does not return.

    Args:
        sock: For orders and replies; the agent holds the other end.
        lifeline_fd: The run's lifeline; None: not watched.
        stderr_fd: For its errors; None: its standard files are right already.
        spec_fd: The agent's sealed spec, for the launch policy of a locked role; None: no policy.
        title: What `ps` shows; "": unchanged.
        waits: Its first packet brings standard files, spec and title (`configure_early_launcher`).
    """
    code = 1
    try:
        os.setpgid(0, 0)
        if stderr_fd is not None:
            signal.set_wakeup_fd(-1)  # the fork server's
            redirect_output(stderr_fd)
        kept = (fd for fd in (lifeline_fd, spec_fd) if fd is not None)
        close_all_but({0, 1, 2, sock.fileno(), *kept})
        if title:
            setproctitle(title)
        if waits and _wait_first_order(sock, lifeline_fd):
            spec_fd = _receive_setup(sock)
        if _wait_first_order(sock, lifeline_fd):
            after_fork_in_child()
            _serve_orders(sock, lifeline_fd, spec_fd)
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


def _receive_setup(sock: socket.socket) -> int:
    """Receive `configure_early_launcher`'s packet; the spec's fd. Raises OSError: no agent."""
    title, fds, _, _ = socket.recv_fds(sock, _TITLE_BYTES, 2, socket.MSG_CMSG_CLOEXEC)
    if len(fds) != len(("stderr", "spec")):
        raise OSError("its agent ended")
    stderr_fd, spec_fd = fds
    redirect_output(stderr_fd)
    os.close(stderr_fd)
    setproctitle(title.decode(errors="replace"))
    return spec_fd


def _wait_first_order(sock: socket.socket, lifeline_fd: int | None) -> bool:
    """Sleep until the first order, in one system call. False: the agent or the run is gone."""
    poll = select.poll()
    poll.register(sock, select.POLLIN)
    if lifeline_fd is not None:
        poll.register(lifeline_fd, select.POLLIN)
    return all(events == select.POLLIN for _, events in poll.poll())


def _serve_orders(sock: socket.socket, lifeline_fd: int | None, spec_fd: int | None) -> None:
    """Set up the process for commands and serve orders."""
    become_subreaper()
    os.set_inheritable(sock.fileno(), False)  # no command may ever send as the agent
    if lifeline_fd is not None:
        os.set_inheritable(lifeline_fd, False)
    command_spawn.set_process_limits(CommandLimits())
    gc.disable()  # no cycles are made; collecting would touch every shared page
    gc.freeze()
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    set_handler(signal.SIGINT, IGNORE_HANDLER)
    set_handler(signal.SIGHUP, IGNORE_HANDLER)
    set_handler(signal.SIGCONT, DEFAULT_HANDLER)  # the fork server's handler, if any
    for number in (signal.SIGTERM, signal.SIGCHLD):
        set_handler(number, _ignore)  # the wake-up socket reports them
    pin = None if spec_fd is None else read_launch_policy(spec_fd)
    launcher = LauncherProcess(sock, lifeline_fd, pin)
    try:
        launcher.run()
    finally:
        launcher.shut_down()


def _ignore(number: int, frame: object) -> None:
    """A handler, because an ignored signal would not reach the wake-up socket."""

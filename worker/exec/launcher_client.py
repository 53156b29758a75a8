"""The agent's client of its launcher: fork it first, then send it orders.

`fork_launcher` is called while the process has one thread, no Trio and no ZeroMQ context. Nothing
here forks later, because a process with threads must not.
"""

import contextlib
import errno
import os
import signal
import socket
import sys
import threading
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from itertools import count
from typing import cast

import msgspec
import trio
from setproctitle import getproctitle

from swarm.mailbox.base.after_fork import after_fork_in_parent, before_fork, fork_bare

from ..base.process_title import launcher_title
from .command_state import (
    TREE_KILL_LIMIT_S,
    CommandNotStarted,
    CommandState,
    ExitStatus,
    LauncherGone,
    ProcessTreeStuck,
)
from .launcher_process import become_launcher
from .launcher_protocol import (
    AnyOrder,
    AnyReply,
    CommandEnded,
    CommandLaunched,
    KillOrder,
    LaunchOrder,
    NotLaunched,
    Ping,
    Pong,
    SignalOrder,
    TreeGone,
    pack_order,
    receive_reply,
    send_packed,
)

_SOCKET_BUFFER_BYTES = 1 << 20
ASK_AFTER_S = 5.0  # an order unanswered for so long: send a ping
SILENCE_S = 10.0  # a launcher that leaves a ping unanswered for so long counts as dead
_START_LIMIT_S = 60.0  # for a program to become its command: a file system may hang
_LEAVE_LIMIT_S = 2.5  # for a launcher to exit after its agent hung up; then it is killed


class LauncherLink(msgspec.Struct, frozen=True, kw_only=True):
    """What `fork_launcher` returns; `open_launcher` closes `sock`."""

    pid: int
    sock: socket.socket


class _EarlyLauncher:
    link: LauncherLink | None = None  # made by `fork_launcher_early` for `fork_launcher`


def fork_launcher(*, lifeline_fd: int | None, spec_fd: int | None = None) -> LauncherLink:
    """Fork the launcher, or return the one that `fork_launcher_early` made.

    Args:
        lifeline_fd: Reading end of the run's lifeline pipe; when it closes, the launcher kills all
            commands and exits.
        spec_fd: The agent's sealed spec. For a locked role the launcher enforces it from its first
            command on. None: nothing is enforced.

    Raises:
        RuntimeError: this process has more than one thread.
        OSError: no process or socket could be made.
    """
    early, _EarlyLauncher.link = _EarlyLauncher.link, None
    if early is not None:
        return early
    if threading.active_count() != 1:
        raise RuntimeError("the launcher must be forked while there is one thread")
    sys.stdout.flush()
    sys.stderr.flush()
    before_fork()
    try:
        return _fork(lifeline_fd, None, spec_fd, launcher_title(getproctitle()))
    finally:
        after_fork_in_parent()


def fork_launcher_early(
    *,
    lifeline_fd: int | None,
    stderr_fd: int,
    spec_fd: int | None = None,
    title: str = "",
    waits: bool = False,
) -> int:
    """Fork the launcher as the first act of an agent that is itself a bare fork (`fork_bare`).

    Each page that a process writes before it forks exists twice; a launcher forked this early
    shares nearly all of its memory with the fork server. `fork_launcher` returns it later.

    With `waits`, the launcher gets its standard files, spec and title only by
    `configure_early_launcher`.

    Returns the descriptor that must stay open until then. Raises OSError.
    """
    _EarlyLauncher.link = link = _fork(lifeline_fd, stderr_fd, spec_fd, title, waits=waits)
    return link.sock.fileno()


def configure_early_launcher(title: str, stderr_fd: int, spec_fd: int) -> None:
    """Send a waiting launcher what it needs before its first order. Raises OSError: it is dead."""
    link = _EarlyLauncher.link
    if link is not None:
        socket.send_fds(link.sock, [title.encode()], (stderr_fd, spec_fd))


def _fork(
    lifeline_fd: int | None,
    stderr_fd: int | None,
    spec_fd: int | None,
    title: str,
    *,
    waits: bool = False,
) -> LauncherLink:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    for end in (ours, theirs):
        end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SOCKET_BUFFER_BYTES)
    pid = fork_bare()
    if pid == 0:
        become_launcher(theirs, lifeline_fd, stderr_fd, spec_fd, title, waits=waits)
    theirs.close()
    return LauncherLink(pid=pid, sock=ours)


def is_launcher_loss(error: BaseException) -> bool:
    """True for a LauncherGone, or a group that contains nothing else."""
    if isinstance(error, BaseExceptionGroup):
        group = cast("BaseExceptionGroup[BaseException]", error)
        return all(is_launcher_loss(member) for member in group.exceptions)
    return isinstance(error, LauncherGone)


class LauncherClient:
    """Sends orders and waits for their results. One task (in `open_launcher`) receives replies.

    Each request has a deadline. A launcher that does not answer (stopped, hung) is killed and
    counts as dead from then on.
    """

    def __init__(self, sock: socket.socket, pid: int | None = None) -> None:
        self._sock, self._pid = sock, pid
        self._commands: dict[int, CommandState] = {}
        self._tokens = count(1)
        self._sending = trio.Lock()
        self._pong = trio.Event()
        self._gone = trio.Event()

    async def wait_gone(self) -> None:
        """Return when the launcher, with every command, has died."""
        await self._gone.wait()

    async def fail_when_gone(self, why: str) -> None:
        """Raise LauncherGone when the launcher ends.

        Without a launcher a process can start nothing, and it cannot fork another one because it
        has threads now. So the process ends, what it started ends, and the supervisor's restart
        rule applies.
        """
        await self.wait_gone()
        raise LauncherGone(why)

    async def check_alive(self) -> None:
        """Return if the launcher answers; otherwise kill it. Raises LauncherGone."""
        pong = self._pong
        with trio.move_on_after(SILENCE_S):
            await self._send(Ping(), ())
            await pong.wait()
        if not pong.is_set():
            self._kill()
        if self._gone.is_set():
            raise LauncherGone("the launcher does not answer; it has been killed")

    def next_token(self) -> int:
        """A number for the next LaunchOrder; never used twice."""
        return next(self._tokens)

    async def launch(
        self,
        order: LaunchOrder,
        *,
        stdin_fd: int,
        stdout_fd: int,
        stderr_fd: int,
        bwrap_fds: Sequence[int] = (),
    ) -> CommandLaunched:
        """Start a command; return when its program runs.

        The caller keeps the fds; `bwrap_fds` are the seccomp filter and, if there is one, the
        route's socket. If cancelled, the command is killed. Raises CommandNotStarted, LauncherGone.
        """
        command = self._commands[order.token] = CommandState()
        fds = [stdin_fd, stdout_fd, stderr_fd, *bwrap_fds]
        try:
            await self._send(order, fds)
            await self._wait_answer(command.begun, _START_LIMIT_S)
        except ValueError as error:
            del self._commands[order.token]
            raise CommandNotStarted(
                program=order.argv[0], number=errno.EILSEQ, step=str(error)
            ) from error
        except trio.Cancelled:
            self._send_nowait(KillOrder(token=order.token))
            raise
        match command.launch:
            case CommandLaunched() as launched:
                return launched
            case None if not self._gone.is_set():
                self._send_nowait(KillOrder(token=order.token))
                raise CommandNotStarted(program=order.argv[0], number=errno.ETIMEDOUT, step="start")
            case NotLaunched(errno=number, step=step):
                del self._commands[order.token]
                raise CommandNotStarted(
                    program=order.argv[0], number=number, step=step, cwd=order.cwd
                )
            case None:
                raise LauncherGone("the launcher died; no command can be started")

    async def wait(self, token: int) -> ExitStatus:
        """The exit status of a launched command's first process. Raises LauncherGone."""
        command = self._commands[token]
        await command.ended.wait()
        if command.status is None:
            raise LauncherGone("the launcher died, and the command with it")
        return command.status

    def signal(self, token: int, number: signal.Signals) -> None:
        """Send a signal to the command's processes; nothing happens if the command has ended."""
        self._send_nowait(SignalOrder(token=token, number=number))

    async def kill_tree(self, token: int) -> None:
        """SIGKILL the whole tree; return when no process of it lives.

        Raises LauncherGone, ProcessTreeStuck.
        """
        command = self._commands.get(token)
        if command is None or command.gone.is_set():
            return
        command.is_dying = True
        await self._send(KillOrder(token=token), ())
        if not await self._wait_answer(command.gone, TREE_KILL_LIMIT_S):
            raise ProcessTreeStuck

    async def _wait_answer(self, event: trio.Event, limit_s: float) -> bool:
        """Wait for the launcher's reply, and ping the launcher every few seconds.

        False if it lives but does not reply within `limit_s`. Raises LauncherGone.
        """
        deadline = trio.current_time() + limit_s
        while not event.is_set() and trio.current_time() < deadline:
            with trio.move_on_at(min(deadline, trio.current_time() + ASK_AFTER_S)):
                await event.wait()
            if not event.is_set():
                await self.check_alive()
        return event.is_set()

    def _kill(self) -> None:
        """Kill the launcher. Its children are reparented to this agent, which is a subreaper."""
        if self._pid is not None and not self._gone.is_set():
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(self._pid, signal.SIGKILL)  # not reaped before `open_launcher` ends
        self._mark_gone()

    def _mark_gone(self) -> None:
        self._gone.set()
        self._pong.set()
        for command in self._commands.values():
            for event in (command.begun, command.ended, command.gone):
                event.set()

    def forget(self, token: int) -> None:
        """Drop what is known of an ended command."""
        command = self._commands.get(token)
        if command is None:
            return
        command.is_forgotten = True
        if command.gone.is_set() or not command.is_dying:
            del self._commands[token]

    async def _send(self, order: AnyOrder, fds: Sequence[int]) -> None:
        if self._gone.is_set():
            raise LauncherGone("the launcher has died")
        datagram, carried, spare = pack_order(order, fds)
        try:
            with trio.move_on_after(SILENCE_S):
                async with self._sending:
                    while True:
                        try:
                            return send_packed(self._sock, datagram, carried)
                        except BlockingIOError:
                            await trio.lowlevel.wait_writable(self._sock)
            self._kill()  # it reads nothing: its socket is full
            raise LauncherGone("the launcher does not answer; it has been killed")
        except OSError as error:
            raise LauncherGone("the launcher has died") from error
        finally:
            if spare is not None:
                os.close(spare)

    def _send_nowait(self, order: AnyOrder) -> None:
        datagram, _, _ = pack_order(order)
        with contextlib.suppress(OSError):  # full or gone: closing the socket kills all anyway
            send_packed(self._sock, datagram, ())

    async def receive_replies(self) -> None:
        """Handle replies until the launcher is gone; then wake everything that waits."""
        while True:
            try:
                reply = receive_reply(self._sock)
            except BlockingIOError:
                await trio.lowlevel.wait_readable(self._sock)
                continue
            except OSError:
                break
            if reply is None:
                break
            self._handle_reply(reply)
        self._mark_gone()

    def _handle_reply(self, reply: AnyReply) -> None:
        if isinstance(reply, Pong):
            self._pong.set()
            self._pong = trio.Event()
            return
        command = self._commands.get(reply.token)
        if command is None:
            return
        match reply:
            case CommandLaunched() | NotLaunched():
                command.launch = reply
                command.begun.set()
            case CommandEnded():
                command.status = ExitStatus(
                    exit_code=reply.exit_code,
                    signal=reply.signal,
                    leftovers=reply.leftovers,
                    overrun=reply.overrun,
                    usage=reply.usage,
                )
                command.ended.set()
            case TreeGone():
                command.add_usage(reply.usage)
                command.gone.set()
                if command.is_forgotten:
                    del self._commands[reply.token]


@asynccontextmanager
async def open_launcher(link: LauncherLink) -> AsyncIterator[LauncherClient]:
    """The launcher for the block's duration; at its end every command is killed and it exits."""
    link.sock.setblocking(False)
    launcher = LauncherClient(link.sock, link.pid)
    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(launcher.receive_replies)
            yield launcher
            nursery.cancel_scope.cancel()
    finally:
        link.sock.close()
        with trio.CancelScope(shield=True):
            await _reaped(link.pid)


async def _reaped(pid: int) -> None:
    """Wait for the launcher's exit; kill it if it does not exit in time (it may be stopped)."""
    try:
        handle = os.pidfd_open(pid)
    except OSError:
        return
    try:
        with trio.move_on_after(_LEAVE_LIMIT_S) as leaving:
            await trio.lowlevel.wait_readable(handle)
        if leaving.cancelled_caught:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(handle, signal.SIGKILL)
            with trio.move_on_after(_LEAVE_LIMIT_S):
                await trio.lowlevel.wait_readable(handle)
        _reap(pid)
    finally:
        os.close(handle)


def _reap(pid: int) -> None:
    with contextlib.suppress(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)

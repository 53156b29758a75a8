"""One running command: its output in chunks, its input, its exit, and the end of its tree.

The files of a command never leak: `start_command` or `RunningCommand.close` closes what
`start_command` opened. Standard output and error share one pipe, so their order is the real one.
"""

import contextlib
import errno
import fcntl
import os
import pty
import resource
import signal
import struct
import termios
from typing import NamedTuple

import trio

from swarm.mailbox.protocol.proxy import RouteBlocked
from swarm.mailbox.protocol.values.base import Value
from swarm.mailbox.protocol.values.limits import ResourceLimits

from ..sandbox.prepared_command import PreparedCommand, prepare_command
from ..sandbox.sandbox_plan import SandboxPlan
from .command_route import CommandRoute, RouteRequest
from .command_state import CommandNotStarted, ExitStatus, LauncherGone
from .launcher_client import LauncherClient
from .launcher_protocol import CommandLaunched, CommandLimits, LaunchOrder
from .script_arguments import check_room, fit_script

_CHUNK_BYTES = 64 * 1024
_KILL_LIMIT_S = 5.0
_WINDOW_SIZE = struct.pack("HHHH", 24, 80, 0, 0)  # of a new terminal: rows, columns


class CommandRequest(Value):
    """What to run, and within which sandbox and limits."""

    argv: tuple[str, ...]
    cwd: str
    environment: dict[str, str]
    sandbox: SandboxPlan
    tty: bool = False
    limits: CommandLimits = CommandLimits()
    route: RouteRequest | None = None  # for a proxied sandbox
    resources: ResourceLimits = ResourceLimits()


class InputClosed(OSError):
    """The command has no open input: it was started without a terminal, or has ended."""


class RunningCommand:
    """Made by `start_command`. One task receives; any task writes, signals or kills."""

    def __init__(
        self,
        launcher: LauncherClient,
        launched: CommandLaunched,
        prepared: PreparedCommand,
        fd: int,
        *,
        tty: bool,
    ) -> None:
        self.pid, self.token, self.is_tty = launched.pid, launched.token, tty
        self.is_wrapped = prepared.wrapped
        self._launcher, self._prepared, self._fd = launcher, prepared, fd
        self._write_lock = trio.Lock()
        self._route: CommandRoute | None = None

    async def receive(self) -> bytes:
        """The next chunk of output; b"" at its end. Cancelling it loses nothing."""
        while True:
            try:
                return self.receive_nowait()
            except BlockingIOError:
                await trio.lowlevel.wait_readable(self._fd)

    def receive_nowait(self) -> bytes:
        """The output available now; b"" at the end. Raises BlockingIOError when there is none."""
        if self._fd < 0:
            return b""
        try:
            return os.read(self._fd, _CHUNK_BYTES)
        except BlockingIOError:
            raise
        except OSError as error:
            if error.errno == errno.EIO:  # a terminal whose other end is closed
                return b""
            raise

    async def write_stdin(self, data: bytes) -> int:
        """Write all of `data`; waits while the terminal is full. Returns its length.

        Raises InputClosed.
        """
        if not self.is_tty or self._fd < 0:
            raise InputClosed(errno.EBADF, "the command has no open input")
        written = 0
        async with self._write_lock:
            while written < len(data):
                try:
                    written += os.write(self._fd, data[written:])
                except BlockingIOError:
                    await trio.lowlevel.wait_writable(self._fd)
                except OSError as error:
                    raise InputClosed(error.errno, "the terminal is closed") from error
        return written

    async def wait(self) -> ExitStatus:
        """The exit status of the first process. Raises LauncherGone."""
        return await self._launcher.wait(self.token)

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to all its processes; nothing happens if it has ended."""
        self._launcher.signal(self.token, number)

    async def kill_tree(self) -> None:
        """SIGKILL the tree; return when no process lives. Raises LauncherGone, ProcessTreeStuck."""
        await self._launcher.kill_tree(self.token)

    async def attach_route(self, route: CommandRoute) -> None:
        """Use this route to the network; `close` closes it."""
        self._route = route
        await route.send_listener()

    def placeholders_intact(self) -> bool:
        """True while the placeholders that were made for it are in place."""
        return self._prepared.guard is None or self._prepared.guard.is_intact()

    def blocked_requests(self) -> tuple[RouteBlocked, ...]:
        """What the network proxy refused it so far, each once."""
        return self._route.blocked_requests() if self._route else ()

    def close(self) -> tuple[str, ...]:
        """Close its files, restore the folder (`PreparedCommand.close`). Call it after its end."""
        if self._fd < 0:
            return ()
        trio.lowlevel.notify_closing(self._fd)
        os.close(self._fd)
        self._fd = -1
        self._launcher.forget(self.token)
        if self._route is not None:
            self._route.close()
        return self._prepared.close()


class GivenFiles(NamedTuple):
    """Files for a command without a terminal; the caller keeps them."""

    stdin_fd: int | None = None  # None: no input
    stderr_fd: int | None = None  # None: where its output goes


NO_FILES = GivenFiles()


async def start_command(
    launcher: LauncherClient, request: CommandRequest, *, files: GivenFiles = NO_FILES
) -> RunningCommand:
    """Start a command; return when its program runs.

    Raises CommandNotStarted, CommandTooLong, SandboxUnavailable, LauncherGone. The caller closes
    the result.
    """
    try:
        prepared = prepare_command(
            request.sandbox, fit_script(request.argv), request.environment, tty=request.tty
        )
    except OSError as error:
        raise CommandNotStarted(
            program=request.argv[0], number=error.errno or 0, step=f"sandbox: {error}"
        ) from error
    route = None
    try:
        stack_bytes, _ = resource.getrlimit(resource.RLIMIT_STACK)
        check_room(prepared.argv, prepared.environment, stack_bytes=stack_bytes)
        if request.sandbox.proxied:
            route = CommandRoute(request.route or RouteRequest(endpoint="", ticket=b""))
        fd, launched = await _launch(launcher, request, prepared, route, files)
    except BaseException:
        prepared.close()
        if route is not None:
            route.close()
        raise
    command = RunningCommand(launcher, launched, prepared, fd, tty=request.tty)
    if route is not None:
        try:
            await command.attach_route(route)
        except BaseException:
            deadline = trio.current_time() + _KILL_LIMIT_S
            with (
                trio.CancelScope(shield=True, deadline=deadline),
                contextlib.suppress(LauncherGone),
            ):
                await command.kill_tree()
            command.close()
            raise
    return command


async def _launch(
    launcher: LauncherClient,
    request: CommandRequest,
    prepared: PreparedCommand,
    route: CommandRoute | None,
    files: GivenFiles,
) -> tuple[int, CommandLaunched]:
    """Our end of the command's input and output, and the launcher's reply."""
    order = LaunchOrder(
        token=launcher.next_token(),
        argv=prepared.argv,
        cwd=request.cwd,
        environment=prepared.environment,
        take_terminal=request.tty and not prepared.wrapped,
        wrapped=prepared.wrapped,
        placeholders=prepared.guard.placeholders if prepared.guard else (),
        limits=request.limits,
        resources=request.resources,
        confinement=prepared.confinement,
    )
    with contextlib.ExitStack() as theirs:
        ours, given, taken = _open_stdio(tty=request.tty)
        for fd in {given, taken}:
            theirs.callback(os.close, fd)
        errors = taken
        if not request.tty:
            given = given if files.stdin_fd is None else files.stdin_fd
            errors = taken if files.stderr_fd is None else files.stderr_fd
        inner = () if prepared.filter_fd is None else (prepared.filter_fd,)
        if route is not None:
            inner = (*inner, route.entrypoint_fd)
        try:
            launched = await launcher.launch(
                order, stdin_fd=given, stdout_fd=taken, stderr_fd=errors, bwrap_fds=inner
            )
        except BaseException:
            os.close(ours)
            raise
    return ours, launched


def _open_stdio(*, tty: bool) -> tuple[int, int, int]:
    """Our end, the child's input, the child's output and error. Raises OSError."""
    if tty:
        ours, taken = pty.openpty()
        os.set_blocking(ours, False)
        with contextlib.suppress(OSError):
            fcntl.ioctl(ours, termios.TIOCSWINSZ, _WINDOW_SIZE)
        return ours, taken, taken
    given = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    ours, taken = os.pipe2(os.O_CLOEXEC)
    os.set_blocking(ours, False)
    return ours, given, taken

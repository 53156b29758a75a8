"""A prewarmed sandbox: bubblewrap has already started when the next command comes.

A system shell waits inside and reads from a pipe which command to become. The sandbox is made while
a command runs, for a next command that differs only in its script. It serves one command, or ends
unused after 5 seconds.

It is used only if everything that it was made from is *now* as the command would have it: the plan,
the folders under its mounts, environment, folder and limits. In any doubt the command starts in a
fresh sandbox. The prewarmed sandbox ends with the block's nursery and leaves nothing behind. Hooks
have one of their own (`hook_commands.py`).
"""

import contextlib
import fcntl
import os
import re
import shlex
from collections.abc import Awaitable, Callable, Iterable, Mapping

import msgspec
import trio

from swarm.mailbox.base.errors import SwarmError

from ..sandbox.bwrap import bwrap_arguments
from ..sandbox.mount_fingerprint import MountFingerprint
from ..sandbox.sandbox_probe import find_system_program
from .launcher_client import LauncherClient
from .launcher_protocol import CommandLimits
from .running_command import CommandRequest, GivenFiles, RunningCommand, start_command

LIFETIME_S = 5.0  # unused; meanwhile the placeholders of its plan are in the folder
_START_DELAY_S = 0.001  # so that the command that has just begun goes first
_END_LIMIT_S = 1.0
_MOST_SCRIPT_BYTES = 32 * 1024  # a pipe takes so much in one write
_MIN_PROCESS_LIMIT = 64  # below this limit the waiting shell would count too much
_NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)
SET_BY_SHELLS = ("PWD", "OLDPWD")
# A shell changes these or does not pass them on. (It decrements SHLVL again when it execs.)
_SHELL_MANAGED = re.compile(
    r"IFS|OPT(ARG|IND|ERR)|LINENO|PPID|E?UID|PS\d|S?RANDOM|SECONDS|EPOCH\w+|GROUPS|DIRSTACK"
    r"|FUNCNAME|HISTCMD|PIPESTATUS|BASH\w*|SHELLOPTS|POSIXLY_CORRECT"
)


class WaitingSandbox:
    """A sandbox whose shell waits for a script. `stderr_fd`: where the command's errors come out.

    Whoever takes it closes `stderr_fd`.
    """

    def __init__(
        self,
        request: CommandRequest,
        command: RunningCommand,
        script_fd: int,
        fingerprint: MountFingerprint,
        *,
        stderr_fd: int | None = None,
    ) -> None:
        self.command, self.is_taken, self.stderr_fd = command, False, stderr_fd
        self._request, self._script_fd, self._fingerprint = request, script_fd, fingerprint

    def matches(self, request: CommandRequest) -> bool:
        """True if it was made for such a request and its mounts are still valid."""
        is_such = _comparable(request) == _comparable(self._request)
        return is_such and self.command.placeholders_intact() and self._fingerprint.is_unchanged()

    def send_script(self, script: bytes) -> bool:
        """Send the script; False if the shell has ended or the pipe did not take all of it."""
        if len(script) > fcntl.fcntl(self._script_fd, fcntl.F_GETPIPE_SZ):
            return False  # a part of it would run
        try:
            self.is_taken = os.write(self._script_fd, script) == len(script)
        except OSError:
            return False
        return self.is_taken

    async def end(self) -> None:
        """End an unused sandbox: without a script its shell exits."""
        self.release()
        with trio.CancelScope(shield=True), contextlib.suppress(SwarmError):
            with trio.move_on_after(_END_LIMIT_S):
                await self.command.wait()
            with trio.move_on_after(_END_LIMIT_S):
                await self.command.kill_tree()
        self.command.close()
        if self.stderr_fd is not None:
            os.close(self.stderr_fd)

    def release(self) -> None:
        """Close what only the waiting needed."""
        self._fingerprint.close()
        os.close(self._script_fd)


StartWaiting = Callable[[LauncherClient, CommandRequest], Awaitable[WaitingSandbox]]


class PrewarmedSandbox:
    """At most one waiting sandbox of one agent."""

    def __init__(
        self,
        launcher: LauncherClient,
        nursery: trio.Nursery,
        start: StartWaiting | None = None,
    ) -> None:
        """`start` makes a waiting sandbox; None: one for a command without input."""
        self._launcher, self._nursery = launcher, nursery
        self._start = start or _start_waiting_shell
        self._waiting: WaitingSandbox | None = None
        self._lifetimes: dict[trio.CancelScope, trio.Event] = {}  # set when the sandbox has ended
        self._is_disabled = False

    def take(self, request: CommandRequest) -> RunningCommand | None:
        """The command, started in the waiting sandbox; None if no waiting sandbox fits.

        A sandbox that no longer fits is ended.
        """
        if self._waiting is None or not can_prewarm(request):
            return None
        script = render_exec_script(request.argv, request.environment)
        ready = None if script is None else self.take_with(request, script)
        return None if ready is None else ready.command

    def take_with(self, request: CommandRequest, script: bytes) -> WaitingSandbox | None:
        """The waiting sandbox, in which the shell reads this script; None if none fits."""
        ready = self._waiting
        if ready is None or not can_prewarm(request):
            return None
        self._waiting = None
        is_told = ready.matches(request) and ready.send_script(script)
        self._cancel_all()
        if not is_told:
            return None
        ready.release()
        return ready

    def prepare_next(self, request: CommandRequest, *, after_s: float = _START_DELAY_S) -> None:
        """Prepare a sandbox for the next command if one may wait and none does.

        Call it when such a command has begun or ended. `after_s`: what else begins then goes first.
        """
        is_free = all(scope.cancel_called for scope in self._lifetimes)
        if is_free and not self._is_disabled and can_prewarm(request):
            scope = trio.CancelScope()
            self._lifetimes[scope] = trio.Event()
            self._nursery.start_soon(self._prepare, request, scope, after_s)

    async def discard(self) -> None:
        """End the waiting sandbox; on return the folder has none of its placeholders."""
        self._cancel_all()
        for gone in tuple(self._lifetimes.values()):
            await gone.wait()

    def _cancel_all(self) -> None:
        """End sandboxes that wait or are being made; a taken one goes on as a command."""
        for scope in self._lifetimes:
            scope.cancel()

    async def _prepare(
        self, request: CommandRequest, scope: trio.CancelScope, after_s: float
    ) -> None:
        try:
            with scope:
                await trio.sleep(after_s)
                await self._hold_until_taken(await self._start(self._launcher, request))
        except (SwarmError, OSError):
            self._is_disabled = True  # the next command reports the error
        finally:
            self._lifetimes.pop(scope).set()

    async def _hold_until_taken(self, ready: WaitingSandbox) -> None:
        self._waiting = ready
        try:
            with trio.move_on_after(LIFETIME_S):
                await ready.command.wait()
                self._is_disabled = not ready.is_taken  # the shell does not work in the sandbox
        finally:
            if self._waiting is ready:
                self._waiting = None
            if not ready.is_taken:
                await ready.end()


async def _start_waiting_shell(launcher: LauncherClient, request: CommandRequest) -> WaitingSandbox:
    return await start_waiting_shell(launcher, request)


async def start_waiting_shell(
    launcher: LauncherClient,
    request: CommandRequest,
    *,
    words: tuple[str, ...] = (),
    stderr: tuple[int, int] | None = None,
    pipe_bytes: int = 0,
) -> WaitingSandbox:
    """Start the shell that waits for a script. Raises SwarmError, OSError.

    Args:
        launcher: Starts it.
        request: What it is made for.
        words: The shell's own words; none: it reads commands from its input.
        stderr: A pipe for errors, its reading end first; the result owns that end.
        pipe_bytes: How much the shell's input is to hold, if more than a pipe usually does.
    """
    shell = find_system_program("sh")
    if shell is None:
        raise FileNotFoundError("there is no sh")
    script, script_fd = os.pipe2(os.O_CLOEXEC)
    with contextlib.ExitStack() as undo:
        undo.callback(os.close, script_fd)
        os.set_blocking(script_fd, False)
        if pipe_bytes:
            with contextlib.suppress(OSError):  # the person's limit for all pipes
                fcntl.fcntl(script_fd, fcntl.F_SETPIPE_SZ, pipe_bytes)
        try:
            fingerprint = undo.enter_context(MountFingerprint(_mounted_paths(request)))
            waiting = msgspec.structs.replace(request, argv=(shell, *words))
            read, write = stderr or (None, None)
            files = GivenFiles(stdin_fd=script, stderr_fd=write)
            command = await start_command(launcher, waiting, files=files)
        finally:
            os.close(script)
        undo.pop_all()
    return WaitingSandbox(request, command, script_fd, fingerprint, stderr_fd=read)


def _mounted_paths(request: CommandRequest) -> set[str]:
    """All paths that the mounts use, except placeholders, which do not exist yet."""
    plan = msgspec.structs.replace(request.sandbox, missing=())
    words = bwrap_arguments(plan, bwrap="/", filtered=True)
    return {request.cwd, *(word for word in words if word.startswith("/"))}


def can_prewarm(request: CommandRequest) -> bool:
    """True for a shell script in bubblewrap for which a shell before it makes no difference."""
    plan, limits = request.sandbox, request.resources
    return (
        plan.stack == "bwrap"
        and not plan.proxied
        and not (plan.links or plan.committing)  # a user may change these while nothing runs
        and not request.tty
        and len(request.argv) == 3
        and request.limits == CommandLimits()
        and limits.command_s is None  # it would count while the sandbox waits
        and (limits.agent_processes or _MIN_PROCESS_LIMIT) >= _MIN_PROCESS_LIMIT
        and all(_NAME.fullmatch(n) and not _SHELL_MANAGED.fullmatch(n) for n in request.environment)
    )


def render_exec_script(argv: tuple[str, ...], environment: Mapping[str, str]) -> bytes | None:
    """The script by which a POSIX shell becomes `argv` with `environment`, its own environment.

    None: it is too long for one write, or it cannot be encoded.
    """
    lines = export_lines(SET_BY_SHELLS, environment)
    text = "\n".join((*lines, f"exec {shlex.join(argv)} </dev/null\n"))
    try:
        script = text.encode()
    except UnicodeEncodeError:
        return None
    return script if b"\0" not in script and len(script) <= _MOST_SCRIPT_BYTES else None


def export_lines(names: Iterable[str], environment: Mapping[str, str]) -> list[str]:
    """Shell lines by which these variables become as in the environment."""
    return [
        f"export {name}={shlex.quote(environment[name])}"
        if name in environment
        else f"unset {name}"
        for name in names
    ]


def _comparable(request: CommandRequest) -> CommandRequest:
    """The request without its script and without what only a proxy receives."""
    return msgspec.structs.replace(request, argv=request.argv[:2], route=None)

"""A sandbox that is ready before the next command: bubblewrap's part is over when it comes.

Inside waits a shell of the system that is told by a pipe which command to become. It is made while
a command runs, for one that differs from it in its script alone; it serves one command, or ends
unused after some seconds.

Guards: it is used only if everything that made it is as the command would have it *now*: the plan,
the folders that its mounts lie on, environment, folder and limits. In any doubt the command starts
as the first one did. It ends with the block's nursery and leaves nothing behind.
"""

import contextlib
import os
import re
import shlex
from collections.abc import Mapping

import msgspec
import trio

from swarm.mailbox.errors import SwarmError

from ..sandbox.bwrap import bwrap_arguments
from ..sandbox.mount_fingerprint import MountFingerprint
from ..sandbox.sandbox_probe import find_system_program
from .launcher_client import LauncherClient
from .launcher_protocol import CommandLimits
from .running_command import CommandRequest, RunningCommand, start_command

LIFETIME_S = 5.0  # unused; meanwhile the placeholders of its plan are in the folder
_START_DELAY_S = 0.001  # for the one that has begun to be on its way
_END_LIMIT_S = 1.0
_MOST_SCRIPT_BYTES = 32 * 1024  # a pipe takes them at one stroke
_MIN_PROCESS_LIMIT = 64  # where fewer are allowed, none of ours may be among them
_NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_SET_BY_SHELLS = ("PWD", "OLDPWD")
# A shell changes these, or does not hand them on. (SHLVL it counts down again when it becomes …)
_SHELL_MANAGED = re.compile(
    r"IFS|OPT(ARG|IND|ERR)|LINENO|PPID|E?UID|PS\d|S?RANDOM|SECONDS|EPOCH\w+|GROUPS|DIRSTACK"
    r"|FUNCNAME|HISTCMD|PIPESTATUS|BASH\w*|SHELLOPTS|POSIXLY_CORRECT"
)


class _WaitingSandbox:
    """One that waits."""

    def __init__(
        self,
        request: CommandRequest,
        command: RunningCommand,
        script_fd: int,
        footing: MountFingerprint,
    ) -> None:
        self.command, self.is_taken = command, False
        self._request, self._script_fd, self._fingerprint = request, script_fd, footing

    def matches(self, request: CommandRequest) -> bool:
        """It was made for such a one, and stands where it stood."""
        is_such = _comparable(request) == _comparable(self._request)
        return is_such and self.command.placeholders_intact() and self._fingerprint.is_unchanged()

    def send_script(self, script: bytes) -> bool:
        """Tell it; False if it has ended or was not told as a whole."""
        try:
            self.is_taken = os.write(self._script_fd, script) == len(script)
        except OSError:
            return False
        return self.is_taken

    async def end(self) -> None:
        """Unused: without a script its shell has nothing more to do."""
        self.release()
        with trio.CancelScope(shield=True), contextlib.suppress(SwarmError):
            with trio.move_on_after(_END_LIMIT_S):
                await self.command.wait()
            with trio.move_on_after(_END_LIMIT_S):
                await self.command.kill_tree()
        self.command.close()

    def release(self) -> None:
        """Of what only waiting needed."""
        self._fingerprint.close()
        os.close(self._script_fd)


class PrewarmedSandbox:
    """At most one sandbox that waits, of one agent."""

    def __init__(self, launcher: LauncherClient, nursery: trio.Nursery) -> None:
        self._launcher, self._nursery = launcher, nursery
        self._waiting: _WaitingSandbox | None = None
        self._lifetimes: dict[trio.CancelScope, trio.Event] = {}  # its whole time → when it is over
        self._is_disabled = False

    def take(self, request: CommandRequest) -> RunningCommand | None:
        """The command, begun in the sandbox that waited. None: there is none that suits it, and
        one that no longer would is on its way out.
        """
        ready = self._waiting
        if ready is None or not can_prewarm(request):
            return None
        script = render_exec_script(request.argv, request.environment)
        if script is None:
            return None
        self._waiting = None
        is_told = ready.matches(request) and ready.send_script(script)
        self._cancel_all()
        if not is_told:
            return None
        ready.release()
        return ready.command

    def prepare_next(self, request: CommandRequest) -> None:
        """Such a command has begun, or ended: have a sandbox ready for the next, if one may wait
        and none does.
        """
        is_free = all(scope.cancel_called for scope in self._lifetimes)
        if is_free and not self._is_disabled and can_prewarm(request):
            scope = trio.CancelScope()
            self._lifetimes[scope] = trio.Event()
            self._nursery.start_soon(self._prepare, request, scope)

    async def discard(self) -> None:
        """Returns when none waits: the folder is without placeholders of ours."""
        self._cancel_all()
        for gone in tuple(self._lifetimes.values()):
            await gone.wait()

    def _cancel_all(self) -> None:
        """Whoever waits, or is being made, leaves; who was taken goes on as a command."""
        for scope in self._lifetimes:
            scope.cancel()

    async def _prepare(self, request: CommandRequest, scope: trio.CancelScope) -> None:
        try:
            with scope:
                await trio.sleep(_START_DELAY_S)
                await self._hold_until_taken(await _start_waiting_shell(self._launcher, request))
        except (SwarmError, OSError):
            self._is_disabled = True  # the next command says what is wrong
        finally:
            self._lifetimes.pop(scope).set()

    async def _hold_until_taken(self, ready: _WaitingSandbox) -> None:
        self._waiting = ready
        try:
            with trio.move_on_after(LIFETIME_S):
                await ready.command.wait()
                self._is_disabled = not ready.is_taken  # its shell does not work in there
        finally:
            if self._waiting is ready:
                self._waiting = None
            if not ready.is_taken:
                await ready.end()


async def _start_waiting_shell(
    launcher: LauncherClient, request: CommandRequest
) -> _WaitingSandbox:
    """Raises SwarmError, OSError."""
    shell = find_system_program("sh")
    if shell is None:
        raise FileNotFoundError("there is no sh")
    script, script_fd = os.pipe2(os.O_CLOEXEC)
    with contextlib.ExitStack() as undo:
        undo.callback(os.close, script_fd)
        os.set_blocking(script_fd, False)
        try:
            footing = undo.enter_context(MountFingerprint(_mounted_paths(request)))
            waiting = msgspec.structs.replace(request, argv=(shell,))
            command = await start_command(launcher, waiting, stdin_fd=script)
        finally:
            os.close(script)
        undo.pop_all()
    return _WaitingSandbox(request, command, script_fd, footing)


def _mounted_paths(request: CommandRequest) -> set[str]:
    """All that the mounts are laid on but placeholders, which are not there yet."""
    plan = msgspec.structs.replace(request.sandbox, missing=())
    words = bwrap_arguments(plan, bwrap="/", filtered=True)
    return {request.cwd, *(word for word in words if word.startswith("/"))}


def can_prewarm(request: CommandRequest) -> bool:
    """True for a shell's script in bubblewrap, if a shell before it makes no difference."""
    plan, limits = request.sandbox, request.resources
    return (
        plan.stack == "bwrap"
        and not plan.proxied
        and not (plan.links or plan.committing)  # a person may change them while nothing runs
        and not request.tty
        and len(request.argv) == 3
        and request.limits == CommandLimits()
        and limits.command_s is None  # it would run while it waits
        and (limits.agent_processes or _MIN_PROCESS_LIMIT) >= _MIN_PROCESS_LIMIT
        and all(_NAME.fullmatch(n) and not _SHELL_MANAGED.fullmatch(n) for n in request.environment)
    )


def render_exec_script(argv: tuple[str, ...], environment: Mapping[str, str]) -> bytes | None:
    """What a POSIX shell reads to become `argv` with `environment`, which it was started with.

    None: it is too long to be told at one stroke, or nothing that can be told.
    """
    lines = [
        f"export {name}={shlex.quote(environment[name])}"
        if name in environment
        else f"unset {name}"
        for name in _SET_BY_SHELLS
    ]
    text = "\n".join((*lines, f"exec {shlex.join(argv)} </dev/null\n"))
    try:
        script = text.encode()
    except UnicodeEncodeError:
        return None
    return script if b"\0" not in script and len(script) <= _MOST_SCRIPT_BYTES else None


def _comparable(request: CommandRequest) -> CommandRequest:
    """All but the script, and what only a proxy is told."""
    return msgspec.structs.replace(request, argv=request.argv[:2], route=None)

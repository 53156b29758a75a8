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
from ..sandbox.footing import Footing
from ..sandbox.probe import find_program
from .launcher import Launcher
from .orders import CommandLimits
from .process import CommandRequest, RunningCommand, start_command

LIFETIME_S = 5.0  # unused; meanwhile the placeholders of its plan are in the folder
_COMMAND_FIRST_S = 0.001  # for the one that has begun to be on its way
_END_LIMIT_S = 1.0
_MOST_SCRIPT_BYTES = 32 * 1024  # a pipe takes them at one stroke
_MANY_PROCESSES = 64  # where fewer are allowed, none of ours may be among them
_NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_SET_BY_SHELLS = ("PWD", "OLDPWD")
# A shell changes these, or does not hand them on. (SHLVL it counts down again when it becomes …)
_SHELLS_OWN = re.compile(
    r"IFS|OPT(ARG|IND|ERR)|LINENO|PPID|E?UID|PS\d|S?RANDOM|SECONDS|EPOCH\w+|GROUPS|DIRSTACK"
    r"|FUNCNAME|HISTCMD|PIPESTATUS|BASH\w*|SHELLOPTS|POSIXLY_CORRECT"
)


class _Ready:
    """One that waits."""

    def __init__(
        self, request: CommandRequest, command: RunningCommand, script_fd: int, footing: Footing
    ) -> None:
        self.command, self.is_taken = command, False
        self._request, self._script_fd, self._footing = request, script_fd, footing

    def suits(self, request: CommandRequest) -> bool:
        """It was made for such a one, and stands where it stood."""
        is_such = _kind(request) == _kind(self._request)
        return is_such and self.command.is_guarded() and self._footing.holds()

    def become(self, script: bytes) -> bool:
        """Tell it; False if it has ended or was not told as a whole."""
        try:
            self.is_taken = os.write(self._script_fd, script) == len(script)
        except OSError:
            return False
        return self.is_taken

    async def end(self) -> None:
        """Unused: without a script its shell has nothing more to do."""
        self.let_go()
        with trio.CancelScope(shield=True), contextlib.suppress(SwarmError):
            with trio.move_on_after(_END_LIMIT_S):
                await self.command.wait()
            with trio.move_on_after(_END_LIMIT_S):
                await self.command.kill_tree()
        self.command.close()

    def let_go(self) -> None:
        """Of what only waiting needed."""
        self._footing.close()
        os.close(self._script_fd)


class Standby:
    """At most one sandbox that waits, of one agent."""

    def __init__(self, launcher: Launcher, nursery: trio.Nursery) -> None:
        self._launcher, self._nursery = launcher, nursery
        self._ready: _Ready | None = None
        self._times: dict[trio.CancelScope, trio.Event] = {}  # its whole time → when it is over
        self._is_useless = False

    def take(self, request: CommandRequest) -> RunningCommand | None:
        """The command, begun in the sandbox that waited. None: there is none that suits it, and
        one that no longer would is on its way out.
        """
        ready = self._ready
        if ready is None or not may_wait(request):
            return None
        script = becoming(request.argv, request.environment)
        if script is None:
            return None
        self._ready = None
        is_told = ready.suits(request) and ready.become(script)
        self._dismiss()
        if not is_told:
            return None
        ready.let_go()
        return ready.command

    def renew(self, request: CommandRequest) -> None:
        """Such a command has begun, or ended: have a sandbox ready for the next, if one may wait
        and none does.
        """
        is_free = all(scope.cancel_called for scope in self._times)
        if is_free and not self._is_useless and may_wait(request):
            scope = trio.CancelScope()
            self._times[scope] = trio.Event()
            self._nursery.start_soon(self._stand, request, scope)

    async def clear(self) -> None:
        """Returns when none waits: the folder is without placeholders of ours."""
        self._dismiss()
        for gone in tuple(self._times.values()):
            await gone.wait()

    def _dismiss(self) -> None:
        """Whoever waits, or is being made, leaves; who was taken goes on as a command."""
        for scope in self._times:
            scope.cancel()

    async def _stand(self, request: CommandRequest, scope: trio.CancelScope) -> None:
        try:
            with scope:
                await trio.sleep(_COMMAND_FIRST_S)
                await self._wait_inside(await _made(self._launcher, request))
        except (SwarmError, OSError):
            self._is_useless = True  # the next command says what is wrong
        finally:
            self._times.pop(scope).set()

    async def _wait_inside(self, ready: _Ready) -> None:
        self._ready = ready
        try:
            with trio.move_on_after(LIFETIME_S):
                await ready.command.wait()
                self._is_useless = not ready.is_taken  # its shell does not work in there
        finally:
            if self._ready is ready:
                self._ready = None
            if not ready.is_taken:
                await ready.end()


async def _made(launcher: Launcher, request: CommandRequest) -> _Ready:
    """Raises SwarmError, OSError."""
    shell = find_program("sh")
    if shell is None:
        raise FileNotFoundError("there is no sh")
    script, script_fd = os.pipe2(os.O_CLOEXEC)
    with contextlib.ExitStack() as undo:
        undo.callback(os.close, script_fd)
        os.set_blocking(script_fd, False)
        try:
            footing = undo.enter_context(Footing(_places(request)))
            waiting = msgspec.structs.replace(request, argv=(shell,))
            command = await start_command(launcher, waiting, stdin_fd=script)
        finally:
            os.close(script)
        undo.pop_all()
    return _Ready(request, command, script_fd, footing)


def _places(request: CommandRequest) -> set[str]:
    """All that the mounts are laid on but placeholders, which are not there yet."""
    plan = msgspec.structs.replace(request.sandbox, missing=())
    words = bwrap_arguments(plan, bwrap="/", filtered=True)
    return {request.cwd, *(word for word in words if word.startswith("/"))}


def may_wait(request: CommandRequest) -> bool:
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
        and (limits.agent_processes or _MANY_PROCESSES) >= _MANY_PROCESSES
        and all(_NAME.fullmatch(n) and not _SHELLS_OWN.fullmatch(n) for n in request.environment)
    )


def becoming(argv: tuple[str, ...], environment: Mapping[str, str]) -> bytes | None:
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


def _kind(request: CommandRequest) -> CommandRequest:
    """All but the script, and what only a proxy is told."""
    return msgspec.structs.replace(request, argv=request.argv[:2], route=None)

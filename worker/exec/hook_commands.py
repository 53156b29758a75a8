"""Starts the commands of hooks: with input, and with errors apart from the output.

A hook of a series starts in a sandbox that was made ahead (`prewarmed_sandbox.py`). The shell that
waits there reads one line, which says what to become; what follows in its input is the hook's. All
hooks of an agent share it: the line sets the variables in which they differ.
"""

import os
import shlex
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import NamedTuple

import msgspec
import trio

from swarm.mailbox.base.errors import SwarmError
from swarm.mailbox.base.held_programs import Lookup, held_environment
from swarm.mailbox.protocol.hooks import Hook
from swarm.roles.parts.hooks.hook_scripts import hook_variables

from ..base.current_spec import CurrentSpec
from ..parts.hooks.hook_argv import hook_argv
from ..parts.hooks.hook_places import hook_places
from ..sandbox.sandbox_plan import SandboxPlan
from .command_plan import check_workdir, plan_hook
from .command_route import RouteRequest
from .launcher_client import LauncherClient
from .prewarmed_sandbox import (
    SET_BY_SHELLS,
    PrewarmedSandbox,
    WaitingSandbox,
    export_lines,
    start_waiting_shell,
)
from .running_command import CommandRequest, GivenFiles, RunningCommand, start_command

_PIPE_BYTES = 256 << 10  # of a waiting shell; a longer input goes to a fresh sandbox
_NEWLINE = "_swarm_newline"  # never exported
_LINE = "_swarm_line"
# `read` takes one byte at a time from a pipe, so the rest of the input is left to the hook.
_WAIT = f'{_NEWLINE}="\n"; IFS= read -r {_LINE} && eval "${_LINE}"'


class StartedHook(NamedTuple):
    """A hook that runs; the caller closes `stderr_fd`, and ends and closes the command."""

    command: RunningCommand
    stderr_fd: int


class HookRequest(NamedTuple):
    """What to run, and the variables in its environment that are this hook's own."""

    request: CommandRequest
    variables: dict[str, str]


class HookCommands:
    """Starts hooks of one agent, in a sandbox that waits where one fits."""

    def __init__(
        self,
        launcher: LauncherClient,
        current: CurrentSpec,
        nursery: trio.Nursery,
        *,
        environment: Callable[[Mapping[str, str], SandboxPlan], dict[str, str]],
        shell_argv: Callable[[str], tuple[str, ...]],
    ) -> None:
        """`environment` and `shell_argv` are those of the agent's commands."""
        self._launcher, self._current = launcher, current
        self._environment, self._shell_argv = environment, shell_argv
        self._prewarmed = PrewarmedSandbox(launcher, nursery, _start_waiting)

    def build_request(self, hook: Hook) -> HookRequest:
        """The request under the plan that holds now. Raises SandboxUnavailable, OSError."""
        spec = self._current.spec
        folder = hook.folder or spec.cwd
        plan = plan_hook(spec, network=hook.network)
        check_workdir(plan, folder)
        variables = hook_variables(hook, folder)
        environment = self._environment(variables, plan)
        if hook.may_allow:  # no variable leads its programs to files that agents may write
            lookup = Lookup(environment.get("PATH", ""), folder, hook_places(spec))
            environment = held_environment(environment, lookup)
        request = CommandRequest(
            argv=hook_argv(hook, folder, self._shell_argv),
            cwd=folder,
            environment=environment,
            sandbox=plan,
            resources=spec.inherited.resources,
            route=RouteRequest(
                endpoint=spec.proxy.endpoint if hook.network else "",
                ticket=spec.proxy.ticket,
                command=hook.command,
            ),
        )
        return HookRequest(request, variables)

    async def start(self, asked: HookRequest, payload: bytes) -> StartedHook:
        """Start a hook with `payload` as its input. Raises SwarmError, OSError."""
        if (line := render_hook_line(asked)) is not None:
            ready = self._prewarmed.take_with(_shared(asked), line + payload)
            if ready is not None and ready.stderr_fd is not None:
                return StartedHook(ready.command, ready.stderr_fd)
        return await _start_fresh(self._launcher, asked.request, payload)

    def prepare_next(self, hook: Hook, *, after_s: float) -> None:
        """Make a sandbox for a hook like this one if none waits."""
        with suppress(SwarmError, OSError):  # the hook itself will report it
            self._prewarmed.prepare_next(_shared(self.build_request(hook)), after_s=after_s)

    async def discard(self) -> None:
        """End the waiting sandbox; on return the folder has none of its placeholders."""
        await self._prewarmed.discard()


def render_hook_line(asked: HookRequest) -> bytes | None:
    """The line by which the waiting shell becomes the hook; None if it cannot be encoded."""
    request, names = asked.request, (*SET_BY_SHELLS, *asked.variables)
    steps = (*export_lines(names, request.environment), f"exec {shlex.join(request.argv)}")
    # A line feed stands only between single quotes, for every word was quoted.
    text = "; ".join(steps).replace("\n", f"'\"${_NEWLINE}\"'")
    try:
        line = f"{text}\n".encode()
    except UnicodeEncodeError:
        return None
    return None if b"\0" in line else line


def _shared(asked: HookRequest) -> CommandRequest:
    """The request without what only this hook has."""
    kept = asked.request.environment.items()
    environment = {name: value for name, value in kept if name not in asked.variables}
    return msgspec.structs.replace(asked.request, environment=environment)


async def _start_waiting(launcher: LauncherClient, request: CommandRequest) -> WaitingSandbox:
    read, write = os.pipe2(os.O_CLOEXEC)
    try:
        ready = await start_waiting_shell(
            launcher, request, words=("-c", _WAIT), stderr=(read, write), pipe_bytes=_PIPE_BYTES
        )
    except BaseException:
        os.close(read)
        raise
    finally:
        os.close(write)
    return ready


async def _start_fresh(
    launcher: LauncherClient, request: CommandRequest, payload: bytes
) -> StartedHook:
    read, write = os.pipe2(os.O_CLOEXEC)
    try:
        with _input_file(payload) as stdin_fd:
            files = GivenFiles(stdin_fd=stdin_fd, stderr_fd=write)
            command = await start_command(launcher, request, files=files)
    except BaseException:
        os.close(read)
        raise
    finally:
        os.close(write)
    return StartedHook(command, read)


@contextmanager
def _input_file(payload: bytes) -> Iterator[int]:
    """A file in memory with the payload, at its start. A hook need not read it."""
    fd = os.memfd_create("swarm-hook", os.MFD_CLOEXEC)
    try:
        view = memoryview(payload)
        while view:
            view = view[os.write(fd, view) :]
        os.lseek(fd, 0, os.SEEK_SET)
        yield fd
    finally:
        os.close(fd)

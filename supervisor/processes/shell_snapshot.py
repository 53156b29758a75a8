"""The login shell's environment, taken once per run, just before the first agent needs it.

It never fails and never waits long: if a profile hangs, prints or breaks, the given environment
stays. A shell that must end gets SIGTERM, with all that it started, and SIGKILL only if it ignores
that: startup files take locks, and a killed one leaves them behind for every later login.
"""

import os
import signal
import subprocess
from collections.abc import Collection, Mapping
from contextlib import suppress

import trio

from swarm.mailbox.base.process_tree import descendants_of
from swarm.roles.base.login_shell import (
    MARKER,
    PRINT_ENVIRONMENT,
    find_shell,
    join_environments,
    parse_snapshot,
)

_TIMEOUT_S = 5.0
_GRACE_S = 1.0
_MAX_BYTES = 1024 * 1024


class ShellSnapshot:
    """One snapshot for all agents of the run.

    Args:
        environment: The environment if the shell cannot be asked; without any provider's keys.
        asked: False: no shell is started, only `environment` counts.
        withheld: Names that no agent may see, even if a startup file exports them.
    """

    def __init__(
        self, environment: Mapping[str, str], *, withheld: Collection[str], asked: bool = True
    ) -> None:
        self._asked = asked
        self._environment, self._withheld = dict(environment), frozenset(withheld)
        self._taking = trio.Lock()
        self._snapshot: dict[str, str] | None = None
        self._problem = ""

    async def get(self) -> dict[str, str]:
        """The run's own variables and a login shell's; only the first call starts the shell."""
        async with self._taking:
            if self._snapshot is None:
                found = await self._ask() if self._asked else {}
                self._snapshot = {
                    name: value
                    for name, value in join_environments(self._environment, found).items()
                    if name not in self._withheld
                }
            return self._snapshot

    def take_problem(self) -> str:
        """Why the shell gave no variables; told once, "" if there is nothing to tell."""
        told, self._problem = self._problem, ""
        return told

    async def _ask(self) -> dict[str, str]:
        shell = find_shell(self._environment)
        found, why = await _read_environment(shell, self._environment)
        if why:
            self._problem = (
                f"the login shell {shell} {why}; commands have the environment of this run alone. "
                "Fix its start-up files, or switch `features.shell_snapshot` off"
            )
        return found


async def _read_environment(
    program: str, environment: dict[str, str]
) -> tuple[dict[str, str], str]:
    """The variables, and why there are none."""
    command = [program, "-lc", PRINT_ENVIRONMENT]
    printed = bytearray()
    try:
        shell = await trio.lowlevel.open_process(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environment,
            cwd="/",
        )
    except OSError as error:
        return {}, f"cannot be started: {error.strerror}"
    assert shell.stdout is not None  # it is a pipe
    try:
        async with shell.stdout as output:
            with trio.move_on_after(_TIMEOUT_S) as waiting:
                while len(printed) < _MAX_BYTES and (chunk := await output.receive_some()):
                    printed += chunk
    finally:
        await _stop_shell(shell)
    if (found := parse_snapshot(bytes(printed))) or _is_listed(bytes(printed)):
        return found, ""
    if waiting.cancelled_caught:
        return {}, f"took over {_TIMEOUT_S:.0f} s to start"
    if len(printed) >= _MAX_BYTES:
        return {}, f"printed more than {_MAX_BYTES >> 20} MiB"
    return {}, f"ended with {shell.returncode} before it told its environment"


def _is_listed(printed: bytes) -> bool:
    """True if the shell told its environment, though nothing of it is of use."""
    return printed.endswith(b"\0") and MARKER in printed


async def _stop_shell(shell: trio.Process) -> None:
    """End the shell unless it has ended: SIGTERM, and SIGKILL if it ignores that."""
    with trio.CancelScope(shield=True):
        with trio.move_on_after(0.05):
            await shell.wait()
            return
        for pid in [*reversed(descendants_of(shell.pid)), shell.pid]:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)
        with trio.move_on_after(_GRACE_S):
            await shell.wait()
            return
        shell.kill()
        await shell.wait()

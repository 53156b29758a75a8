"""The interface of a started process, and the value that describes its end."""

import signal
from collections.abc import Mapping
from typing import Protocol

import trio

from swarm.mailbox.base.errors import SwarmError
from swarm.mailbox.protocol.spec import AnySpec
from swarm.mailbox.protocol.values.base import Value

STDERR_KEPT_BYTES = 64 * 1024


class SpawnError(SwarmError):
    """No agent was started; the caller's state is as before."""


class StartInterrupted(SpawnError):
    """The fork-server was lost during a start, and what it may have started is dead.

    That process may have sent messages under its spec's identity: try again with another one.
    """


class DiedBeforeHello(SpawnError):
    """A process was started, and died or was silent before its Hello; nothing of it is left."""


class ProcessEnd(Value):
    """How a process ended. Both numbers None: the status is unknown, it counts as a crash."""

    exit_code: int | None = None
    signal: int | None = None
    stderr_tail: str = ""  # the last 64 KiB, undecodable bytes replaced
    reason: str = ""  # the same in words


class RunningProcess(Protocol):
    """A started process. Its end is found by waiting for the process itself."""

    @property
    def pid(self) -> int: ...

    async def wait_ended(self) -> ProcessEnd:
        """Return once the process and all that it left behind are gone, and its stderr is read.

        Any number of tasks may wait.
        """
        ...

    def signal_group(self, number: int) -> None:
        """Signal its process group. No effect once it has ended."""
        ...

    def kill_group(self) -> None:
        """SIGKILL the group and all descendants of the process, in whatever session."""
        ...


class Child(RunningProcess, Protocol):
    """A process that runs a spec."""

    @property
    def warm(self) -> bool:
        """True if it was forked, False if it was started cold."""
        ...


class ProcessStarter(Protocol):
    """Starts the processes of a run, and leaves none behind."""

    start_limiter: trio.CapacityLimiter  # held while waiting for a Hello

    async def start(
        self, spec: AnySpec, *, title: str, keys: Mapping[str, str] | None = None
    ) -> Child:
        """Start a process for this spec. Raises SpawnError and StartInterrupted."""
        ...

    async def close(self, *, grace_s: float) -> None:
        """End all living processes; bounded."""
        ...


def describe_end(status: int | None) -> ProcessEnd:
    """A ProcessEnd from a waitpid(2) status, without stderr; None: the status is unknown."""
    if status is None:
        return ProcessEnd(reason="ended, and nobody could learn how")
    number = status & 0x7F
    if number:
        return ProcessEnd(signal=number, reason=f"killed by {signal_name(number)}")
    code = status >> 8 & 0xFF
    return ProcessEnd(exit_code=code, reason=f"left with exit code {code}")


def signal_name(number: int) -> str:
    """`SIGKILL` for 9; `signal 77` for a number without a name."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"

"""What a started process is to everyone above the spawner: a value when it ended, a few verbs."""

import signal
from collections.abc import Mapping
from typing import Protocol

import trio

from swarm.mailbox.errors import SwarmError
from swarm.mailbox.protocol.base import Value
from swarm.mailbox.protocol.spec import AnySpec

STDERR_KEPT_BYTES = 64 * 1024


class SpawnError(SwarmError):
    """No agent was started; the caller's state is as before."""


class StartInterrupted(SpawnError):
    """The fork-server was lost over a start, and what it may have begun is dead.

    It may have spoken in its spec's name: try again, but under another identity.
    """


class DiedBeforeHello(SpawnError):
    """A process was started, and died or was silent before its Hello; nothing of it is left."""


class ProcessEnd(Value):
    """How a process ended. Both numbers are None when nobody could learn it: count it crashed."""

    exit_code: int | None = None
    signal: int | None = None
    stderr_tail: str = ""  # the last 64 KiB, undecodable bytes replaced
    reason: str = ""  # the same in words


class Child(Protocol):
    """One process of the run. Its end is seen by waiting for the process itself."""

    @property
    def pid(self) -> int: ...

    @property
    def pidfd(self) -> int:
        """Readable once it ended; closed soon after, so only for use before."""
        ...

    @property
    def warm(self) -> bool:
        """True if it was forked, False if it started from nothing."""
        ...

    @property
    def stderr_text(self) -> str:
        """What it printed so far, the last 64 KiB."""
        ...

    async def wait_ended(self) -> ProcessEnd:
        """Return once the process and all that it left behind are gone, and its last words are
        read. Any number may wait.
        """
        ...

    def signal_group(self, number: int) -> None:
        """Signal its process group. Nothing happens once it ended."""
        ...

    def kill_group(self) -> None:
        """SIGKILL the group and all that descends from the process, in whatever session."""
        ...


class ProcessStarter(Protocol):
    """Who starts the processes of a run, and leaves none behind."""

    @property
    def start_limiter(self) -> trio.CapacityLimiter:
        """Held by whoever waits for a Hello."""
        ...

    async def start(
        self, spec: AnySpec, *, title: str, keys: Mapping[str, str] | None = None
    ) -> Child:
        """Start a process for this spec. Raises SpawnError and StartLost."""
        ...

    async def start_first_gateway(self, spec: AnySpec, keys: Mapping[str, str]) -> Child:
        """The gateway that a run begins with. Raises SpawnError."""
        ...

    async def close(self, *, grace_s: float) -> None:
        """End all that lives; bounded."""
        ...


def describe_end(status: int | None) -> ProcessEnd:
    """Turn a status of waitpid(2) into an Ended without last words; None: it was never learnt."""
    if status is None:
        return ProcessEnd(reason="ended, and nobody could learn how")
    number = status & 0x7F
    if number:
        return ProcessEnd(signal=number, reason=f"killed by {signal_name(number)}")
    code = status >> 8 & 0xFF
    return ProcessEnd(exit_code=code, reason=f"left with exit code {code}")


def signal_name(number: int) -> str:
    """`SIGKILL` for 9; `signal 77` for what has no name."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"

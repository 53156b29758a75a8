"""Leases of heavy commands: which commands are heavy, the request for a lease, and its end."""

from typing import Literal

from ...base.quantities import parse_duration, parse_size
from ...protocol.values.base import Tagged, Value

# Why a command counts as heavy; `learned`: an earlier one like it was.
HeavyKind = Literal["build", "test", "install", "learned"]
CommandKind = Literal["build", "test", "install", "light"]  # as a configuration says it
MAX_LEASE_TEXT = 200  # characters of a command in a lease


class LeaseSettings(Value):
    """`[leases]`, swarm's own: how heavy commands take turns. Sizes and spans as people write them.

    `roles/parts/leases` has checked what travels, so its sizes and spans can be read.
    """

    enabled: bool = True
    most: int = 0  # leases on this machine at once; 0: as many as it has processors
    reserve_memory: str | int = "10%"  # what heavy commands leave to all else
    command_memory: str | int = 0  # of each heavy command; 0: as `[limits]` says
    max_wait: str | int | float = "30m"  # then a command runs without its turn
    max_hold: str | int | float = "30m"  # then others may take the turn of one that still runs
    commands: dict[str, CommandKind] = {}  # first words → kind; beside the built-in table

    @property
    def max_wait_s(self) -> float:
        return parse_duration(self.max_wait)

    @property
    def max_hold_s(self) -> float:
        return parse_duration(self.max_hold)

    def reserve_bytes(self, ram_bytes: int) -> int:
        return parse_size(self.reserve_memory, whole_bytes=ram_bytes)

    def command_bytes(self, ram_bytes: int) -> int | None:
        """The limit of each heavy command; None: it has none of its own."""
        return parse_size(self.command_memory, whole_bytes=ram_bytes) or None


class FormerLeaseSettings(Value):
    """As runs kept them before sizes and spans travelled as people write them."""

    enabled: bool = True
    most: int = 0
    reserve_bytes: int = 0
    max_wait_s: float = 1800.0
    max_hold_s: float = 1800.0
    commands: dict[str, CommandKind] = {}
    command_memory_bytes: int | None = None

    @property
    def settings(self) -> LeaseSettings:
        return LeaseSettings(
            enabled=self.enabled,
            most=self.most,
            reserve_memory=self.reserve_bytes,
            command_memory=self.command_memory_bytes or 0,
            max_wait=self.max_wait_s,
            max_hold=self.max_hold_s,
            commands=self.commands,
        )


class LeaseRules(Value):
    """What an agent needs to know of leases."""

    enabled: bool = False
    commands: dict[str, CommandKind] = {}
    learned: tuple[str, ...] = ()  # first words of commands that were heavy in earlier runs
    command_memory_bytes: int | None = None


class TakeLease(Tagged):
    """A heavy command wants its turn. The reply is `LeaseGiven`, before it `QueuedForLease`.

    `HeavyCommandEnded` with the same number gives the lease back, or withdraws the request.
    """

    number: int  # 1, 2, 3 … for each process of the agent
    kind: HeavyKind
    command: str  # its words, at most `MAX_LEASE_TEXT` characters
    head: str  # its first words, as the table names them
    cwd: str = ""


class QueuedForLease(Tagged):
    """Not yet the reply: the command waits. May be sent several times before it."""

    place: int  # 1 = next
    why: str = ""  # what the next one waits for


class LeaseGiven(Tagged):
    """The command may run."""

    waited_s: float = 0.0
    without_turn: bool = False  # the longest wait is over, and no turn came


class HeavyCommandEnded(Tagged):
    """A heavy command has ended, or never ran; what it used. It gives its lease back.

    Its memory is the largest sum that was seen of its processes' resident pages, so shared pages
    count more than once and short peaks may be missing. Its processor time is that of its
    processes that were reaped.
    """

    lease: int = 0  # `TakeLease.number`; 0: it had none, for nobody knew that it was heavy
    kind: HeavyKind = "learned"
    command: str = ""
    head: str = ""
    cwd: str = ""
    ran: bool = True
    waited_s: float = 0.0
    seconds: float = 0.0
    cpu_s: float = 0.0
    peak_bytes: int = 0
    exit_code: int | None = None

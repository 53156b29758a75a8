"""Leases of heavy commands: which commands are heavy, the request for a lease, and its end."""

from typing import Literal

from .base import Tagged, Value

# Why a command counts as heavy; `learned`: an earlier one like it was.
HeavyKind = Literal["build", "test", "install", "learned"]
CommandKind = Literal["build", "test", "install", "light"]  # as a configuration says it
MAX_LEASE_TEXT = 200  # characters of a command in a lease


class LeaseSettings(Value):
    """`[leases]` for a whole run."""

    enabled: bool = True
    most: int = 0  # leases on this machine at once; 0: as many as it has processors
    reserve_bytes: int = 0  # memory that heavy commands leave to all else
    max_wait_s: float = 1800.0  # then a command runs without its turn
    max_hold_s: float = 1800.0  # then others may take the turn of a command that still runs
    commands: dict[str, CommandKind] = {}  # first words → kind; beside the built-in table
    command_memory_bytes: int | None = None  # limit of each heavy command; None: as `[limits]` says


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

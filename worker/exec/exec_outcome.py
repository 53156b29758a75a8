"""Requests, outcomes, time limits and error texts of exec sessions. No I/O.

Source: Codex's unified exec; the same numbers and the same texts.
"""

import shlex
from collections.abc import Sequence

import msgspec

from swarm.mailbox.base.errors import SwarmError
from swarm.mailbox.base.short_quotes import quote_head
from swarm.mailbox.base.writable_places import WritablePlaces
from swarm.mailbox.protocol.approvals import ExtraPermissions
from swarm.mailbox.protocol.values.base import Value
from swarm.mailbox.protocol.values.limits import ReadOnly, SandboxPolicy

from .launcher_protocol import CommandLimits, Overrun

MIN_YIELD_MS, MAX_YIELD_MS = 250, 30_000
DEFAULT_EXEC_YIELD_MS, DEFAULT_WRITE_YIELD_MS = 10_000, 250
MIN_POLL_MS, MAX_POLL_MS = 5_000, 300_000
MAX_SESSIONS, WARN_AT_SESSIONS, PROTECTED_RECENT = 64, 60, 8
FIRST_SESSION_ID, LAST_SESSION_ID = 1_000, 99_999
TIMED_OUT_CODE = 124


class ExecFailed(SwarmError):
    """The command never ran. The text is for the model."""

    def __init__(self, argv: tuple[str, ...], cause: str) -> None:
        super().__init__(f"exec_command failed for `{quote_head(shlex.join(argv))}`: {cause}")
        self.argv, self.cause = argv, cause


class StdinFailed(SwarmError):
    """Nothing was written. The text is for the model."""

    def __init__(self, cause: str) -> None:
        super().__init__(f"write_stdin failed: {cause}")
        self.cause = cause


class SessionQueueFull(SwarmError):
    """Too many calls wait for a slot; nothing was started."""

    def __init__(self, *, running: int, waiting: int) -> None:
        super().__init__(
            f"{running} commands of this agent run and {waiting} more wait for one of them to end; "
            "nothing was started: wait for some to end, then try again"
        )


STDIN_CLOSED = (
    "stdin is closed for this session; rerun exec_command with tty=true to keep stdin open"
)


class ExecRequest(Value):
    """One command of the model or of swarm itself; `policy` is its sandbox policy."""

    argv: tuple[str, ...]
    cwd: str
    policy: SandboxPolicy = ReadOnly()
    extra: ExtraPermissions | None = None  # granted beyond the policy
    commits_in: str = ""  # a repository whose data may be written too
    tty: bool = False
    yield_time_ms: int = DEFAULT_EXEC_YIELD_MS
    timeout_ms: int | None = None  # if set: never a session; killed at this time instead
    environment: dict[str, str] = {}  # overrides all others
    # Where agents may write: no search path of the command leads there. None: it is left as it is.
    held_from: WritablePlaces | None = None
    limits: CommandLimits = CommandLimits()


class ExecOutcome(Value):
    """What happened by the end of the yield time. Not truncated: at most 1 MiB of output."""

    wall_time_s: float
    output: str  # since the last result; undecodable bytes replaced
    original_token_count: int  # of everything printed, also of what was not kept
    exit_code: int | None = None  # 128 + n for signal n; None while it runs
    session_id: int | None = None  # set while it runs
    denied: bool = False  # the sandbox seems to have stopped it
    warning: str = ""  # for the model: too many open sessions
    blocked: tuple[str, ...] = ()  # sentences about what the network proxy refused
    moved_aside: tuple[str, ...] = ()  # what it had put in a protected name's place

    def with_warning(self, text: str) -> "ExecOutcome":
        """The same outcome with one more warning for the model."""
        return msgspec.structs.replace(self, warning=". ".join(filter(None, (self.warning, text))))


def exec_yield_s(yield_time_ms: int) -> float:
    """How long `exec` waits."""
    return min(max(yield_time_ms, MIN_YIELD_MS), MAX_YIELD_MS) / 1000


def write_yield_s(yield_time_ms: int, *, is_poll: bool, max_poll_ms: int = MAX_POLL_MS) -> float:
    """How long `write` waits; a poll (nothing written) waits longer to be worth a call."""
    if is_poll:
        return min(max(yield_time_ms, MIN_POLL_MS), max(max_poll_ms, MIN_POLL_MS)) / 1000
    return min(max(yield_time_ms, MIN_YIELD_MS), MAX_YIELD_MS) / 1000


def open_sessions_warning(count: int) -> str:
    """Empty below the bound."""
    if count < WARN_AT_SESSIONS:
        return ""
    return (
        "The maximum number of unified exec processes you can keep open is "
        f"{WARN_AT_SESSIONS} and you currently have {count} processes open. Reuse older processes "
        "or close them to prevent automatic pruning of old processes"
    )


def waited_text(waited_s: float) -> str:
    """Why a command began late; empty if it did not."""
    if not waited_s:
        return ""
    return (
        f"it began {waited_s:.1f} s late: {MAX_SESSIONS} commands of this agent were running, and "
        "it waited for one of them to end"
    )


def closed_text(session_ids: Sequence[int]) -> str:
    """Which sessions were ended to make room for another command; empty if none was."""
    if not session_ids:
        return ""
    names = ", ".join(map(str, session_ids))
    return (
        f"closed to make room, with all that ran in them: session {names} (at most {MAX_SESSIONS} "
        "may be open, and the one used longest ago goes first)"
    )


def overrun_text(overrun: Overrun | None) -> str:
    """The limit at which the command was killed; empty if it was not."""
    if overrun is None:
        return ""
    whose = "together with this agent's other commands " if "agent" in overrun.limit else ""
    if overrun.limit.endswith("_memory"):
        allowed, used = _mebibytes(overrun.allowed), _mebibytes(overrun.measured)
        what = f"used {used} of memory, and {allowed} are allowed"
    elif overrun.limit.endswith("_processes"):
        what = f"had {overrun.measured} processes, and {overrun.allowed} are allowed"
    else:
        what = f"ran for the {overrun.allowed} s that a command may take"
    return f"the command was killed: {whose}it {what} (limits.{overrun.limit})"


def _mebibytes(size: int) -> str:
    return f"{size / 2**20:,.0f} MiB"


def complete_utf8_length(data: bytes) -> int:
    """Length of the longest prefix of `data` that does not end inside a UTF-8 character."""
    for back in range(1, min(4, len(data)) + 1):
        byte = data[-back]
        if byte < 0x80:
            break
        if byte >= 0xC0:
            needed = 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4
            return len(data) - back if back < needed else len(data)
    return len(data)

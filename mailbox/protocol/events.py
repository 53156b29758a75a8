"""What an agent says. Durable events are journaled, then acknowledged; passing ones are neither.

Order of a turn: TurnStarted, ItemCompleted (context, then the user's message), then per response
ItemCompleted* with CallBegan/CallEnded in between, ItemCompleted for the outputs in call order,
TokenCount; last exactly one of TurnCompleted, TurnFailed, TurnAborted.
"""

from typing import Literal

import msgspec

from .base import Tagged, Value
from .changes import CompactionInfo as CompactionInfo
from .changes import FileChange as FileChange
from .items import TokenUsage
from .parsed_command import ParsedCommand
from .requests import AnyRequest
from .sampling import ModelInfo, SampleErrorKind

# --- life of the process ---------------------------------------------------------------------


LockGap = Literal["", "truncation", "all"]


class Hello(Tagged):
    """The first envelope of a life. A wrong secret, pid or epoch, or a second Hello, is refused."""

    secret: bytes
    pid: int
    protocol_version: int
    kind: Literal["agent", "gateway", "proxy"] = "agent"
    lock_gap: LockGap = ""  # of an agent whose role locks its process: what the kernel lacks for it


class Heartbeat(Tagged):
    """Passing, every 2 s from the Trio loop. `progress` grows with every event, call and delta."""

    progress: int
    busy: bool = False
    rss_bytes: int = 0
    live_commands: int = 0


class Goodbye(Tagged):
    """The last envelope of an orderly end."""


# --- turns -----------------------------------------------------------------------------------


class TurnStarted(Tagged):
    turn_id: str
    model: ModelInfo
    effort: str | None = None
    started_by: Literal["user", "mail", "resume"] = "user"


class TurnCompleted(Tagged):
    """`refused`: it ended because an approval was needed that nobody could give."""

    turn_id: str
    last_message: str | None = None
    duration_s: float = 0.0
    usage: TokenUsage = TokenUsage()  # of this turn alone
    truncated: bool = False
    refused: bool = False
    out_of_budget: bool = False  # a bound was reached: `last_message` is its best answer


class TurnFailed(Tagged):
    turn_id: str
    kind: SampleErrorKind
    message: str
    duration_s: float = 0.0
    usage: TokenUsage = TokenUsage()


class TurnAborted(Tagged):
    turn_id: str
    reason: Literal["interrupted", "replaced", "budget", "deadline"] = "interrupted"
    duration_s: float = 0.0
    usage: TokenUsage = TokenUsage()


# --- what happens in a turn ------------------------------------------------------------------


class ItemCompleted(Tagged):
    """An item joined the history. `item` is its msgpack encoding on the wire (AnyItem)."""

    turn_id: str
    item: msgspec.Raw
    item_id: str  # unique in the run
    source: Literal["context", "user", "mail", "model", "tool", "note"] = "model"


class ContextReplaced(Tagged):
    """Compaction or rollback: the history is now exactly these items.

    At most one of `shortened` and `undoes` is set. `undoes` names the shortening that a person
    took back.
    """

    turn_id: str
    items: tuple[msgspec.Raw, ...]
    summary: str = ""
    shortened: CompactionInfo | None = None
    undoes: str = ""
    rolled_back: int = 0  # turns that a person took back


class CommandCall(Tagged, tag="command"):
    """A command. `script` is what the model asked for; `argv` what is executed."""

    script: str
    argv: tuple[str, ...]
    cwd: str
    sandbox: str = ""  # "bwrap", "landlock", "none"
    tty: bool = False
    parsed_cmd: tuple[ParsedCommand, ...] = ()  # of a command that is known to only read; bounded


class StdinCall(Tagged, tag="stdin"):
    session_id: int
    chars: str


class PatchCall(Tagged, tag="patch"):
    changes: tuple[FileChange, ...]


class PlanStep(Value):
    step: str
    status: Literal["pending", "in_progress", "completed"]


class PlanCall(Tagged, tag="plan"):
    plan: tuple[PlanStep, ...]
    explanation: str | None = None


class OtherCall(Tagged, tag="other"):
    """Any other tool: its argument that says most, in one line."""

    argument: str = ""


AnyCallDetail = CommandCall | StdinCall | PatchCall | PlanCall | OtherCall


class CallBegan(Tagged):
    """Journaled and acknowledged before the call runs: it is never run a second time."""

    turn_id: str
    call_id: str
    tool: str
    detail: AnyCallDetail


class CallEnded(Tagged):
    """`status` declined = refused before it ran; interrupted = its process or turn ended first."""

    turn_id: str
    call_id: str
    tool: str
    status: Literal["completed", "failed", "declined", "interrupted"]
    duration_s: float = 0.0
    exit_code: int | None = None
    output: str = ""  # aggregated, cut to 10,000 bytes
    session_id: int | None = None  # a command that goes on living
    changes: tuple[FileChange, ...] = ()  # what a patch did


class TokenCount(Tagged):
    """After every response, also one that was cut off; and when the history was made shorter."""

    turn_id: str
    last: TokenUsage  # since the count before; zeros if nobody knows yet what it cost
    total: TokenUsage  # of this agent since its beginning
    context_tokens: int = 0
    context_window: int = 0


class Warned(Tagged):
    """Not fatal; shown to people."""

    message: str


class RequestSent(Tagged, tag="asked"):
    """A request to the supervisor; `ops.Answer` brings the reply."""

    request_id: int
    request: AnyRequest


# --- passing ---------------------------------------------------------------------------------


class TextArrived(Tagged):
    """Passing: text of an agent message, coalesced (20 ms or 2 KiB)."""

    turn_id: str
    item_id: str
    delta: str


class ReasoningArrived(Tagged):
    """Passing."""

    turn_id: str
    item_id: str
    delta: str


class OutputArrived(Tagged):
    """Passing: output of a running command."""

    turn_id: str
    call_id: str
    delta: str


class Waiting(Tagged):
    """Passing: the agent waits for the provider, a slot or an answer, and why."""

    reason: str
    delay_s: float = 0.0
    attempt: int = 0
    max_attempts: int = 0


AnyEvent = (
    Hello
    | Heartbeat
    | Goodbye
    | TurnStarted
    | TurnCompleted
    | TurnFailed
    | TurnAborted
    | ItemCompleted
    | ContextReplaced
    | CallBegan
    | CallEnded
    | TokenCount
    | Warned
    | RequestSent
    | TextArrived
    | ReasoningArrived
    | OutputArrived
    | Waiting
)
TRANSIENT_EVENTS = (Heartbeat, TextArrived, ReasoningArrived, OutputArrived, Waiting)

encode_event = msgspec.msgpack.Encoder().encode
decode_event = msgspec.msgpack.Decoder(AnyEvent).decode

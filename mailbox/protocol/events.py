"""Events that agents send. Durable ones are journaled, then acknowledged; transient ones neither.

Order in a turn: TurnStarted; ItemCompleted (context, then the user's message); then for each
response ItemCompleted* with CallBegan/CallEnded in between, ItemCompleted for the outputs in call
order, TokenCount; last exactly one of TurnCompleted, TurnFailed, TurnAborted.
"""

from typing import Literal

import msgspec

from ..parts.part_messages import PartEvent
from .changes import CompactionInfo as CompactionInfo
from .changes import FileChange as FileChange
from .context_sizes import HeadSizes
from .hooks import HookRan as HookRan
from .items import TokenUsage
from .parsed_command import ParsedCommand
from .requests import AnyRequest
from .sampling import ModelInfo, SampleErrorKind
from .values.base import Tagged, Value

# --- life cycle of the process -----------------------------------------------------------------


LockGap = Literal["", "truncation", "all"]


class Hello(Tagged):
    """First envelope of a process. Refused: a wrong secret, pid or epoch, or a second Hello."""

    secret: bytes
    pid: int
    protocol_version: int
    kind: Literal["agent", "gateway", "proxy", "hub", "hosts"] = "agent"
    # for agents whose role locks their process: what the kernel lacks for it
    lock_gap: LockGap = ""


class Heartbeat(Tagged):
    """Transient, every 2 s from the Trio loop. `progress` grows with each event, call and delta."""

    progress: int
    busy: bool = False
    rss_bytes: int = 0
    live_commands: int = 0


class Goodbye(Tagged):
    """The last envelope of a process that ends in order."""


# --- turns -----------------------------------------------------------------------------------


class TurnStarted(Tagged):
    turn_id: str
    model: ModelInfo
    effort: str | None = None
    started_by: Literal["user", "mail", "resume"] = "user"


class TurnCompleted(Tagged):
    """`refused`: the turn ended because it needed an approval that nobody could give."""

    turn_id: str
    last_message: str | None = None
    duration_s: float = 0.0
    usage: TokenUsage = TokenUsage()  # of this turn only
    truncated: bool = False
    refused: bool = False
    out_of_budget: bool = False  # a limit was reached: `last_message` is the best answer so far


class TurnFailed(Tagged):
    turn_id: str
    kind: SampleErrorKind
    message: str
    duration_s: float = 0.0
    usage: TokenUsage = TokenUsage()


class TurnAborted(Tagged):
    turn_id: str
    reason: Literal["interrupted", "replaced", "budget", "deadline", "run_ended"] = "interrupted"
    duration_s: float = 0.0
    usage: TokenUsage = TokenUsage()


TurnEnd = TurnCompleted | TurnFailed | TurnAborted

# --- what happens in a turn ------------------------------------------------------------------


class ItemCompleted(Tagged):
    """An item was added to the history. `item` is its msgpack encoding (AnyItem)."""

    turn_id: str
    item: msgspec.Raw
    item_id: str  # unique in the run
    source: Literal["context", "user", "mail", "model", "tool", "note"] = "model"


class ContextReplaced(Tagged):
    """Compaction or rollback: the history now consists of exactly these items.

    At most one of `shortened` and `undoes` is set. `undoes` is the id of the compaction that a
    person reversed.
    """

    turn_id: str
    items: tuple[msgspec.Raw, ...]
    summary: str = ""
    shortened: CompactionInfo | None = None
    undoes: str = ""
    rolled_back: int = 0  # turns that a person rolled back


class CommandCall(Tagged, tag="command"):
    """A command. `script` is what the model asked for; `argv` is what is executed."""

    script: str
    argv: tuple[str, ...]
    cwd: str
    sandbox: str = ""  # "bwrap", "landlock", "none"
    tty: bool = False
    parsed_cmd: tuple[ParsedCommand, ...] = ()  # for a command known to only read; bounded


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


class McpCall(Tagged, tag="mcp"):
    """A tool of an MCP server. `arguments` is JSON text, cut."""

    server: str
    tool: str
    arguments: str = ""


class OtherCall(Tagged, tag="other"):
    """Any other tool: its most telling argument, in one line."""

    argument: str = ""


AnyCallDetail = CommandCall | StdinCall | PatchCall | PlanCall | McpCall | OtherCall


class FileWatch(Value):
    """The reply to this request follows once the begin is journaled and the files are recorded."""

    request_id: int
    paths: tuple[str, ...] = ()  # as in `requests.WatchFiles`


class CallBegan(Tagged):
    """Journaled and acknowledged before the call runs, so that it never runs twice."""

    turn_id: str
    call_id: str
    tool: str
    detail: AnyCallDetail
    watch: FileWatch | None = None  # the call may change files; never in a record


class CallEnded(Tagged):
    """`declined`: refused before it ran; `interrupted`: its process or turn ended first."""

    turn_id: str
    call_id: str
    tool: str
    status: Literal["completed", "failed", "declined", "interrupted"]
    duration_s: float = 0.0
    exit_code: int | None = None
    output: str = ""  # aggregated output, cut to 10,000 bytes
    session_id: int | None = None  # of a command that keeps running
    changes: tuple[FileChange, ...] = ()  # what a patch did
    untrusted: bool = False  # the model has read what strangers may have written


class TokenCount(Tagged):
    """Sent after every response, also an incomplete one, and after a compaction."""

    turn_id: str
    last: TokenUsage  # since the count before; zeros while the cost is unknown
    total: TokenUsage  # of this agent since its first start
    context_tokens: int = 0
    context_window: int = 0
    head: HeadSizes | None = None  # of that request; None: as in the count before


class ProviderFallback(Tagged):
    """A provider failed for good; the agent's requests go to the next entry of its fallback list.

    `message` is the provider's failure. `taken` counts the entries that are used up.
    """

    turn_id: str
    failed_provider: str
    failed_model: str
    kind: SampleErrorKind
    message: str
    provider: str
    model: str | None  # None: the provider's default
    taken: int


class Warned(Tagged):
    """A warning for people; not fatal."""

    message: str


class RequestSent(Tagged, tag="asked"):
    """A request to the supervisor; `ops.Answer` carries the reply."""

    request_id: int
    request: AnyRequest


# --- transient events -------------------------------------------------------------------------


class TextArrived(Tagged):
    """Transient: text of an agent message, coalesced (20 ms or 2 KiB)."""

    turn_id: str
    item_id: str
    delta: str


class ReasoningArrived(Tagged):
    """Transient: reasoning text."""

    turn_id: str
    item_id: str
    delta: str


class OutputArrived(Tagged):
    """Transient: output of a running command."""

    turn_id: str
    call_id: str
    delta: str


class Waiting(Tagged):
    """Transient: the agent waits for the provider, a slot or an answer, and why."""

    reason: str
    delay_s: float = 0.0
    attempt: int = 0
    max_attempts: int = 0


DurableEvent = (  # journaled, then acknowledged
    TurnStarted
    | TurnCompleted
    | TurnFailed
    | TurnAborted
    | ItemCompleted
    | ContextReplaced
    | CallBegan
    | CallEnded
    | ProviderFallback
    | HookRan
    | PartEvent
    | TokenCount
    | Warned
)
AnyEvent = (
    Hello
    | Heartbeat
    | Goodbye
    | RequestSent
    | TextArrived
    | ReasoningArrived
    | OutputArrived
    | Waiting
    | DurableEvent
)
TRANSIENT_EVENTS = (Heartbeat, TextArrived, ReasoningArrived, OutputArrived, Waiting)

encode_event = msgspec.msgpack.Encoder().encode
decode_event = msgspec.msgpack.Decoder(AnyEvent).decode

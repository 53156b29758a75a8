"""What the journal holds: every durable event, and what the supervisor itself did.

One JSON line a record: `Record`. Views, resume, `log` and `--json` are folds over records.
"""

from typing import Literal

import msgspec

from .base import SCHEMA_VERSION, Tagged, Value
from .events import (
    CallBegan,
    CallEnded,
    TokenCount,
    TurnAborted,
    TurnCompleted,
    TurnFailed,
    TurnStarted,
    Warned,
)
from .gateway import Drew, Lapsed
from .items import AnyItem, TokenUsage
from .limits import Budget, Limits
from .ops import Mail, UserInputPart

EndState = Literal[
    "completed",
    "truncated",
    "interrupted",
    "budget",
    "deadline",
    "refused",
    "failed",
    "crashed",
    "killed",
]


class RunStarted(Tagged):
    run_id: str
    task: str  # the task file's path, or "-" / "prompt"
    title: str  # first line of the prompt, ≤ 80 characters
    cwd: str
    version: str
    resumed: bool = False


class ProviderChosen(Tagged):
    provider: str
    model: str
    why: str


class AgentSpawned(Tagged):
    """A slot was committed: the process said Hello. `epoch` > 1 is a restart or a resume."""

    agent_id: str
    path: str
    epoch: int
    pid: int
    role: str = "default"
    nickname: str = ""
    parent: str | None = None
    depth: int = 0
    model: str | None = None
    effort: str | None = None
    limits: Limits = Limits()
    cwd: str = ""
    warm: bool = True  # forked from the fork-server
    spawn_s: float = 0.0


class InputPosted(Tagged):
    """A person, the task file or the harness spoke to an agent."""

    input_id: str
    parts: tuple[UserInputPart, ...]
    source: Literal["task", "person", "fan_out"] = "task"
    output_schema: bytes | None = None  # JSON text (base64 in the journal)


class MailPosted(Tagged):
    mail: Mail


class MailHandled(Tagged):
    """Its recipient has taken it up, or it can never be delivered (`dead`)."""

    mail_id: str
    dead: bool = False
    reason: str = ""


class ItemRecorded(Tagged):
    """`events.ItemCompleted` with its item opened: what the history holds."""

    turn_id: str
    item: AnyItem
    item_id: str
    source: Literal["context", "user", "mail", "model", "tool", "note"] = "model"


class ContextRecorded(Tagged):
    """`events.ContextReplaced` with its items opened."""

    turn_id: str
    items: tuple[AnyItem, ...]
    summary: str = ""


class ProcessEnded(Tagged):
    """An agent's process is gone; its slot is free."""

    agent_id: str
    epoch: int
    pid: int
    exit_code: int | None = None
    signal: int | None = None
    reason: str = ""  # for people: "killed by signal 9", "no heartbeat for 10 s"
    stderr_tail: str = ""
    orderly: bool = False


class AgentEnded(Tagged):
    """An agent's work has reached an end state; its path stays."""

    agent_id: str
    state: EndState
    message: str = ""  # the result, or why not
    usage: TokenUsage = TokenUsage()


class BudgetSet(Tagged):
    """The bounds of this agent and all below it, from now on; said again when a run is resumed.

    `spent_…`: what counts against them already.
    """

    budget: Budget
    deadline_unix_s: float | None = None
    spent_tokens: int = 0
    spent_usd: float = 0.0
    spent_requests: int = 0


class Reserved(Tagged):
    """A request was granted: until its `Drew` or `Lapsed` it counts as spent."""

    agent_id: str
    reservation: str
    tokens: int
    usd: float | None = None
    last: bool = False


class GatewayEnded(Tagged):
    epoch: int
    reason: str
    stderr_tail: str = ""


class FanOutPlanned(Tagged):
    """`items` in order; `name` of item n is the path segment of its agent."""

    items: tuple[str, ...]
    names: tuple[str, ...]
    role: str = "default"
    concurrency: int = 1


class FanOutItemEnded(Tagged):
    index: int
    item: str
    agent: str  # path
    state: EndState
    result: str = ""
    attempt: int = 1


class RunCompleted(Tagged):
    status: Literal[
        "completed", "failed", "refused", "budget", "deadline", "provider", "sandbox",
        "interrupted", "terminated",
    ]  # fmt: skip
    result: str | None = None
    message: str = ""
    usage: TokenUsage = TokenUsage()
    agents: int = 0
    usd: float | None = None
    duration_s: float = 0.0


AnyRecordBody = (
    RunStarted
    | ProviderChosen
    | AgentSpawned
    | InputPosted
    | MailPosted
    | MailHandled
    | TurnStarted
    | TurnCompleted
    | TurnFailed
    | TurnAborted
    | ItemRecorded
    | ContextRecorded
    | CallBegan
    | CallEnded
    | TokenCount
    | Warned
    | BudgetSet
    | Reserved
    | Drew
    | Lapsed
    | ProcessEnded
    | AgentEnded
    | GatewayEnded
    | FanOutPlanned
    | FanOutItemEnded
    | RunCompleted
)


class Record(Value):
    """One line. `agent` is a path, or "" for the run itself; `seq` counts over the whole run."""

    seq: int
    ts: float  # unix seconds, milliseconds kept
    body: AnyRecordBody
    agent: str = ""
    schema_version: int = SCHEMA_VERSION


encode_record = msgspec.json.Encoder().encode
decode_record = msgspec.json.Decoder(Record).decode

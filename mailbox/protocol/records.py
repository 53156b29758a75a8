"""Journal records: every durable event, and what the supervisor itself did.

One `Record` per JSON line. Views, resume, `log` and `--json` are folds over records.
"""

from typing import Literal

import msgspec

from ..parts.part_messages import PartEndState, PartRecord
from .approvals import ApprovalGrant, ApprovalOutcome, ApprovalRequest, DecidedBy, Scope
from .changes import CompactionInfo, TurnDiff
from .events import (
    CallBegan,
    CallEnded,
    HookRan,
    ProviderFallback,
    TokenCount,
    TurnAborted,
    TurnCompleted,
    TurnFailed,
    TurnStarted,
    Warned,
)
from .gateway import RateLimits, ReservationReleased, ResponseBilled
from .host_records import AnyHostRecord
from .items import AnyItem, TokenUsage
from .merge_records import AnyMergeRecord
from .ops import Mail, UserInputPart
from .review import EnteredReviewMode, ExitedReviewMode
from .settings import AgentSettings
from .values.base import SCHEMA_VERSION, Tagged, Value
from .values.limits import Budget, Limits

EndState = Literal[
    "completed", "truncated", "interrupted", "budget", "deadline", "refused", "failed", "crashed",
    "killed",
]  # fmt: skip


class RunStarted(Tagged):
    run_id: str
    task: str  # the task file's path, or "-" / "prompt"
    title: str  # first line of the prompt, ≤ 80 characters
    cwd: str
    version: str
    resumed: bool = False
    forked_from: str = ""  # the run that this one was forked from
    # rights that the task file added to the person's flags and configuration
    widened: tuple[str, ...] = ()
    isolation: str = ""  # which agents work in copies of the project, in words; "": none


class ProviderChosen(Tagged):
    provider: str
    model: str
    why: str
    caution: str = ""  # why an answer of this model is not to be trusted; "" for most


class AgentSpawned(Tagged):
    """An agent's process said Hello and its slot is taken. `epoch` > 1 is a restart or a resume."""

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
    warm: bool = True  # forked from the fork server
    spawn_s: float = 0.0
    usage: TokenUsage = TokenUsage()  # what its earlier processes used; with their cost, if known
    usd: float | None = None
    provider: str | None = None  # None: the run's own
    fallback: tuple[str, ...] = ()
    claims: tuple[str, ...] = ()  # files and folders that it is to write
    node: str = ""  # the machine, if it is another one
    resources: dict[str, float] = {}  # what it takes of that machine
    task_key: str = ""  # equal for tasks of the same words


class InputPosted(Tagged):
    """A person, the task file or the harness sent input to an agent."""

    input_id: str
    parts: tuple[UserInputPart, ...]
    source: Literal["task", "person", "fan_out"] = "task"
    output_schema: bytes | None = None  # JSON text (base64 in the journal)


class MailPosted(Tagged):
    mail: Mail


class MailHandled(Tagged):
    """The recipient has taken up this mail, or it can never be delivered (`dead`)."""

    mail_id: str
    dead: bool = False
    reason: str = ""


class ItemRecorded(Tagged):
    """`events.ItemCompleted` with its item decoded, as it is in the history."""

    turn_id: str
    item: AnyItem
    item_id: str
    source: Literal["context", "user", "mail", "model", "tool", "note"] = "model"


class ContextRecorded(Tagged):
    """`events.ContextReplaced` with its items decoded."""

    turn_id: str
    items: tuple[AnyItem, ...]
    summary: str = ""
    shortened: CompactionInfo | None = None
    undoes: str = ""
    rolled_back: int = 0


class ProcessEnded(Tagged):
    """An agent's process has ended; its slot is free."""

    agent_id: str
    epoch: int
    pid: int
    exit_code: int | None = None
    signal: int | None = None
    reason: str = ""  # for people: "killed by signal 9", "no heartbeat for 10 s"
    stderr_tail: str = ""
    orderly: bool = False


class AgentEnded(Tagged):
    """An agent has reached an end state; its path stays taken."""

    agent_id: str
    state: EndState
    message: str = ""  # the result, or the reason why there is none
    usage: TokenUsage = TokenUsage()
    # by the end of the run: a resume continues it, and its parent is not notified
    cut_off: bool = False


class SettingsChanged(Tagged):
    """An agent's settings changed: by a person, from its next turn on, or by a fallback."""

    agent_id: str
    settings: AgentSettings


class PauseSet(Tagged):
    """A person paused or continued an agent, or the whole run (if the record has no agent)."""

    paused: bool = True


class BudgetSet(Tagged):
    """The limits of this agent and all below it, from now on; repeated when a run is resumed.

    `spent_…` is what counts against them already.
    """

    budget: Budget
    deadline_unix_s: float | None = None
    spent_tokens: int = 0
    spent_usd: float = 0.0
    spent_requests: int = 0


class Reserved(Tagged):
    """A request was granted; it counts as spent until `ResponseBilled` or `ReservationReleased`."""

    agent_id: str
    reservation: str
    tokens: int
    usd: float | None = None
    last: bool = False


class ApprovalRequested(Tagged):
    """An action waits for an answer. The record's agent is the one that asks."""

    approval_id: str
    request: ApprovalRequest
    reviewer: Literal["person", "guardian"]


class ApprovalResolved(Tagged):
    approval_id: str
    outcome: ApprovalOutcome
    by: DecidedBy
    scope: Scope = "once"
    reason: str = ""  # as the model reads it


class GrantGiven(Tagged):
    """A grant that holds from now on, also after a resume; `used_up` ends it."""

    grant: ApprovalGrant
    used_up: bool = False


class Reviewed(Tagged):
    """One attempt of the reviewer to assess an action."""

    review_id: str
    approval_id: str
    outcome: Literal["approved", "denied", "failed", "timed_out", "aborted"]
    risk: str = ""  # low, medium, high, critical
    authorization: str = ""  # unknown, low, medium, high
    rationale: str = ""
    attempt: int = 1
    session: str = ""  # path of the reviewing process: its main session or a fork
    delta: bool = False  # it was shown only what was new
    duration_s: float = 0.0
    usage: TokenUsage = TokenUsage()
    usd: float | None = None


class SnapshotTaken(Tagged):
    """Files were copied before a call changed them; `manifest` names the list in the store."""

    snapshot_id: str
    manifest: str  # sha256
    files: int
    size_bytes: int
    turn_id: str = ""
    call_id: str = ""
    left_out: tuple[str, ...] = ()  # requested files that were not copied: too large or unreadable


class SnapshotSettled(Tagged):
    """The state in which the call left the copied files."""

    snapshot_id: str
    manifest: str


class WatchBegan(Tagged):
    """Files below these folders are watched for changes; repeated when that changes."""

    roots: tuple[str, ...]
    files: int  # entries of all kinds
    uncovered: tuple[str, ...] = ()  # the first of the folders that are not watched
    uncovered_count: int = 0
    took_s: float = 0.0


class FilesChanged(Tagged):
    """What an agent's calls changed; `before` and `after` name lists of the same paths.

    `shared_with` names agents that worked at the same time and may have made these changes instead.
    """

    change_id: str  # a snapshot's id
    before: str  # sha256
    after: str
    files: int
    turn_id: str = ""
    call_ids: tuple[str, ...] = ()
    shared_with: tuple[str, ...] = ()


class Undone(Tagged):
    """A person restored a snapshot's files; `kept_as` is the snapshot of what they replaced."""

    snapshot_id: str
    restored: int
    left: tuple[str, ...] = ()  # not restored: others changed them since
    kept_as: str = ""
    failed: tuple[str, ...] = ()  # could not be written: still to be undone


class GatewayEnded(Tagged):
    epoch: int
    reason: str
    stderr_tail: str = ""


class FanOutPlanned(Tagged):
    """Fan-out items in order; `names[n]` is the path segment of the agent for item n."""

    items: tuple[str, ...]
    names: tuple[str, ...]
    role: str = "default"
    concurrency: int = 1
    root_id: str = ""  # id reserved for the root, which starts after the items


class FanOutItemEnded(Tagged):
    index: int
    item: str
    agent: str  # path
    state: EndState
    result: str = ""
    attempt: int = 1


class RunIdle(Tagged):
    """All work has ended, and the run stays: it waits for input. The next turn ends this state.

    `status` and `result` are those that the run would have if it ended now.
    """

    status: (
        Literal[
            "completed",
            "partial",
            "truncated",
            "failed",
            "refused",
            "budget",
            "deadline",
            "provider",
            "sandbox",
            "interrupted",
            "terminated",
        ]
        | PartEndState
    ) = "completed"
    result: str | None = None
    message: str = ""


class RunCompleted(Tagged):
    status: (
        Literal[
            "completed",
            "partial",
            "truncated",
            "failed",
            "refused",
            "budget",
            "deadline",
            "provider",
            "sandbox",
            "interrupted",
            "terminated",
        ]
        | PartEndState
    )
    result: str | None = None
    message: str = ""
    usage: TokenUsage = TokenUsage()
    agents: int = 0
    usd: float | None = None
    duration_s: float = 0.0
    redacted: dict[str, int] = {}  # secrets hidden in this process's records, by rule
    caution: str = ""  # as in `ProviderChosen`


AnyRecordBody = (
    RunStarted | ProviderChosen | AgentSpawned | InputPosted | MailPosted | MailHandled
    | TurnStarted | TurnCompleted | TurnFailed | TurnAborted | ItemRecorded | ContextRecorded
    | CallBegan | CallEnded | ProviderFallback | HookRan | PartRecord | TokenCount
    | Warned | EnteredReviewMode | ExitedReviewMode | SettingsChanged | PauseSet | BudgetSet
    | Reserved | ResponseBilled | ReservationReleased | RateLimits | ProcessEnded | AgentEnded
    | ApprovalRequested | ApprovalResolved | GrantGiven | Reviewed | SnapshotTaken
    | SnapshotSettled | WatchBegan | FilesChanged | TurnDiff | Undone | AnyMergeRecord
    | AnyHostRecord | GatewayEnded | FanOutPlanned | FanOutItemEnded
    | RunIdle | RunCompleted
)  # fmt: skip


class Record(Value):
    """One line. `agent` is a path, or "" for the run itself; `seq` counts over the whole run."""

    seq: int
    ts: float  # unix seconds, milliseconds kept
    body: AnyRecordBody
    agent: str = ""
    schema_version: int = SCHEMA_VERSION


encode_record = msgspec.json.Encoder().encode
decode_record = msgspec.json.Decoder(Record).decode

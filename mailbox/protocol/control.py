"""Messages between other terminals and the supervisor: control requests, and the event feed."""

from typing import Literal

import msgspec

from ..parts.part_messages import PartControl, PartControlReply, PartFigures
from .approvals import PendingApproval, Scope
from .events import OutputArrived, ReasoningArrived, TextArrived, Waiting
from .gateway import Fetching, LimitWindow, Throttled
from .items import TokenUsage
from .records import Record
from .review import ReviewTarget
from .settings import SandboxMode, Summary, Verbosity
from .values.base import Tagged, Value
from .values.limits import AskForApproval, Budget

AgentState = Literal[
    "queued", "starting", "running", "idle", "waiting", "suspended", "restarting", "ended"
]


class AgentView(Value):
    """One agent as people see it. A snapshot of all agents is a whole tree."""

    path: str
    agent_id: str = ""
    role: str = "default"
    nickname: str = ""
    model: str = ""
    effort: str = ""
    state: AgentState = "starting"
    end_state: str = ""  # a records.EndState once it has ended
    cut_off: bool = False  # it ended because the run did: a resume continues it
    pid: int = 0
    epoch: int = 1
    tool: str = ""  # the tool that runs now, "" if none
    argument: str = ""
    doing: str = ""  # the same in words, for a command known to only read
    last_progress: float = 0.0  # unix seconds
    started: float = 0.0
    usage: TokenUsage = TokenUsage()
    usd: float | None = None
    context_tokens: int = 0
    context_window: int = 0
    rss_bytes: int = 0
    note: str = ""  # reason for waiting, or failure text
    in_copy: bool = False  # it works in a copy of the project
    node: str = ""  # the machine on which it runs, if it is another one
    change: str = ""  # what is in that copy: `+120 -14 in 5 files`
    text: str = ""  # the end of the text that is arriving now
    sandbox: str = ""
    planning: bool = False  # plan mode: it only reads
    task: str = ""  # first line of its first input
    result: str = ""
    approval: str = ""  # id of the approval it waits for
    steps: int = 0  # tool calls that it began
    worked_s: float = 0.0  # in its turns that have ended
    turn_began: float = 0.0  # unix seconds; 0: no turn runs
    added: int = 0  # lines that its turns changed, as their `TurnDiff`s count; likewise `removed`
    removed: int = 0
    shared_change: bool = False  # some of these lines may be those of another agent
    denied: int = 0  # its requests that were denied


class RunView(Value):
    """The whole run as people see it; `seq` is the last record that it includes."""

    run_id: str = ""
    title: str = ""
    task: str = ""
    cwd: str = ""
    provider: str = ""
    model: str = ""
    why: str = ""
    caution: str = ""  # as in `ProviderChosen`
    started: float = 0.0
    status: str = "running"
    seq: int = 0
    agents: tuple[AgentView, ...] = ()  # in order of their paths
    usage: TokenUsage = TokenUsage()
    usd: float | None = None
    slots_used: int = 0
    slots_max: int = 0
    fan_total: int = 0
    fan_done: int = 0
    fan_failed: int = 0
    throttle: str = ""
    rate_limits: tuple[LimitWindow, ...] = ()
    fetching: str = ""  # the model file being downloaded
    fetched_bytes: int = 0
    fetch_total_bytes: int = 0
    warnings: int = 0
    budget: Budget = Budget()  # limits of the whole run
    deadline_unix_s: float | None = None
    drawn_tokens: int = 0  # what counts against them, as billed to the gateway
    drawn_requests: int = 0
    approvals: tuple[PendingApproval, ...] = ()  # pending approvals, oldest first
    review_usage: TokenUsage = TokenUsage()  # used by the reviewer; not in `usage`
    review_usd: float | None = None
    # rights that the task file added to the person's flags and configuration
    widened: tuple[str, ...] = ()
    denied: int = 0  # requests of agents that were denied
    unlisted: int = 0  # agents that ended long ago: in the totals, no longer in `agents`
    parts: PartFigures = PartFigures()


class GetSnapshot(Tagged):
    pass


class SendText(Tagged):
    """Send text to an agent; `wake` starts a turn if none runs."""

    agent: str
    text: str
    wake: bool = True
    input_id: str = ""  # chosen by the sender, to find it in the journal; "": by the supervisor
    images: tuple[str, ...] = ()  # absolute paths; only with `wake`


class InterruptAgent(Tagged):
    """Abort the turn of one agent, or of all if `agent` is empty; their commands end too."""

    agent: str = ""
    keep_commands: bool = False


class ChangeSettings(Tagged):
    """Change an agent's settings from its next turn on; None: unchanged.

    Without `widen` sandbox, approval and folder can only shrink.
    """

    agent: str
    # "" = the default; `PROVIDER:MODEL` also names the provider
    model: str | None = None
    effort: str | None = None  # "" = the model's default
    summary: Summary | None = None
    verbosity: Verbosity | None = None
    sandbox: SandboxMode | None = None
    approval: AskForApproval | None = None
    cwd: str | None = None  # absolute, or relative to its working folder
    plan: bool | None = None  # begin plan mode; False: end it, with what it was allowed before
    widen: bool = False
    provider: str | None = None  # "" = the run's own; its default model unless `model` is given


class AcceptPlan(Tagged):
    """End an agent's plan mode, and send it this text, which starts a turn."""

    agent: str = ""  # "" = the root
    text: str = ""  # "" = that the plan is accepted


class ReviewWork(Tagged):
    """Have a child of the agent review the agent's changes and report to it."""

    agent: str
    prompt: str
    target: ReviewTarget = "custom"
    hint: str = ""
    broken: tuple[str, ...] = ()  # changed files that do not parse: `path: why`


class PauseAgent(Tagged):
    """Pause an agent's requests to the model, or those of the whole run if `agent` is empty."""

    agent: str = ""


class ContinueAgent(Tagged):
    """End the pause of an agent, or of the whole run if `agent` is empty."""

    agent: str = ""


class KillAgent(Tagged):
    """End an agent and its descendants for good, or the whole run if `agent` is empty."""

    agent: str = ""


class EndRun(Tagged):
    """End a run that waits for input, with its last answer; one at work ends after its work."""


class ListApprovals(Tagged):
    """List pending approvals, and those that a reviewer recently denied.

    With an id only that one, and all of it. A list shortens what does not fit (`is_short`).
    """

    approval_id: str = ""


class ResolveApproval(Tagged):
    """A person's answer; the first one counts."""

    approval_id: str
    approve: bool
    scope: Scope = "once"
    reason: str = ""
    abort: bool = False  # with a denial: end the turn too
    answers: dict[str, tuple[str, ...]] = {}  # to a model's questions, by question id


class UndoFiles(Tagged):
    """Restore files from a snapshot; without one, to their state before an agent's turns."""

    agent: str = ""
    snapshot_id: str = ""
    force: bool = False  # also over changes that others made since, or may have made
    turns: tuple[str, ...] = ()  # only these turns; (): all
    keep: tuple[str, ...] = ()  # paths that stay as they are: a person may have changed them


NOTHING_TO_MERGE = "there is nothing to merge"  # how a reply begins if no agent has a change


class MergeChanges(Tagged):
    """Merge the changes of agents that work in copies into the project; () is all of them."""

    agents: tuple[str, ...] = ()
    discard: bool = False  # give them up instead
    tested: str = ""  # digest of the plan that a command was run on; another one is refused
    resolved: dict[str, str] = {}  # what files in conflict become, by their paths


class CompactAgent(Tagged):
    """Compact an agent's history; with `undo`, reverse its last compaction."""

    agent: str = ""  # "" = the root
    undo: bool = False


class RollBack(Tagged):
    """Roll back the last turns of an idle agent; files stay as they are."""

    agent: str = ""  # "" = the root
    turns: int = 1


AnyControl = (
    GetSnapshot
    | SendText
    | InterruptAgent
    | ChangeSettings
    | AcceptPlan
    | ReviewWork
    | PauseAgent
    | ContinueAgent
    | KillAgent
    | EndRun
    | ListApprovals
    | ResolveApproval
    | UndoFiles
    | MergeChanges
    | PartControl
    | CompactAgent
    | RollBack
)


class Snapshot(Tagged):
    view: RunView


class Approvals(Tagged):
    entries: tuple[PendingApproval, ...] = ()


class Done(Tagged):
    message: str = ""


class Refused(Tagged):
    """`exit_code` as in `SwarmError`; the text says what to do."""

    message: str
    exit_code: int = 1
    run_ends: bool = False  # nothing was taken: the run is ending, and a resume takes it


AnyControlReply = Snapshot | Approvals | Done | Refused | PartControlReply


class Recorded(Tagged):
    """On the feed: one journaled record."""

    record: Record


class AgentHeld(Tagged):
    """On the feed: a state that no record reports, until the next record about the agent.

    It is in line for a slot, its turn waits without a process, or it is between two processes.
    """

    state: Literal["queued", "suspended", "restarting"]
    note: str = ""


class QueueLeft(Tagged):
    """On the feed: an agent that stood in line will not start."""


class MemoryUsed(Tagged):
    """On the feed: the memory of an agent's process."""

    rss_bytes: int


ShownState = AgentHeld | QueueLeft | MemoryUsed
"""What the supervisor says of an agent that no journal keeps."""


class TransientEvent(Tagged, tag="passed"):
    """On the feed: a transient event of an agent, or what the supervisor says of it."""

    agent: str
    event: (
        TextArrived
        | ReasoningArrived
        | OutputArrived
        | Waiting
        | Throttled
        | Fetching
        | AgentHeld
        | QueueLeft
        | MemoryUsed
    )


AnyFeed = Recorded | TransientEvent

encode_control = msgspec.msgpack.Encoder().encode
decode_control = msgspec.msgpack.Decoder(AnyControl).decode
decode_control_reply = msgspec.msgpack.Decoder(AnyControlReply).decode
decode_feed = msgspec.msgpack.Decoder(AnyFeed).decode

"""Other terminals ⇄ supervisor: questions on the control socket, records on the feed."""

from typing import Literal

import msgspec

from .approvals import PendingApproval, Scope
from .base import Tagged, Value
from .events import OutputArrived, ReasoningArrived, TextArrived, Waiting
from .gateway import Fetching, LimitWindow, Throttled
from .items import TokenUsage
from .limits import AskForApproval, Budget
from .records import Record
from .review import ReviewTarget
from .settings import SandboxMode, Summary, Verbosity

AgentState = Literal[
    "queued", "starting", "running", "idle", "waiting", "suspended", "restarting", "ended"
]


class AgentView(Value):
    """One agent as people see it. A snapshot of all of them is a whole tree."""

    path: str
    agent_id: str = ""
    role: str = "default"
    nickname: str = ""
    model: str = ""
    effort: str = ""
    state: AgentState = "starting"
    end_state: str = ""  # records.EndState once ended
    pid: int = 0
    epoch: int = 1
    tool: str = ""  # what runs now, "" if nothing
    argument: str = ""
    doing: str = ""  # the same in words, of a command that is known to only read
    last_progress: float = 0.0  # unix seconds
    started: float = 0.0
    usage: TokenUsage = TokenUsage()
    usd: float | None = None
    context_tokens: int = 0
    context_window: int = 0
    rss_bytes: int = 0
    note: str = ""  # waiting reason, failure text
    text: str = ""  # the end of the text that arrives now
    sandbox: str = ""
    task: str = ""  # first line of its first input
    result: str = ""
    approval: str = ""  # id of what it waits for


class RunView(Value):
    """The whole run as people see it; `seq` is the last record it includes."""

    run_id: str = ""
    title: str = ""
    task: str = ""
    cwd: str = ""
    provider: str = ""
    model: str = ""
    why: str = ""
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
    fetching: str = ""  # a model file that arrives now
    fetched_bytes: int = 0
    fetch_total_bytes: int = 0
    warnings: int = 0
    budget: Budget = Budget()  # bounds of the whole run
    deadline_unix_s: float | None = None
    drawn_tokens: int = 0  # what counts against them, as the gateway was billed
    drawn_requests: int = 0
    approvals: tuple[PendingApproval, ...] = ()  # what waits for an answer, oldest first
    review_usage: TokenUsage = TokenUsage()  # what the reviewer used; not in `usage`
    review_usd: float | None = None
    widened: tuple[str, ...] = ()  # by the task file, beyond the person's own words
    unlisted: int = 0  # agents that ended long ago: in the totals, no longer in `agents`


class GetSnapshot(Tagged):
    pass


class SendText(Tagged):
    """Speak to an agent; `wake` starts a turn if none runs."""

    agent: str
    text: str
    wake: bool = True


class InterruptAgent(Tagged):
    """Abort the turn of one agent, of all when `agent` is empty; their commands end too."""

    agent: str = ""
    keep_commands: bool = False


class ChangeSettings(Tagged):
    """Change how an agent works from its next turn on; None: as it is. It may only lose rights."""

    agent: str
    model: str | None = None  # "" = the run's default
    effort: str | None = None  # "" = the model's default
    summary: Summary | None = None
    verbosity: Verbosity | None = None
    sandbox: SandboxMode | None = None
    approval: AskForApproval | None = None
    cwd: str | None = None  # absolute, or relative to where it works


class ReviewWork(Tagged):
    """Have an agent's changes reviewed by a child of its own, which answers it."""

    agent: str
    prompt: str
    target: ReviewTarget = "custom"
    hint: str = ""


class PauseAgent(Tagged):
    """No further request of this agent; of the whole run when `agent` is empty."""

    agent: str = ""


class ContinueAgent(Tagged):
    """The pause of this agent is over; of the whole run when `agent` is empty."""

    agent: str = ""


class KillAgent(Tagged):
    """End an agent and its descendants for good; the whole run when `agent` is empty."""

    agent: str = ""


class ListApprovals(Tagged):
    """What waits, and what a reviewer denied lately."""


class ResolveApproval(Tagged):
    """A person's answer; the first one counts."""

    approval_id: str
    approve: bool
    scope: Scope = "once"
    reason: str = ""
    abort: bool = False  # with a no: end the turn too
    answers: dict[str, tuple[str, ...]] = {}  # to a model's questions, by their ids


class UndoFiles(Tagged):
    """Put files back as a snapshot has them; without one, as they were before an agent's turns."""

    agent: str = ""
    snapshot_id: str = ""
    force: bool = False  # also over what others changed since, or may have changed
    turns: tuple[str, ...] = ()  # only of these; none: of all


class CompactAgent(Tagged):
    """Have an agent's history shortened; `undo`: put back what its last compaction took."""

    agent: str = ""  # "" = the root
    undo: bool = False


class RollBack(Tagged):
    """Make an agent at rest forget its last turns; files stay as they are."""

    agent: str = ""  # "" = the root
    turns: int = 1


AnyControl = (
    GetSnapshot
    | SendText
    | InterruptAgent
    | ChangeSettings
    | ReviewWork
    | PauseAgent
    | ContinueAgent
    | KillAgent
    | ListApprovals
    | ResolveApproval
    | UndoFiles
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
    """`exit_code` as in CLI.md; the text says what to do."""

    message: str
    exit_code: int = 1


AnyControlReply = Snapshot | Approvals | Done | Refused


class Recorded(Tagged):
    """On the feed: one journaled record."""

    record: Record


class TransientEvent(Tagged, tag="passed"):
    """On the feed: a passing event of an agent."""

    agent: str
    event: TextArrived | ReasoningArrived | OutputArrived | Waiting | Throttled | Fetching


AnyFeed = Recorded | TransientEvent

encode_control = msgspec.msgpack.Encoder().encode
decode_control = msgspec.msgpack.Decoder(AnyControl).decode
decode_control_reply = msgspec.msgpack.Decoder(AnyControlReply).decode
decode_feed = msgspec.msgpack.Decoder(AnyFeed).decode

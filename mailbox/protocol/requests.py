"""Requests from agents (in `events.RequestSent`) and the supervisor's replies (in `ops.Answer`)."""

from typing import Annotated, Literal

import msgspec

from ..parts.part_messages import PartQuestion, PartQueued, PartReply, PartRequest
from .approvals import ApprovalOutcome, ApprovalRequest, DecidedBy, ExtraPermissions, Scope
from .changes import FileChange
from .mcp import (
    CallMcpTool,
    ListMcpResources,
    ListMcpTools,
    McpOutcome,
    McpTools,
    ReadMcpResource,
    ReadMcpResult,
)
from .server_sampling import SamplingAnswer
from .values.base import Tagged, Value
from .values.limits import Isolation


class StoreBlob(Tagged):
    """Store an image in the run's folder, where every process of the run can read it."""

    sha256: str  # hex; checked on arrival
    data: bytes


class GetEnvironment(Tagged):
    """The environment that a login shell gives a command; read once per run."""


class RequestApproval(Tagged, tag="review"):
    """May this action be done? The reply is `Decided`; a person may take any time to answer."""

    approval: ApprovalRequest


MAX_KEPT_FILES = 20_000  # per request
MAX_KEPT_BYTES = 512 * 1024 * 1024


class KeepFiles(Tagged):
    """Copy these files and folders to the run's store before a command deletes them."""

    turn_id: str
    call_id: str
    paths: tuple[str, ...]  # absolute


class WatchFiles(Tagged):
    """Announce a call that may change files, so that their state is recorded first.

    The reply is `FilesWatched`, after about a second at most. The call's `CallEnded` marks its end.
    """

    turn_id: str
    call_id: str
    paths: tuple[str, ...] = ()  # absolute; paths that the call is known to change


class SaveFiles(Tagged):
    """Bring what this agent has changed on another machine into the run's folder.

    The reply is `FilesSaved`. Asked before a call that may have changed files is said to be done.
    """


class ListChanges(Tagged):
    """Which files did this agent's patches and commands change? The reply is `ChangesReply`."""


class PlanMerge(Tagged):
    """Plan the merge of what agents below this one changed in their copies; it writes nothing.

    The reply is `MergePlanned`.
    """

    targets: tuple[str, ...] = ()  # paths; (): all whose work has ended
    resolved: dict[str, str] = {}  # what files in conflict become, by their paths


class MergeCopies(Tagged):
    """Merge these agents' changes, or give them up; the reply is `MergeReported`."""

    targets: tuple[str, ...]
    tested: str = ""  # digest of the plan; the merge of another one is refused
    discard: bool = False
    resolved: dict[str, str] = {}  # as in the plan


class MergeWritten(Tagged):
    """This agent has run the program of a `MergeReported`. The reply is another one, without."""

    merge_id: str
    result: str = ""  # what the program printed; "": it failed


# --- the team --------------------------------------------------------------------------------
# A target is a path: absolute (`/root/a`), or relative to the requesting agent (`a`, `a/b`).


class Spawn(Tagged):
    """Start a child. Without a free slot it waits up to `deadline_s`, then it is refused."""

    task_name: str  # one path segment
    message: str
    agent_type: str | None = None  # role
    fork_turns: str = "none"  # "none", "all", or a positive number as text
    model: str | None = None
    reasoning_effort: str | None = None
    deadline_s: float = 120.0
    claims: tuple[str, ...] = ()  # files and folders that the child is to write
    isolation: Isolation | None = None  # None: as the role and the run say; they may say more
    host: str | None = None  # where it runs; None: as the role and the run say
    resources: dict[str, Annotated[float, msgspec.Meta(ge=0)]] = {}  # what it takes of a machine


class SendMail(Tagged):
    """Send mail; it does not wake an idle agent."""

    target: str
    message: str


class FollowUp(Tagged):
    """Give another task to an agent, live or finished: wakes it, or starts its process again."""

    target: str
    message: str
    interrupt: bool = False  # abort its running turn first


class WaitFor(Tagged):
    """Wait until agents finish, mail arrives or time is up; returns at once if either has happened.

    Without targets: any mail or any child's end. An ended agent counts as finished.
    """

    targets: tuple[str, ...] = ()
    mode: Literal["any", "all"] = "any"
    timeout_s: float = 30.0


class ListAgents(Tagged):
    path_prefix: str | None = None


class HaltAgent(Tagged):
    """Abort a descendant's turn; it stays and can get new tasks."""

    target: str


class CloseAgent(Tagged):
    """End a descendant and all below it for good; takes bounded time."""

    target: str


class ReportModelAnswer(Tagged):
    """The answer to an `AskModel`; the reply is `Sent`."""

    question: int
    answer: SamplingAnswer


class ReportPermission(Tagged):
    """What hooks say to an `AskPermissionHooks`; the reply is `Sent`."""

    question: int
    denied: str | None = None  # why a hook denies it
    allowed_by: str = ""  # id of the hook that allows it once


# Requests that involve no other agent.
MergeRequest = PlanMerge | MergeCopies | MergeWritten
NonTeamRequest = (
    StoreBlob | GetEnvironment | KeepFiles | WatchFiles | SaveFiles | ListChanges | MergeRequest
)
McpRequest = (
    ListMcpTools
    | CallMcpTool
    | ListMcpResources
    | ReadMcpResource
    | ReadMcpResult
    | ReportModelAnswer
)
# Requests that the team serves: one answer each.
TeamRequest = (
    Spawn | SendMail | FollowUp | WaitFor | ListAgents | HaltAgent | CloseAgent | PartQuestion
)
AnyRequest = (
    NonTeamRequest | McpRequest | RequestApproval | ReportPermission | PartRequest | TeamRequest
)


class BlobStored(Tagged):
    path: str  # absolute


class EnvironmentReply(Tagged, tag="environment_is"):
    """Without any provider's keys."""

    variables: dict[str, str]


class Decided(Tagged):
    """The outcome of an approval request. Unless approved nothing may be done; `text` says why."""

    outcome: ApprovalOutcome
    by: DecidedBy = "nobody"
    scope: Scope = "once"
    text: str = ""  # complete text for the model
    permissions: ExtraPermissions | None = None  # granted part of the requested permissions
    answers: dict[str, tuple[str, ...]] = {}  # by question id


class FilesKept(Tagged):
    """The copies exist; `message` says what was not copied."""

    message: str = ""


class FilesWatched(Tagged):
    """The call may run; the state before it was recorded as far as possible."""


class FilesSaved(Tagged):
    """They are in the run's folder, as far as they could be had."""


class ChangesReply(Tagged, tag="changes_are"):
    """Files as they are now, compared to how this agent found them; the last changed come last."""

    files: tuple[str, ...] = ()  # `A path`, `M path`, `D path`; relative to its folder if inside
    # likewise, but maybe changed by agents that worked at the same time
    perhaps: tuple[str, ...] = ()
    more: int = 0  # number of files not listed


class MergePlanned(Tagged):
    """What goes in, and what conflicts, in words. With conflicts nothing can be merged."""

    text: str
    agents: tuple[str, ...] = ()  # paths of those that have changes
    conflicts: int = 0
    digest: str = ""  # of the plan
    changes: tuple[FileChange, ...] = ()  # to the project; bounded diffs


class MergeReported(Tagged):
    """What was done, in words.

    With a program nothing is written so far: only the agent can write its copy. It runs the
    program, and says so with `MergeWritten`.
    """

    text: str
    merge_id: str = ""
    program: tuple[str, ...] = ()


class RequestRefused(Tagged):
    """The supervisor refuses; the text is for the model or a person."""

    message: str


class QueuedForSlot(Tagged, tag="in_line"):
    """Not yet the reply: the request waits for a slot. May be sent several times before it."""

    place: int  # 1 = next


class Spawned(Tagged):
    path: str
    nickname: str
    model: str = ""
    effort: str = ""
    waited_s: float = 0.0  # for a slot


class Sent(Tagged):
    pass


class TeamMember(Value):
    """One agent as its team sees it. `status` is the end state once it has ended a turn."""

    path: str
    status: str  # queued, starting, running, or an EndState
    result: str | None = None
    last_task: str = ""
    nickname: str = ""
    role: str = ""
    claims: tuple[str, ...] = ()


class Waited(Tagged):
    timed_out: bool
    finished: tuple[TeamMember, ...] = ()
    still_running: tuple[str, ...] = ()
    mail: int = 0  # number of unread mails


class Team(Tagged):
    members: tuple[TeamMember, ...]


class PreviousStatus(Tagged):
    status: str


AnyReply = (
    BlobStored | EnvironmentReply | Decided | FilesKept | FilesWatched | FilesSaved
    | ChangesReply | MergePlanned | MergeReported | RequestRefused | QueuedForSlot
    | PartQueued | PartReply | Spawned | Sent | Waited | Team | PreviousStatus
    | McpTools | McpOutcome
)  # fmt: skip

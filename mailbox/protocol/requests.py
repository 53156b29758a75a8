"""agent asks (in `events.Asked`), supervisor answers (in `ops.Answer`)."""

from typing import Literal

from .approvals import ApprovalOutcome, ApprovalRequest, DecidedBy, ExtraPermissions, Scope
from .base import Tagged, Value


class StoreBlob(Tagged):
    """Keep a picture in the run's folder, where every process of the run may read it."""

    sha256: str  # hex; checked on arrival
    data: bytes


class GetEnvironment(Tagged):
    """What a login shell would give a command; taken once a run."""


class RequestApproval(Tagged, tag="review"):
    """May this be done? The reply is `Decided`, as late as a person's answer."""

    approval: ApprovalRequest


MAX_KEPT_FILES = 20_000  # of one wish
MAX_KEPT_BYTES = 512 * 1024 * 1024


class KeepFiles(Tagged):
    """Copy these files and folders into the run's store before a command throws them away."""

    turn_id: str
    call_id: str
    paths: tuple[str, ...]  # absolute


class WatchFiles(Tagged):
    """A call that may change files is about to run: see first how they are.

    The reply is `FilesWatched`, after a second or little more at the latest. The call's end is
    known by its `CallEnded`.
    """

    turn_id: str
    call_id: str
    paths: tuple[str, ...] = ()  # absolute; those that it is known to change


class ListChanges(Tagged):
    """Which files have my patches and commands changed so far? The reply is `ChangesReply`."""


# --- the team --------------------------------------------------------------------------------
# A target is a path: absolute (`/root/a`), or relative to the asker (`a`, `a/b`).


class Spawn(Tagged):
    """Start a child. Over the limit it waits in line until `deadline_s`, then is refused."""

    task_name: str  # one path segment
    message: str
    agent_type: str | None = None  # role
    fork_turns: str = "none"  # "none", "all", or a positive number as text
    model: str | None = None
    reasoning_effort: str | None = None
    deadline_s: float = 120.0


class SendMail(Tagged):
    """A letter; it does not wake an idle agent."""

    target: str
    message: str


class FollowUp(Tagged):
    """A further task for an agent, alive or finished: it wakes it, or starts its process anew."""

    target: str
    message: str
    interrupt: bool = False  # abort its running turn first


class WaitFor(Tagged):
    """Wait until agents finish, mail arrives or time is up; at once if something is there.

    Without targets: any mail or any child's end. An agent that is gone counts as finished.
    """

    targets: tuple[str, ...] = ()
    mode: Literal["any", "all"] = "any"
    timeout_s: float = 30.0


class ListAgents(Tagged):
    path_prefix: str | None = None


class HaltAgent(Tagged):
    """Abort a descendant's turn; it stays and can be asked again."""

    target: str


class CloseAgent(Tagged):
    """End a descendant and all below it for good; bounded."""

    target: str


class SpawnOnCsv(Tagged):
    """One worker per row (Codex `spawn_agents_on_csv`); answered when the job has ended."""

    csv_path: str
    instruction: str
    id_column: str | None = None
    output_csv_path: str | None = None
    output_schema: bytes | None = None  # JSON
    max_concurrency: int | None = None
    max_runtime_seconds: int | None = None


class ReportJobResult(Tagged):
    """A worker's result for its row, once."""

    job_id: str
    item_id: str
    result: bytes  # a JSON object
    stop: bool = False


NonTeamRequest = (
    StoreBlob | GetEnvironment | KeepFiles | WatchFiles | ListChanges
)  # of no other agent
AnyRequest = (
    NonTeamRequest
    | RequestApproval
    | Spawn
    | SendMail
    | FollowUp
    | WaitFor
    | ListAgents
    | HaltAgent
    | CloseAgent
    | SpawnOnCsv
    | ReportJobResult
)


class BlobStored(Tagged):
    path: str  # absolute


class EnvironmentReply(Tagged, tag="environment_is"):
    """Without any provider's keys."""

    variables: dict[str, str]


class Decided(Tagged):
    """What came of asking. Without `approved` nothing may be done, and `text` says why."""

    outcome: ApprovalOutcome
    by: DecidedBy = "nobody"
    scope: Scope = "once"
    text: str = ""  # whole, for the model
    permissions: ExtraPermissions | None = None  # what was granted of those asked for
    answers: dict[str, tuple[str, ...]] = {}  # by the question's id


class FilesKept(Tagged):
    """A copy is there; `message` says what of it is not."""

    message: str = ""


class FilesWatched(Tagged):
    """The call may run, with what could be seen before it."""


class ChangesReply(Tagged, tag="changes_are"):
    """Files as they are now against how this agent found them; the latest changed stand last."""

    files: tuple[str, ...] = ()  # `A path`, `M path`, `D path`, relative to its folder if within
    perhaps: tuple[str, ...] = ()  # likewise, and maybe the work of agents that worked meanwhile
    more: int = 0  # that are not listed


class RequestRefused(Tagged):
    """The supervisor will not; the text is for the model or a person."""

    message: str


class QueuedForSlot(Tagged, tag="in_line"):
    """Not yet the reply: the request waits for a slot. May come any number of times before it."""

    place: int  # 1 = next


class Spawned(Tagged):
    path: str
    nickname: str
    model: str = ""
    effort: str = ""
    waited_s: float = 0.0  # in line for a slot


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


class Waited(Tagged):
    timed_out: bool
    finished: tuple[TeamMember, ...] = ()
    still_running: tuple[str, ...] = ()
    mail: int = 0  # letters that wait to be read


class Team(Tagged):
    members: tuple[TeamMember, ...]


class PreviousStatus(Tagged):
    status: str


class JobEnded(Tagged):
    """JSON of the tool's answer as Codex gives it (multi-agent sheet 13.1)."""

    summary: bytes


class ResultAccepted(Tagged):
    accepted: bool


AnyReply = (
    BlobStored
    | EnvironmentReply
    | Decided
    | FilesKept
    | FilesWatched
    | ChangesReply
    | RequestRefused
    | QueuedForSlot
    | Spawned
    | Sent
    | Waited
    | Team
    | PreviousStatus
    | JobEnded
    | ResultAccepted
)

"""What a person asked for, as one value: the command line makes it, the supervisor executes it."""

from collections.abc import Callable
from typing import Literal

import msgspec

from swarm.mailbox.base.key_wiping import is_credential_name
from swarm.mailbox.parts.part_messages import PartSettings
from swarm.mailbox.protocol.control import ChangeSettings
from swarm.mailbox.protocol.mcp import McpServer
from swarm.mailbox.protocol.nodes import HostTable
from swarm.mailbox.protocol.review import ReviewTarget
from swarm.mailbox.protocol.rules import RuleSet
from swarm.mailbox.protocol.settings import ModelSettings
from swarm.mailbox.protocol.spec import GatewaySettings, Inherited, RoleBrief
from swarm.mailbox.protocol.values.base import Value
from swarm.mailbox.protocol.values.limits import (
    AskForApproval,
    Budget,
    Granular,
    Isolation,
    McpAccess,
    MergeAtEnd,
    NetworkPolicy,
    Reviewer,
    RunIsolation,
    SandboxPolicy,
    UnixSockets,
)
from swarm.mailbox.protocol.values.limits import WorkspaceWrite as _WorkspaceWrite
from swarm.roles.parts.commands.command_file import PromptCommand
from swarm.roles.parts.skills.rescan import SkillSources
from swarm.roles.parts.skills.skill_file import Skill
from swarm.roles.role_loader import Roles

from ..runs.project_mark import ProjectMark

# An agent's copy of the project: an overlay at the project's own path, or another folder.
CopyKind = Literal["overlay", "tree"]


class RequiredChoices(Value):
    """The values among which an administrator lets a running run choose; None: any value."""

    model: str | None = None
    approvals: tuple[str, ...] | None = None
    sandbox_modes: tuple[str, ...] | None = None


class ItemAgents(Value):
    """What the agents of a fan-out's items are: never more than the run itself may."""

    role: RoleBrief = RoleBrief(name="explorer")
    model_settings: ModelSettings = ModelSettings()  # the run's, unless the items' role sets them
    sandbox: SandboxPolicy | None = None  # narrower than the run's; None: the same
    network: NetworkPolicy | None = None
    unix_sockets: UnixSockets = UnixSockets()
    mcp: tuple[McpAccess, ...] = ()
    budget: Budget = Budget()  # per item, within the run's budget
    isolation: Isolation = "shared"
    host: str = ""  # the table of machines where they work; "": here
    resources: dict[str, float] = {}  # of such a machine


class FanOut(Value):
    """One agent per item; the items are already found, in order."""

    items: tuple[str, ...]
    prompt: str  # with {item}; for CSV rows also {column}
    rows: tuple[dict[str, str], ...] = ()  # CSV only: the columns of each item
    role: str = "explorer"
    concurrency: int | None = None  # None: the free slots
    output_schema: dict[str, object] | None = None
    retries: int = 0
    texts: tuple[str, ...] = ()  # one per item, appended to its prompt; empty: none
    agents: ItemAgents = ItemAgents()


class ReviewSettings(Value):
    """How the guardian reviews, in runs that have one."""

    model: str | None = None  # None: the model of the asking agent
    effort: str | None = "low"
    policy: str = ""  # Markdown; replaces the built-in policy unless blank
    deadline_s: float = 90.0  # of one review, including its process start


class CodeReview(Value):
    """The run reviews code changes; the text of the request is in the prompt."""

    target: ReviewTarget
    hint: str = ""  # for people: what is reviewed
    broken: tuple[str, ...] = ()  # changed files that do not parse: `path: why`


class McpSettings(Value):
    """The MCP servers of a run, and which of them the root may use."""

    servers: tuple[McpServer, ...] = ()
    root: tuple[McpAccess, ...] = ()


class ApprovalSettings(Value):
    """When agents ask, and who answers."""

    approval: AskForApproval = "on-request"
    granular: Granular | None = None  # only with `on-request`
    reviewer: Reviewer = "nobody"
    auto_review: ReviewSettings = ReviewSettings()
    approval_timeout_s: float | None = None  # for a person's answer; None: until the run's deadline
    held: RequiredChoices = RequiredChoices()  # required: what agents, and changes to them, may be


class TeamLimits(Value):
    """How many agents a run may have, and how deep they start others."""

    max_agents: int = 8
    max_depth: int = 3
    max_spawns: int = 1_000  # agents that models may start per run; without items and rows
    wake_parents: bool = True  # a child's end starts a turn of its idle parent
    job_seconds: int | None = None  # limit for one table row, where the call sets none


class CopySettings(Value):
    """Which agents work in copies of the project, where, and what becomes of their work."""

    isolation: RunIsolation = "shared"  # never "children": that is "copy" here
    root_isolation: Isolation = "shared"  # as run and role say
    copy_kind: CopyKind | None = None  # what copies are here; None: not looked at yet
    merge: MergeAtEnd = "ask"  # what the run's end does with work of agents in copies
    hosts: tuple[HostTable, ...] = ()  # other machines that agents of this run may use
    host: str = ""  # where agents that work in copies go; "": they stay here
    prepare: tuple[str, ...] = ()  # commands that get copies ready
    prepare_inputs: tuple[str, ...] = ()  # names of files on which it depends what they make


class RunLifetime(Value):
    """How long a run stays after its work."""

    keep_open: bool = False  # at its end the run waits for input instead of ending
    idle_timeout_s: float | None = None  # of a kept-open run; None: it waits without a limit
    linger_s: float = 60.0


class SkillSet(Value):
    """The enabled skills, what models are told of them, and where to look for changes."""

    skills: tuple[Skill, ...] = ()  # in the order of the list
    lines: tuple[str, ...] = ()
    sources: SkillSources = SkillSources()


class NextInput(Value):
    """What a resumed run's root gets next."""

    prompt: str | None = None
    images: tuple[str, ...] = ()  # absolute paths; they go with the prompt
    settings: ChangeSettings | None = None  # from now on


class RunRequest(Value):
    """One run, fully resolved: paths absolute, configuration merged, files read."""

    cwd: str
    task: str = "prompt"  # the task file's path as given, "-" for stdin
    prompt: str = ""
    images: tuple[str, ...] = ()  # absolute paths
    add_dirs: tuple[str, ...] = ()
    role: RoleBrief = RoleBrief()
    roles: Roles = Roles()  # roles that agents may start; none: the built-in ones
    model_settings: ModelSettings = ModelSettings()  # of the root; see `FanOut.agents`
    gateway: GatewaySettings = GatewaySettings()
    inherited: Inherited = Inherited()  # by every agent, as it is
    sandbox: SandboxPolicy = _WorkspaceWrite()
    approvals: ApprovalSettings = ApprovalSettings()
    require_sandbox: tuple[Literal["fs", "net"], ...] = ()
    team: TeamLimits = TeamLimits()
    copies: CopySettings = CopySettings()
    lifetime: RunLifetime = RunLifetime()
    shell_snapshot: bool = True  # commands get the login shell's environment
    budget: Budget = Budget()
    deadline_s: float | None = None
    output_schema: dict[str, object] | None = None
    accept_truncated: bool = False  # an answer cut at an output limit completes the run
    review: CodeReview | None = None
    fan_out: FanOut | None = None
    deny_read: tuple[str, ...] = ()  # required: paths that no command may read
    network: NetworkPolicy | None = None  # through the proxy; None: as the sandbox says
    unix_sockets: UnixSockets = UnixSockets()  # other programs' sockets that commands may use
    parts: PartSettings = PartSettings()  # what the configuration says of each
    rules: RuleSet = RuleSet()  # from every `.rules` file that applies here
    skill_set: SkillSet = SkillSet()
    commands: tuple[PromptCommand, ...] = ()  # command files; a person calls them by /name
    ephemeral: bool = False
    plan: bool = False  # the root begins in plan mode
    run_id: str | None = None  # chosen beforehand (--detach), or the run to resume
    resumes: bool = False
    widened: tuple[str, ...] = ()  # what its trusted task file widened, as `key value`
    began_in: ProjectMark = ProjectMark()  # what the working folder was at the run's start
    next_input: NextInput = NextInput()  # of a resumed run
    notify: tuple[str, ...] = ()  # command started after each turn of the root
    keys: dict[str, str] = {}  # taken out of the environment; only the gateway gets them, by pipe
    mcp: McpSettings = McpSettings()
    mcp_credentials: dict[str, str] = {}  # values by key; only the hub gets them, by pipe
    environment: dict[str, str] = {}  # what agents and commands may see

    @property
    def offers_copies(self) -> bool:
        """True if models are told of copies of the project: only where somebody asked for one.

        In a run that is one copy as a whole nobody shares the project, so there is no choice.
        """
        roles = self.roles.known.values()
        has_choice = self.copies.isolation in ("auto", "copy")
        return has_choice or any(one.isolation == "copy" for one in roles)

    def isolation_wanted(self, role: str, *, is_root: bool) -> Isolation:
        """What run and role say of an agent that may write."""
        known = self.roles.known.get(role)
        by_role = known.isolation if known is not None else "shared"
        if self.copies.isolation == "run" or by_role == "copy":
            return "copy"
        if is_root or (known is not None and known.merges):
            return by_role
        return (
            "copy" if self.copies.isolation == "copy" else "shared"
        )  # auto: it depends on the others

    @property
    def answer_schema(self) -> bytes | None:
        """The JSON schema of every answer of the root; its last answer is the run's result."""
        return msgspec.json.encode(self.output_schema) if self.output_schema else None

    @property
    def secrets(self) -> tuple[str, ...]:
        """All values that must not be shown or written."""
        named = (v for key, v in self.mcp_credentials.items() if is_credential_name(key))
        return (*self.keys.values(), *named)

    @property
    def goes_upstream(self) -> bool:
        """True if only the network proxy may follow the proxy variables of the environment."""
        return self.network is not None and self.network.upstream


def with_items(request: RunRequest, change: Callable[[ItemAgents], ItemAgents]) -> RunRequest:
    """The request with other agents for the items of its fan-out, if it has one."""
    if request.fan_out is None:
        return request
    fan_out = msgspec.structs.replace(request.fan_out, agents=change(request.fan_out.agents))
    return msgspec.structs.replace(request, fan_out=fan_out)

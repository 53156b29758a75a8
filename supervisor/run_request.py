"""What a person asked for, as one value: the command line makes it, the supervisor executes it."""

from typing import Literal

import msgspec

from swarm.mailbox.key_wiping import is_credential_name
from swarm.mailbox.parts.part_messages import PartSettings
from swarm.mailbox.protocol.base import Value
from swarm.mailbox.protocol.context_sizes import TextSize
from swarm.mailbox.protocol.control import ChangeSettings
from swarm.mailbox.protocol.hooks import Hook
from swarm.mailbox.protocol.limits import (
    AskForApproval,
    Budget,
    Granular,
    Isolation,
    McpAccess,
    MergeAtEnd,
    NetworkPolicy,
    ResourceLimits,
    Reviewer,
    RunIsolation,
    SandboxPolicy,
    UnixSockets,
)
from swarm.mailbox.protocol.limits import WorkspaceWrite as _WorkspaceWrite
from swarm.mailbox.protocol.mcp import McpServer
from swarm.mailbox.protocol.nodes import HostTable
from swarm.mailbox.protocol.review import ReviewTarget
from swarm.mailbox.protocol.rules import RuleSet
from swarm.mailbox.protocol.settings import Summary, Verbosity
from swarm.mailbox.protocol.spec import (
    ContextRules,
    FolderMove,
    ProviderSpec,
    RoleBrief,
    ShellEnvironmentPolicy,
)
from swarm.roles.commands.command_file import PromptCommand
from swarm.roles.role_loader import Roles
from swarm.roles.skills.rescan import SkillSources
from swarm.roles.skills.skill_file import Skill

from .runs.project_mark import ProjectMark

# An agent's copy of the project: an overlay at the project's own path, or another folder.
CopyKind = Literal["overlay", "tree"]


class RequiredChoices(Value):
    """The values among which an administrator lets a running run choose; None: any value."""

    model: str | None = None
    approvals: tuple[str, ...] | None = None
    sandbox_modes: tuple[str, ...] | None = None


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
    items: tuple[McpAccess, ...] = ()  # for agents of the fan-out


class RunRequest(Value):
    """One run, fully resolved: paths absolute, configuration merged, files read."""

    cwd: str
    task: str = "prompt"  # the task file's path as given, "-" for stdin
    prompt: str = ""
    images: tuple[str, ...] = ()  # absolute paths
    add_dirs: tuple[str, ...] = ()
    role: RoleBrief = RoleBrief()
    roles: Roles = Roles()  # roles that agents may start; none: the built-in ones
    model: str | None = None
    provider: str | None = None
    providers: tuple[ProviderSpec, ...] = ()
    further: tuple[str, ...] = ()  # other providers that agents may use, by id
    # `provider:model`, taken one after the other when a provider fails for good
    fallback: tuple[str, ...] = ()
    catalogue: tuple[str, ...] = ()
    model_reasons: bool | None = None  # `model_supports_reasoning_summaries`
    effort: str | None = None
    sandbox: SandboxPolicy = _WorkspaceWrite()
    approval: AskForApproval = "on-request"
    granular: Granular | None = None  # only with `on-request`
    reviewer: Reviewer = "nobody"
    auto_review: ReviewSettings = ReviewSettings()
    require_sandbox: tuple[Literal["fs", "net"], ...] = ()
    max_agents: int = 8
    max_depth: int = 3
    shell_snapshot: bool = True  # commands get the login shell's environment
    prewarmed_sandbox: bool = True  # bubblewrap is started ahead for the next command
    max_spawns: int = 1_000  # agents that models may start per run; without items and rows
    wake_parents: bool = True  # a child's end starts a turn of its idle parent
    job_seconds: int | None = None  # limit for one table row, where the call sets none
    budget: Budget = Budget()
    deadline_s: float | None = None
    output_schema: dict[str, object] | None = None
    accept_truncated: bool = False  # an answer cut at an output limit completes the run
    review: CodeReview | None = None
    fan_out: FanOut | None = None
    fan_role: RoleBrief = RoleBrief(name="explorer")
    fan_sandbox: SandboxPolicy | None = None  # narrower than `sandbox`; None: the same
    sandbox_required: str = ""  # why no command may run outside the sandbox
    deny_read: tuple[str, ...] = ()  # required: paths that no command may read
    # Required: what agents, and changes to them, may choose.
    held: RequiredChoices = RequiredChoices()
    network: NetworkPolicy | None = None  # through the proxy; None: as the sandbox says
    fan_network: NetworkPolicy | None = None  # for fan-out items; never wider than `network`
    unix_sockets: UnixSockets = UnixSockets()  # other programs' sockets that commands may use
    fan_unix_sockets: UnixSockets = UnixSockets()
    isolation: RunIsolation = "shared"  # never "children": that is "copy" here
    root_isolation: Isolation = "shared"  # as run and role say
    fan_isolation: Isolation = "shared"
    copy_kind: CopyKind | None = None  # what copies are here; None: not looked at yet
    hosts: tuple[HostTable, ...] = ()  # other machines that agents of this run may use
    host: str = ""  # where agents that work in copies go; "": they stay here
    fan_host: str = ""  # where items of the fan-out go
    fan_resources: dict[str, float] = {}
    merge: MergeAtEnd = "ask"  # what its end does with work of agents in copies
    fan_model: str | None = None  # set by the items' role; None: the run's
    fan_effort: str | None = None
    fan_summary: Summary | None = None
    fan_verbosity: Verbosity | None = None
    fan_provider: str | None = None  # None: the run's own
    fan_fallback: tuple[str, ...] = ()
    fan_budget: Budget = Budget()  # per item, within the run's budget
    shell_environment: ShellEnvironmentPolicy = ShellEnvironmentPolicy()
    resources: ResourceLimits = ResourceLimits()  # for each agent's commands
    parts: PartSettings = PartSettings()  # what the configuration says of each
    rules: RuleSet = RuleSet()  # from every `.rules` file that applies here
    user_instructions: str = ""
    guidance_files: tuple[TextSize, ...] = ()  # those files, in this order
    skills: tuple[Skill, ...] = ()  # enabled ones, in the order of the list
    commands: tuple[PromptCommand, ...] = ()  # command files; a person calls them by /name
    skill_lines: tuple[str, ...] = ()  # what models are told of them
    skill_sources: SkillSources = SkillSources()  # where to look for changes of them
    hooks: tuple[Hook, ...] = ()  # of every agent, in the order in which results are combined
    summary: Summary = "auto"
    verbosity: Verbosity | None = None
    context: ContextRules = ContextRules()  # what models are told, and when compaction runs
    record: str | None = None
    replay: str | None = None
    ephemeral: bool = False
    plan: bool = False  # the root begins in plan mode
    keep_open: bool = False  # at its end the run waits for input instead of ending
    idle_timeout_s: float | None = None  # of a kept-open run; None: it waits without a limit
    linger_s: float = 60.0
    run_id: str | None = None  # chosen beforehand (--detach), or the run to resume
    resumes: bool = False
    allow_commit: bool = False  # granted beforehand for all agents
    approval_timeout_s: float | None = None  # for a person's answer; None: until the run's deadline
    widened: tuple[str, ...] = ()  # what its trusted task file widened, as `key value`
    began_in: ProjectMark = ProjectMark()  # what the working folder was at the run's start
    moves: tuple[FolderMove, ...] = ()  # of the project since then, oldest first
    next_prompt: str | None = None  # a resumed run's next input for its root
    next_images: tuple[str, ...] = ()  # absolute paths; they go with the next prompt
    next_settings: ChangeSettings | None = None  # settings of a resumed run's root from now on
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
        return self.isolation in ("auto", "copy") or any(one.isolation == "copy" for one in roles)

    def isolation_wanted(self, role: str, *, is_root: bool) -> Isolation:
        """What run and role say of an agent that may write."""
        known = self.roles.known.get(role)
        by_role = known.isolation if known is not None else "shared"
        if self.isolation == "run" or by_role == "copy":
            return "copy"
        if is_root or (known is not None and known.merges):
            return by_role
        return "copy" if self.isolation == "copy" else "shared"  # auto: it depends on the others

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

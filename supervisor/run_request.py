"""What a person asked for, as one value: made by the command line, obeyed by the supervisor."""

from typing import Any, Literal

import msgspec

from swarm.mailbox.protocol.base import Value
from swarm.mailbox.protocol.control import ChangeSettings
from swarm.mailbox.protocol.limits import (
    AskForApproval,
    Budget,
    Granular,
    NetworkPolicy,
    ResourceLimits,
    Reviewer,
    SandboxPolicy,
    UnixSockets,
)
from swarm.mailbox.protocol.limits import WorkspaceWrite as _WorkspaceWrite
from swarm.mailbox.protocol.review import ReviewTarget
from swarm.mailbox.protocol.rules import RuleSet
from swarm.mailbox.protocol.settings import Summary, Verbosity
from swarm.mailbox.protocol.spec import (
    ContextRules,
    ProviderSpec,
    RoleBrief,
    ShellEnvironmentPolicy,
)
from swarm.roles.role_loader import Roles


class RequiredChoices(Value):
    """What an administrator leaves to choose while a run lives; None: anything."""

    model: str | None = None
    approvals: tuple[str, ...] | None = None
    sandbox_modes: tuple[str, ...] | None = None


class FanOut(Value):
    """One agent per item; items are already found (in order)."""

    items: tuple[str, ...]
    prompt: str  # with {item}; for CSV rows also {column}
    rows: tuple[dict[str, str], ...] = ()  # CSV only: the columns of each item
    role: str = "explorer"
    concurrency: int | None = None  # None: the free slots
    output_schema: dict[str, Any] | None = None
    retries: int = 0
    texts: tuple[str, ...] = ()  # one an item, appended to its prompt; empty: none


class ReviewSettings(Value):
    """How the guardian reviews, where it does."""

    model: str | None = None  # None: that of the agent that asks
    effort: str | None = "low"
    policy: str = ""  # Markdown; in the place of the built-in policy when not blank
    deadline_s: float = 90.0  # of one review, the start of its process included


class CodeReview(Value):
    """The run is a review of changes to code; its words stand in the prompt."""

    target: ReviewTarget
    hint: str = ""  # for people: what is reviewed


class RunRequest(Value):
    """One run, wholly resolved: paths absolute, configuration merged, files read."""

    cwd: str
    task: str = "prompt"  # the task file's path as given, "-" for stdin
    prompt: str = ""
    images: tuple[str, ...] = ()  # absolute paths
    add_dirs: tuple[str, ...] = ()
    role: RoleBrief = RoleBrief()
    roles: Roles = Roles()  # what agents may start; none = those that come with swarm
    model: str | None = None
    provider: str | None = None
    providers: tuple[ProviderSpec, ...] = ()
    catalogue: tuple[str, ...] = ()
    effort: str | None = None
    sandbox: SandboxPolicy = _WorkspaceWrite()
    approval: AskForApproval = "on-request"
    granular: Granular | None = None  # only beside `on-request`
    reviewer: Reviewer = "nobody"
    auto_review: ReviewSettings = ReviewSettings()
    require_sandbox: tuple[Literal["fs", "net"], ...] = ()
    max_agents: int = 8
    max_depth: int = 3
    shell_snapshot: bool = True  # commands get the login shell's environment
    max_spawns: int = 1_000  # agents that models may start in one run; items and rows not counted
    wake_parents: bool = True  # a child's end starts a turn of its idle parent
    job_seconds: int | None = None  # for one row of a table, where the call says nothing
    budget: Budget = Budget()
    deadline_s: float | None = None
    output_schema: dict[str, Any] | None = None
    review: CodeReview | None = None
    fan_out: FanOut | None = None
    fan_role: RoleBrief = RoleBrief(name="explorer")
    fan_sandbox: SandboxPolicy | None = None  # narrower than `sandbox`; None = the same
    sandbox_required: str = ""  # why no command ever runs outside of the sandbox
    deny_read: tuple[str, ...] = ()  # required: no command ever sees these
    held: RequiredChoices = (
        RequiredChoices()
    )  # required: of what agents, and changes of them, may choose
    network: NetworkPolicy | None = None  # through the proxy; None: as the sandbox says
    fan_network: NetworkPolicy | None = None  # of items: never wider than `network`
    unix_sockets: UnixSockets = UnixSockets()  # of other programs, that commands may connect to
    fan_unix_sockets: UnixSockets = UnixSockets()
    fan_model: str | None = None  # what the items' role pins; None = the run's
    fan_effort: str | None = None
    fan_budget: Budget = Budget()  # of each item, within the run's
    shell_environment: ShellEnvironmentPolicy = ShellEnvironmentPolicy()
    resources: ResourceLimits = ResourceLimits()  # of each agent's commands
    rules: RuleSet = RuleSet()  # of every `.rules` file that counts here
    user_instructions: str = ""
    summary: Summary = "auto"
    verbosity: Verbosity | None = None
    context: ContextRules = ContextRules()  # what models are told, and when histories shorten
    record: str | None = None
    replay: str | None = None
    ephemeral: bool = False
    linger_s: float = 60.0
    run_id: str | None = None  # chosen beforehand (--detach), or the run to resume
    resumes: bool = False
    allow_commit: bool = False  # a grant for the whole tree, given beforehand
    approval_timeout_s: float | None = None  # of a person's answer; None: the run's deadline
    widened: tuple[str, ...] = ()  # what its trusted task file widened, as `key value`
    next_prompt: str | None = None  # a resumed run's next words to its root
    next_settings: ChangeSettings | None = None  # how a resumed run's root works from now on
    notify: tuple[str, ...] = ()  # started after each turn of the root
    keys: dict[str, str] = {}  # taken out of the environment; given to the gateway by pipe only
    environment: dict[str, str] = {}  # what agents and commands may see

    @property
    def answer_schema(self) -> bytes | None:
        """What every answer of the root must fit, as JSON: the last of them is the run's."""
        return msgspec.json.encode(self.output_schema) if self.output_schema else None

    @property
    def goes_upstream(self) -> bool:
        """True if the proxy variables of the environment are the network proxy's alone."""
        return self.network is not None and self.network.upstream

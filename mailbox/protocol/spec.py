"""Process specs: all that a new process is told, sent at its start in a sealed file descriptor."""

from typing import Literal

import msgspec

from ..base.writable_places import WritablePlaces
from ..parts.part_messages import PartCredentials, PartKeySource, PartRules
from .approvals import ExtraPermissions
from .context_sizes import TextSize
from .hooks import Hook
from .items import TokenUsage
from .mcp import McpServer
from .nodes import HostTable
from .rules import RuleSet
from .settings import ModelSettings, PromptSize, SamplingSettings, SkillChoice, ToolChoice
from .values.base import Tagged, Value
from .values.limits import Limits, ResourceLimits


class ContextOverrides(Value):
    """What a role says of its agents' context; None: as the run's `ContextRules`."""

    compact_tokens: int | None = None
    window_tokens: int | None = None
    compact_prompt: str | None = None
    permissions: bool | None = None
    environment: bool | None = None


class RoleBrief(Value):
    """The part of a role that an agent process needs."""

    name: str = "default"
    base_instructions: str = ""  # replaces the built-in ones if not empty
    developer_instructions: str = ""
    locked: bool = False  # lock the Python process itself (read-only roles)
    tools: ToolChoice = ToolChoice()
    prompt: PromptSize = ""
    sampling: SamplingSettings = SamplingSettings()
    context: ContextOverrides = ContextOverrides()
    skills: SkillChoice = SkillChoice()


class RoleCard(Value):
    """A role as described to agents that may start others."""

    name: str
    description: str = ""
    model: str | None = None  # set by the role: a spawn argument cannot change it
    provider: str | None = None  # likewise
    effort: str | None = None  # likewise


class ChildCard(Value):
    """A child that existed when its parent's current process started."""

    path: str
    nickname: str = ""


class ShellEnvironmentPolicy(Value):
    """Codex's keys, but the default excludes apply here."""

    inherit: Literal["all", "core", "none"] = "all"
    ignore_default_excludes: bool = False
    exclude: tuple[str, ...] = ()
    set: dict[str, str] = {}
    include_only: tuple[str, ...] = ()


class ContextRules(Value):
    """What a model is told beside the conversation, and when its history is compacted."""

    compact_tokens: int | None = None  # `model_auto_compact_token_limit`
    window_tokens: int | None = None  # `model_context_window`; None: the catalogue's value
    compact_prompt: str = ""  # replaces the built-in one if not blank
    permissions: bool = True  # `include_permissions_instructions`
    environment: bool = True  # `include_environment_context`
    # AGENTS.md: files of folders where the agent works are added; changes are sent again.
    guidance_bytes: int = 0  # limit for all project files together; 0: none are read
    guidance_names: tuple[str, ...] = ()  # tried after AGENTS.md
    root_markers: tuple[str, ...] = (".git",)
    guidance_home: str = ""  # folder of the person's own file
    skills_percent: int = 2  # of the model's window, for the list of skills


class FolderIdentity(Value):
    """Identity of a folder that its path must keep leading to."""

    path: str
    device: int
    inode: int


class FolderMove(Value):
    """A folder that a person renamed or moved between two parts of a run; absolute paths."""

    before: str
    now: str


class EndedCall(Value):
    """A call that ended before its process crashed, without its output in the history."""

    call_id: str
    status: str  # completed, failed or declined
    exit_code: int | None = None
    output: str = ""  # as shown, cut to 10,000 bytes


class LiveFolder(Value):
    """A folder of a copied project that is not in the base: its own overlay shows it as it is."""

    name: str  # below the copy's path
    upper: str
    work: str
    lower: str = ""  # where it lies; "": at its place in the project
    made: tuple[str, ...] = ()  # layers over that which never change; the topmost first


class CopyMount(Value):
    """An overlay that an agent's process mounts over a folder, so that it works in a copy."""

    path: str  # canonical
    base: str  # the lower layer; never changes
    upper: str  # what the agent writes
    work: str
    live: tuple[LiveFolder, ...] = ()
    made: tuple[str, ...] = ()  # layers between base and upper which never change; topmost first


class Inherited(Value):
    """What every agent of a run gets from it as it is; a reviewer gets none of the project's."""

    shell_environment: ShellEnvironmentPolicy = ShellEnvironmentPolicy()
    resources: ResourceLimits = ResourceLimits()  # for its commands
    sandbox_required: str = ""  # why no command may leave the sandbox, whatever is approved
    allow_commit: bool = False  # a person's advance approval of commits
    prewarmed_sandbox: bool = True  # bubblewrap is started ahead for the next command
    moves: tuple[FolderMove, ...] = ()  # of the project, since the run began; oldest first
    hooks: tuple[Hook, ...] = ()  # in the order in which their results are combined
    user_instructions: str = ""  # the joined AGENTS.md files
    guidance_files: tuple[TextSize, ...] = ()  # those files, in this order
    context: ContextRules = ContextRules()  # what models are told, and when compaction runs


class GatewayAccess(Value):
    """Where an agent reaches the gateway."""

    endpoint: str
    token: bytes
    door: str = ""  # on a node: where every gateway is reached, wherever it listens


class ProxyAccess(Value):
    """How an agent's commands reach the network; empty: without a proxy."""

    endpoint: str = ""  # path of the network proxy's socket; "" = this run has none
    ticket: bytes = b""  # sent to the proxy with every command; see `credentials`
    ca_bundle: str = ""  # certificates that commands trust if the proxy decrypts tunnels


class GuardedPlaces(Value):
    """What the commands of a process may never see, and what none of them may change."""

    hidden_paths: tuple[str, ...] = ()  # the run's sockets, keys …
    hidden_folders: tuple[FolderIdentity, ...] = ()  # those of them that must keep their identity
    run_places: WritablePlaces = WritablePlaces()  # where the agents of this run may write
    # Canonical paths that no command may change wherever it may write: swarm's own installation,
    # programs that run outside of the sandbox.
    protected: tuple[str, ...] = ()


class CopyView(Value):
    """How an agent's process gets its copy of the project. The empty one: it shares the project."""

    mounts: tuple[CopyMount, ...] = ()
    origin: str = ""  # the project, if the copy is another folder
    tree: str = ""  # that folder; `AgentSpec.cwd` lies in it
    shows: tuple[str, ...] = ()  # where links in it lead: its commands may read there


class TeamView(Value):
    """What an agent knows of those that it may start."""

    # False: no child can ever start in this run (`max_agents` is 1). Together with `depth` and
    # `limits.max_depth` it decides whether the agent gets the team tools.
    can_spawn: bool = True
    # live agents at once including the root, as told to the model; 0 = not told
    max_agents: int = 0
    # valid for `agent_type`: the person's roles, then the built-in ones
    roles: tuple[RoleCard, ...] = ()
    offers_copies: bool = False  # the model is told that children may work in copies
    hosts: tuple[str, ...] = ()  # other machines that it may name for children


class ResumedWork(Value):
    """What an agent's earlier processes left in the journal; a new agent has none."""

    history: tuple[msgspec.Raw, ...] = ()  # msgpack items
    output_schema: bytes | None = None  # of its last turn; see `AgentSession.output_schema`
    total_usage: TokenUsage = TokenUsage()
    # ids of calls whose process ended first; reported to the model
    interrupted_calls: tuple[str, ...] = ()
    ended_calls: tuple[EndedCall, ...] = ()
    children: tuple[ChildCard, ...] = ()  # those that were not closed


class AgentSpec(Tagged):
    """The start of an agent: new, or resumed from the journal (with `history`)."""

    run_id: str
    agent_id: str
    path: str
    epoch: int  # 1, 2, … one for each start of the process
    role: RoleBrief
    limits: Limits
    cwd: str
    endpoint: str  # the supervisor's mailbox
    identity: bytes  # this process's socket identity
    secret: bytes  # proves this process to the supervisor
    gateway: GatewayAccess
    tmp_dir: str  # private to this agent, kept across its commands: its /tmp
    environment: dict[str, str]  # without any provider's keys
    model_settings: ModelSettings = ModelSettings()
    fallbacks_taken: int = 0  # how many entries of its fallback list are used up
    inherited: Inherited = Inherited()
    team: TeamView = TeamView()
    resumed: ResumedWork = ResumedWork()
    copy: CopyView = CopyView()  # mounted before anything else is done
    guarded: GuardedPlaces = GuardedPlaces()
    proxy: ProxyAccess = ProxyAccess()
    depth: int = 0
    claims: tuple[str, ...] = ()  # files and folders that it is to write
    skills: tuple[str, ...] = ()  # one line each, in the order of the list
    # The id of the batch job whose item this agent works on; "" = none. Only then is
    # `report_agent_job_result` offered.
    job: str = ""
    rules: RuleSet = RuleSet()
    granted: ExtraPermissions = ExtraPermissions()  # granted by a person for longer than one call
    # How long its first request waits for the tools of MCP servers; 0: there are none.
    mcp_wait_s: float = 0.0
    parts: PartRules = PartRules()
    paused: bool = False  # it sends no request until a `Continue`
    run_began_s: float = 0.0  # Unix time of the run's start or last resume
    # What its first turn tells SessionStart hooks; "" = they do not run in this process.
    session_source: Literal["", "startup", "resume"] = ""
    # In the place of `tmp_dir` where /tmp itself cannot be replaced: its path has room for the
    # names of sockets. It ends with the run; "": there is none.
    short_tmp_dir: str = ""

    @property
    def may_spawn(self) -> bool:
        """True if this agent may ever start another."""
        return self.team.can_spawn and self.depth < self.limits.max_depth


class KeyCommand(Value):
    """A command that prints a key. It runs in the gateway, with empty stdin."""

    argv: tuple[str, ...]
    what: str  # its name in texts: `model_providers.mine.auth`
    cwd: str = ""  # "" = the home folder
    timeout_s: float = 5.0
    refresh_s: float = 300.0  # 0 = only when a key is refused
    path: str = ""  # the person's PATH; "" = that of the gateway
    places: WritablePlaces = WritablePlaces()  # its program must not lie there
    variables: tuple[str, ...] = ()  # of the keys: it gets them in its environment


class ProviderSettings(Value):
    """What `[model_providers.ID]` says that reaches the gateway as it stands.

    The last four are swarm's own.
    """

    base_url: str = ""
    env_key_instructions: str = ""
    query_params: dict[str, str] = {}
    http_headers: dict[str, str] = {}
    env_http_headers: dict[str, str] = {}  # header → variable; values come by pipe
    request_max_retries: int = 4
    stream_max_retries: int = 5
    stream_idle_timeout_ms: int = 300_000
    tolerant_tool_calls: bool = False
    remote_compaction: bool = False  # it has `/responses/compact`
    continues_text: bool = False  # it can continue an assistant message that comes last
    # the header for the key; "" = the wire's default; `authorization` = as Bearer
    key_header: str = ""


class ProviderSpec(ProviderSettings, kw_only=True):
    """One configured provider. It holds no keys: they come through a pipe, by variable name."""

    id: str
    name: str
    wire_api: str = "responses"  # a Wire
    env_key: str | None = None
    # The source of the key, if not the variable `env_key`, which is then only the key's name.
    key_file: str = ""
    key_command: KeyCommand | None = None
    # What a part gives the key from, where `env_key` has none. The rest is then as of the built-in
    # provider that it names, if it names one.
    account: PartKeySource | None = None
    credentials: PartCredentials | None = None  # a part's, which makes the headers of requests too

    @property
    def fetches_key(self) -> bool:
        """True if the gateway fetches the key itself."""
        parts = (self.key_command, self.account, self.credentials)
        return bool(self.key_file) or any(one is not None for one in parts)

    @property
    def secret_variables(self) -> set[str]:
        """The names of the keys that its requests need."""
        further = () if self.credentials is None else self.credentials.variables
        return {self.env_key or "", *self.env_http_headers.values(), *further} - {""}

    @property
    def secret_files(self) -> tuple[str, ...]:
        """What holds its key, for commands to not see."""
        further = () if self.credentials is None else self.credentials.files
        return (*filter(None, (self.key_file,)), *further)


class GatewaySettings(Value):
    """What a run's gateway may use; no keys."""

    providers: tuple[ProviderSpec, ...] = ()
    further: tuple[str, ...] = ()  # other providers that agents of this run may use, by id
    catalogue: tuple[str, ...] = ()  # more models.toml files; the last one wins
    # The run's own model, and those that no catalogue knows, reason, or do not. None: as it says.
    model_reasons: bool | None = None
    record: str | None = None
    replay: str | None = None


class GatewaySpec(Tagged):
    """The start of the gateway."""

    run_id: str
    epoch: int
    endpoint: str  # the supervisor's mailbox
    identity: bytes
    secret: bytes
    bind: str  # where agents connect to it
    run_key: bytes  # agents' tokens are HMACs under it
    blobs_dir: str
    models_dir: str  # where downloaded model files are
    settings: GatewaySettings
    provider: str | None = None  # None: choose one and say why; "scripted:FILE" is also valid
    model: str | None = None
    asks_first: bool = False  # a limit holds: each request needs a granted reservation
    places: WritablePlaces = WritablePlaces()  # no installer of a model's file is started there


class ProbeOrder(Value):
    """What `swarm models probe` tests; sent through a pipe, with the keys."""

    providers: tuple[ProviderSpec, ...] = ()
    provider: str | None = None
    model: str | None = None
    models_dir: str = ""
    catalogue: tuple[str, ...] = ()
    keys: dict[str, str] = {}
    limit_s: float = 60.0  # of one request


class ProxySpec(Tagged):
    """The start of the network proxy."""

    run_id: str
    epoch: int
    endpoint: str  # the supervisor's mailbox
    identity: bytes
    secret: bytes
    bind: str  # path of the socket to which agents send their commands' listeners
    ticket_key: bytes  # agents' tickets are sealed under it
    authority: str = ""  # folder of the certificate authority used to decrypt tunnels
    upstream: dict[str, str] = {}  # variables that name another proxy; they may hold a password


class HubSpec(Tagged):
    """The start of the hub. The credentials of its servers come through a pipe."""

    run_id: str
    epoch: int
    endpoint: str  # the supervisor's mailbox
    identity: bytes
    secret: bytes
    servers: tuple[McpServer, ...]
    environment: dict[str, str] = {}  # what servers may inherit a part of
    cwd: str = ""  # of the run, for servers that name none
    tmp_dir: str = ""  # each server gets a folder of its own in it
    short_tmp_dir: str = ""  # likewise, used as in `AgentSpec`
    guarded: GuardedPlaces = GuardedPlaces()
    resources: ResourceLimits = ResourceLimits()  # of each server
    run_began_s: float = 0.0
    sandbox_required: str = ""  # why no server may run outside the sandbox
    logins: str = ""  # the folder of logins with servers over HTTP; "": there are none
    server_programs: str = ""  # the folder of what servers consisted of; "": nothing is compared


class HostsSpec(Tagged):
    """The start of the process that drives nodes on other machines."""

    run_id: str
    epoch: int
    endpoint: str  # the supervisor's mailbox
    identity: bytes
    secret: bytes
    hosts: tuple[HostTable, ...]
    copies: str  # the folder `copies` of the run
    cwd: str
    gateway_endpoint: str
    version: str  # of swarm: nodes have the same


AnySpec = AgentSpec | GatewaySpec | ProxySpec | HubSpec | HostsSpec
encode_spec = msgspec.msgpack.Encoder().encode
decode_spec = msgspec.msgpack.Decoder(AnySpec).decode

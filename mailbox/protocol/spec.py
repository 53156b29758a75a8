"""All that a new process may know: its spec, sent through a sealed file descriptor at its start."""

import msgspec

from .approvals import ExtraPermissions
from .base import Tagged, Value
from .items import TokenUsage
from .limits import Limits, ResourceLimits
from .rules import RuleSet
from .settings import Summary, Verbosity


class RoleBrief(Value):
    """The part of a role that an agent process needs."""

    name: str = "default"
    base_instructions: str = ""  # replaces the built-in ones when not empty
    developer_instructions: str = ""
    locked: bool = False  # lock the Python process itself (read-only roles)


class RoleCard(Value):
    """A role as an agent that may start others is told of it."""

    name: str
    description: str = ""
    model: str | None = None  # fixed by the role: no argument of a spawn changes it
    effort: str | None = None  # likewise


class ChildCard(Value):
    """A child that was there when its parent's present life began."""

    path: str
    nickname: str = ""


class ShellEnvironmentPolicy(Value):
    """Codex's keys (config sheet 6.9); the default excludes are on here."""

    inherit: str = "all"  # all, core, none
    ignore_default_excludes: bool = False
    exclude: tuple[str, ...] = ()
    set: dict[str, str] = {}
    include_only: tuple[str, ...] = ()


class ContextRules(Value):
    """What a model is told beside the conversation, and when its history is made shorter."""

    compact_tokens: int | None = None  # `model_auto_compact_token_limit`
    window_tokens: int | None = None  # `model_context_window`; None: the catalogue's
    compact_prompt: str = ""  # in place of the built-in one when not blank
    permissions: bool = True  # `include_permissions_instructions`
    environment: bool = True  # `include_environment_context`
    # The AGENTS.md files: those of folders where the agent works join, and changes are told again.
    guidance_bytes: int = 0  # of all project files together; 0: none are read
    guidance_names: tuple[str, ...] = ()  # tried after AGENTS.md
    root_markers: tuple[str, ...] = (".git",)
    guidance_home: str = ""  # where the person's own file lies


class FolderIdentity(Value):
    """A folder that its path must go on leading to."""

    path: str
    device: int
    inode: int


class EndedCall(Value):
    """A call that came to its end in an earlier life, which died before its output was written."""

    call_id: str
    status: str  # completed, failed or declined
    exit_code: int | None = None
    output: str = ""  # as it was shown, cut to 10,000 bytes


class AgentSpec(Tagged):
    """An agent's beginning: new, or resumed from the journal (`history` is then filled)."""

    run_id: str
    agent_id: str
    path: str
    epoch: int  # 1, 2, … one for each life
    role: RoleBrief
    limits: Limits
    cwd: str
    endpoint: str  # the supervisor's mailbox
    identity: bytes  # this life's socket identity
    secret: bytes  # proves this life to the supervisor
    gateway_endpoint: str
    gateway_token: bytes
    tmp_dir: str  # private to this agent, kept across its commands
    environment: dict[str, str]  # already without any provider's keys
    shell_environment: ShellEnvironmentPolicy = ShellEnvironmentPolicy()
    model: str | None = None
    effort: str | None = None
    depth: int = 0
    ca_bundle: str = ""  # certificates that commands trust, where the network proxy opens tunnels
    hidden_paths: tuple[str, ...] = ()  # never visible to commands: the run's sockets
    hidden_folders: tuple[
        FolderIdentity, ...
    ] = ()  # of those, the ones that must stay what they are
    history: tuple[msgspec.Raw, ...] = ()  # msgpack items
    output_schema: bytes | None = None  # of its last turn; see `Session.output_schema`
    total_usage: TokenUsage = TokenUsage()
    interrupted_calls: tuple[str, ...] = ()  # ids of calls whose process died; told to the model
    ended_calls: tuple[EndedCall, ...] = ()
    user_instructions: str = ""  # AGENTS.md chain, already joined
    # False: no child can ever start in this run (`max_agents` is 1). Together with `depth` and
    # `limits.max_depth` it decides whether the agent is offered the tools of a team.
    can_spawn: bool = True
    max_agents: int = 0  # live agents at once, the root counted, as told to the model; 0 = not told
    roles: tuple[RoleCard, ...] = ()  # what `agent_type` may name: a person's roles, then ours
    children: tuple[ChildCard, ...] = ()  # for a further life: those not closed
    # The id of the batch job whose item this agent works on; "" = none. Only with it is
    # `report_agent_job_result` offered.
    job: str = ""
    rules: RuleSet = RuleSet()
    granted: ExtraPermissions = ExtraPermissions()  # by a person, for longer than one call
    proxy_endpoint: str = ""  # path of the network proxy's socket; "" = this run has none
    network_ticket: bytes = b""  # shown to the proxy with every command; see `tickets`
    resources: ResourceLimits = ResourceLimits()  # of its commands
    context: ContextRules = ContextRules()
    summary: Summary = "auto"
    verbosity: Verbosity | None = None
    paused: bool = False  # it makes no request before it is told to go on
    run_began_s: float = 0.0  # Unix time; of a resumed run, when it was resumed
    sandbox_required: str = ""  # why no command is let out of the sandbox, whoever says yes
    allow_commit: bool = (
        False  # a person's yes, given beforehand, to recording work in a repository
    )

    @property
    def may_spawn(self) -> bool:
        """True if this agent may ever start another."""
        return self.can_spawn and self.depth < self.limits.max_depth


class KeyCommand(Value):
    """A command whose output is a key. It runs in the gateway, with nothing on its stdin."""

    argv: tuple[str, ...]
    what: str  # how texts call it: `model_providers.mine.auth`
    cwd: str = ""  # "" = the home folder
    timeout_s: float = 5.0
    refresh_s: float = 300.0  # 0 = only when a key is refused


class ProviderSpec(Value):
    """One provider, as configured. Keys are not here: they come by pipe, by variable name."""

    id: str
    name: str
    base_url: str = ""
    wire_api: str = "responses"  # a Wire
    env_key: str | None = None
    env_key_instructions: str = ""
    query_params: dict[str, str] = {}
    http_headers: dict[str, str] = {}
    env_http_headers: dict[str, str] = {}  # header → variable; values come by pipe
    request_max_retries: int = 4
    stream_max_retries: int = 5
    stream_idle_timeout_ms: int = 300_000
    tolerant_tool_calls: bool = False
    remote_compaction: bool = False  # it has `/responses/compact`
    continues_text: bool = False  # it goes on with an assistant's message that stands last
    # Where the key is from, if not from the variable `env_key`; that is then the key's name only.
    key_file: str = ""
    key_command: KeyCommand | None = None
    key_header: str = ""  # that carries the key; "" = the wire's own; `authorization` = as Bearer

    @property
    def fetches_key(self) -> bool:
        """True if the gateway gets the key by itself."""
        return self.key_command is not None or bool(self.key_file)


class GatewaySpec(Tagged):
    """The gateway's beginning."""

    run_id: str
    epoch: int
    endpoint: str  # the supervisor's mailbox
    identity: bytes
    secret: bytes
    bind: str  # where agents reach it
    run_key: bytes  # agents' tokens are HMACs under it
    blobs_dir: str
    models_dir: str  # where pulled model files are
    providers: tuple[ProviderSpec, ...]
    provider: str | None = None  # None: choose, and say why; "scripted:FILE" is a provider too
    model: str | None = None
    catalogue: tuple[str, ...] = ()  # more models.toml files, last wins
    record: str | None = None
    replay: str | None = None
    asks_first: bool = False  # a bound holds: no request goes out before it was granted


class ProbeOrder(Value):
    """What `swarm models probe` has tried out; it comes by pipe, with the keys."""

    providers: tuple[ProviderSpec, ...] = ()
    provider: str | None = None
    model: str | None = None
    models_dir: str = ""
    catalogue: tuple[str, ...] = ()
    keys: dict[str, str] = {}
    limit_s: float = 60.0  # of one request


class ProxySpec(Tagged):
    """The network proxy's beginning."""

    run_id: str
    epoch: int
    endpoint: str  # the supervisor's mailbox
    identity: bytes
    secret: bytes
    bind: str  # path of the socket where agents bring their commands' listeners
    ticket_key: bytes  # agents' tickets are sealed under it
    authority: str = ""  # folder of the certificate authority by which tunnels are looked into
    upstream: dict[str, str] = {}  # variables that name another proxy; they may hold a password


AnySpec = AgentSpec | GatewaySpec | ProxySpec
encode_spec = msgspec.msgpack.Encoder().encode
decode_spec = msgspec.msgpack.Decoder(AnySpec).decode

"""The configuration's keys: which we obey, which are Codex's and mean nothing here. Values only.

Rule: a key name that Codex has keeps Codex's meaning, so that a person can carry a file over.
"""

from typing import Literal

import msgspec

from swarm.mailbox.protocol.base import Value
from swarm.mailbox.protocol.limits import AskForApproval, Granular
from swarm.mailbox.protocol.settings import Summary, Verbosity

SandboxMode = Literal["read-only", "workspace-write", "danger-full-access"]
Toml = dict[str, object]


class AuthTable(Value):
    """`[model_providers.ID.auth]`: a command that prints a token."""

    command: str = ""
    args: tuple[str, ...] = ()
    timeout_ms: int = 5_000
    refresh_interval_ms: int = 300_000
    cwd: str | None = None


class KeyringTable(Value):
    """`[model_providers.ID.keyring]`, ours: an entry of the system's keyring."""

    service: str = ""
    user: str = ""  # "" = the provider's id


class ProviderTable(Value):
    """`[model_providers.ID]`. `chat` is spoken here, though Codex no longer does."""

    name: str = ""
    base_url: str = ""
    env_key: str | None = None
    env_key_instructions: str = ""
    experimental_bearer_token: str | None = None
    wire_api: Literal["responses", "chat", "messages"] = "responses"
    query_params: dict[str, str] = {}
    http_headers: dict[str, str] = {}
    env_http_headers: dict[str, str] = {}
    request_max_retries: int = 4
    stream_max_retries: int = 5
    stream_idle_timeout_ms: int = 300_000
    requires_openai_auth: bool = False
    tolerant_tool_calls: bool = False  # ours
    remote_compaction: bool = False  # ours: it has `/responses/compact`
    continues_text: bool = False  # ours: it goes on with an assistant's message that stands last
    key_header: str = ""  # ours: the header of the key; "" = the wire's own
    auth: AuthTable | None = None
    key_file: str | None = None  # ours: a file of mode 0600
    keyring: KeyringTable | None = None  # ours
    aws: Toml | None = None  # not obeyed
    websocket_connect_timeout_ms: int | None = None  # no effect: no websockets here
    supports_websockets: bool = False


class WorkspaceTable(Value):
    """`[sandbox_workspace_write]`."""

    writable_roots: tuple[str, ...] = ()
    network_access: bool = False
    exclude_tmpdir_env_var: bool = False
    exclude_slash_tmp: bool = False


class ShellTable(Value):
    """`[shell_environment_policy]`; the default excludes are on, other than in Codex."""

    inherit: Literal["all", "core", "none"] = "all"
    ignore_default_excludes: bool = False
    exclude: tuple[str, ...] = ()
    set: dict[str, str] = {}
    include_only: tuple[str, ...] = ()
    experimental_use_profile: bool = False  # no effect: the shell's environment is taken once


class AgentsTable(Value):
    """The fixed keys of `[agents]`; any other key there names a role."""

    max_threads: int | None = None  # children: one less than `max_agents`
    max_concurrent_threads_per_session: int | None = None  # Codex's later name of it
    max_depth: int | None = None
    job_max_runtime_seconds: int | None = None  # of one row of a table, where a call says nothing
    max_total: int | None = None  # ours: agents that models may start in one run
    wake_parents: bool = True  # ours: a child's end starts a turn of its idle parent

    @property
    def children(self) -> int | None:
        """How many at once, by whichever name it is said; `max_threads` goes before."""
        both = (self.max_threads, self.max_concurrent_threads_per_session)
        return next((number for number in both if number is not None), None)


class RoleTable(Value):
    """`[agents.NAME]`."""

    description: str | None = None
    config_file: str | None = None
    nickname_candidates: tuple[str, ...] | None = None


class BudgetTable(Value):
    """`[budget]`, ours: bounds of a whole run."""

    tokens: int | None = None
    usd: float | None = None
    requests: int | None = None


class LimitsTable(Value):
    """`[limits]`, ours: what commands may use. Sizes are bytes, `8GiB` or a share of the machine's
    memory (`50%`); 0 is no bound.
    """

    command_memory: str | int = "75%"
    command_processes: int = 4096
    command_seconds: str | int | float = 0  # wall time
    agent_memory: str | int = "75%"
    agent_processes: int = 4096


class AutoReviewTable(Value):
    """`[auto_review]`: Codex's `policy`; the other keys are ours."""

    policy: str = ""
    model: str | None = None
    model_reasoning_effort: str = "low"
    timeout_sec: float = 90.0


class GranularTable(Value, forbid_unknown_fields=True):
    """Which kinds of questions are put; Codex's keys, three of them required."""

    sandbox_approval: bool
    rules: bool
    mcp_elicitations: bool
    skill_approval: bool = False
    request_permissions: bool = False


class GranularPolicy(Value, forbid_unknown_fields=True):
    """`approval_policy = { granular = { … } }`: on-request, for these kinds of questions only."""

    granular: GranularTable


class NetworkTable(Value):
    """`[network]`: a proxy; the words of Codex's `[permissions.NAME.network]`."""

    enabled: bool = False
    mode: Literal["full", "limited"] = "full"
    domains: dict[str, Literal["allow", "deny"]] = {}
    allow_local_binding: bool = False
    enable_socks5: bool = True
    mitm: bool = False  # in limited mode: tunnels are looked into
    allow_upstream_proxy: bool = False
    dangerously_allow_all_unix_sockets: bool = False
    unix_sockets: dict[str, Literal["allow", "none"]] = {}  # also where the proxy is off
    # Codex's other keys: nothing here could obey them (`no_effect.py`); the proxy is stricter.
    proxy_url: str | None = None
    socks_url: str | None = None
    enable_socks5_udp: bool = False
    dangerously_allow_non_loopback_proxy: bool = False


Access = Literal["read", "write", "none", "deny"]  # none: Codex's older word for deny


class PermissionProfile(Value):
    """`[permissions.NAME]`. Keys of `filesystem` are paths, `:root` and its like, and
    `glob_scan_max_depth`; `permissions.py` reads them.
    """

    extends: str | None = None
    filesystem: dict[str, Access | int | dict[str, Access]] = {}
    workspace_roots: dict[str, bool] = {}
    network: NetworkTable = NetworkTable()


class Config(Value):
    """What is obeyed. Every field's default is the built-in layer."""

    model: str | None = None
    model_provider: str | None = None
    model_providers: dict[str, ProviderTable] = {}
    openai_base_url: str | None = None
    model_reasoning_effort: str | None = None
    model_reasoning_summary: Summary = "auto"
    model_verbosity: Verbosity | None = None
    review_model: str | None = None  # of agents that review code, unless their role or -m names one
    developer_instructions: str = ""
    model_instructions_file: str | None = None
    model_context_window: int | None = None
    model_auto_compact_token_limit: int | None = None
    compact_prompt: str = ""
    experimental_compact_prompt_file: str | None = None
    include_permissions_instructions: bool = True
    include_environment_context: bool = True
    approval_policy: AskForApproval | GranularPolicy = "on-request"
    # `nobody` is ours; None: a person on a terminal, else the reviewer.
    approvals_reviewer: Literal["user", "auto_review", "guardian_subagent", "nobody"] | None = None
    approval_timeout: str | int | float | None = None  # ours: of a person's answer
    allow_commit: bool = False  # ours: commands that only record work in a repository may do so
    auto_review: AutoReviewTable = AutoReviewTable()
    sandbox_mode: SandboxMode = "workspace-write"
    sandbox_workspace_write: WorkspaceTable = WorkspaceTable()
    shell_environment_policy: ShellTable = ShellTable()
    project_doc_max_bytes: int = 32_768
    project_doc_fallback_filenames: tuple[str, ...] = ()
    project_root_markers: tuple[str, ...] = (".git",)
    notify: tuple[str, ...] = ()  # a program, started after each turn of the root
    agents: Toml = {}
    budget: BudgetTable = BudgetTable()  # ours
    limits: LimitsTable = LimitsTable()  # ours
    network: NetworkTable = NetworkTable()  # ours; counts before the profile's when enabled
    default_permissions: str | None = None
    permissions: dict[str, PermissionProfile] = {}
    deadline: str | int | float | None = None  # ours
    features: dict[str, bool | Toml] = {}
    suppress_unstable_features_warning: bool = False

    @property
    def approval(self) -> AskForApproval:
        """The policy by its name; a granular one is `on-request`."""
        policy = self.approval_policy
        return "on-request" if isinstance(policy, GranularPolicy) else policy

    @property
    def granular(self) -> Granular | None:
        """Which questions it puts, where not all."""
        policy = self.approval_policy
        if not isinstance(policy, GranularPolicy):
            return None
        return msgspec.convert(msgspec.to_builtins(policy.granular), Granular)


# Codex's keys that have no effect here; `no_effect.py` names them to whoever sets one.
_CODEX = """
    plan_mode_reasoning_effort
    model_supports_reasoning_summaries model_catalog_json
    personality service_tier chatgpt_base_url oss_provider tool_output_token_limit instructions
    include_apps_instructions commit_attribution
    experimental_instructions_file allow_login_shell
    background_terminal_max_timeout zsh_path web_search tools tool_suggest js_repl_node_path
    js_repl_node_module_dirs ghost_snapshot memories forced_chatgpt_workspace_id
    forced_login_method cli_auth_credentials_store mcp_oauth_credentials_store
    mcp_oauth_callback_port mcp_oauth_callback_url history sqlite_home log_dir analytics
    feedback check_for_update_on_startup otel apps skills
    plugins marketplaces notice file_opener hide_agent_reasoning show_raw_agent_reasoning
    disable_paste_burst tui experimental_use_unified_exec_tool
    experimental_use_freeform_apply_patch profiles projects windows mcp_servers hooks
"""
CODEX_KEYS = frozenset(_CODEX.split())
# Within tables that we do obey.
CODEX_INNER_KEYS = frozenset(
    {
        "agents.default_subagent_model", "agents.default_subagent_reasoning_effort",
        "agents.interrupt_message",
    }
)  # fmt: skip
RESERVED_PROVIDERS = ("openai", "anthropic", "ollama", "lmstudio", "llamacpp", "local")

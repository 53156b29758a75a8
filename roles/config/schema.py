"""The configuration's keys: the supported ones, and Codex's that have no effect here. Values only.

A key that Codex also has keeps Codex's meaning, so that a person can reuse a file.
"""

from typing import Literal

import msgspec

from swarm.mailbox.protocol.settings import Summary, Verbosity
from swarm.mailbox.protocol.spec import ShellEnvironmentPolicy
from swarm.mailbox.protocol.values.base import Value
from swarm.mailbox.protocol.values.limits import (
    AskForApproval,
    Budget,
    Granular,
    MergeAtEnd,
    NetworkSettings,
    RunIsolation,
)

from .host_settings import HostToml
from .isolation_table import IsolationTable
from .mcp_table import McpServerTable
from .model_keys import ModelKeys
from .model_keys import Toml as Toml
from .part_keys import PartKeys, ProviderPartKeys

SandboxMode = Literal["read-only", "workspace-write", "danger-full-access"]


class AuthTable(Value):
    """`[model_providers.ID.auth]`: a command that prints a token."""

    command: str = ""
    args: tuple[str, ...] = ()
    timeout_ms: int = 5_000
    refresh_interval_ms: int = 300_000
    cwd: str | None = None


class KeyringTable(Value):
    """`[model_providers.ID.keyring]`, swarm's own: an entry of the system's keyring."""

    service: str = ""
    user: str = ""  # "" = the provider's id


class ProviderTable(ProviderPartKeys):
    """`[model_providers.ID]`. The `chat` wire is supported; Codex has dropped it."""

    name: str = ""
    env_key: str | None = None
    experimental_bearer_token: str | None = None
    wire_api: Literal["responses", "chat", "messages"] = "responses"
    requires_openai_auth: bool = False
    auth: AuthTable | None = None
    key_file: str | None = None  # swarm's own: a file of mode 0600
    keyring: KeyringTable | None = None  # swarm's own
    websocket_connect_timeout_ms: int | None = None  # no effect: swarm uses no websockets
    supports_websockets: bool = False


class WorkspaceTable(Value):
    """`[sandbox_workspace_write]`."""

    writable_roots: tuple[str, ...] = ()
    network_access: bool = False
    exclude_tmpdir_env_var: bool = False
    exclude_slash_tmp: bool = False


class ShellTable(ShellEnvironmentPolicy):
    """`[shell_environment_policy]`; unlike in Codex, the default excludes are on."""

    experimental_use_profile: bool = False  # no effect: the shell's environment is read once


class AgentsTable(Value):
    """The fixed keys of `[agents]`; any other key there names a role."""

    max_threads: int | None = None  # children: one less than `max_agents`
    max_concurrent_threads_per_session: int | None = None  # Codex's later name for it
    max_depth: int | None = None
    job_max_runtime_seconds: int | None = None  # for one row of a table, if the call sets none
    max_total: int | None = None  # swarm's own: agents that models may start in one run
    wake_parents: bool = True  # swarm's own: a child's end starts a turn of its idle parent
    # swarm's own: further providers that a spawn or a person's change may name
    providers: tuple[str, ...] = ()
    # swarm's own: models for the words of agent files (`sonnet`, `opus`, `haiku`)
    model_aliases: dict[str, str] = {}

    @property
    def children(self) -> int | None:
        """The limit on concurrent children under either name; `max_threads` has precedence."""
        both = (self.max_threads, self.max_concurrent_threads_per_session)
        return next((number for number in both if number is not None), None)


class RoleTable(ModelKeys):
    """`[agents.NAME]`."""

    description: str | None = None
    config_file: str | None = None
    nickname_candidates: tuple[str, ...] | None = None
    # swarm's own; they replace what the role's file says
    model: str | None = None
    model_provider: str | None = None
    fallback: tuple[str, ...] | None = None


class LimitsTable(Value):
    """`[limits]`, swarm's own: limits of what commands use. Sizes are bytes, `8GiB` or a share of
    the machine's memory (`50%`); 0 means no limit.
    """

    command_memory: str | int = "75%"
    command_processes: int = 4096
    command_seconds: str | int | float = 0  # wall time
    agent_memory: str | int = "75%"
    agent_processes: int = 4096


class AutoReviewTable(Value):
    """`[auto_review]`: Codex's `policy`; the other keys are swarm's own."""

    policy: str = ""
    model: str | None = None
    model_reasoning_effort: str = "low"
    timeout_sec: float = 90.0


class GranularTable(Value, forbid_unknown_fields=True):
    """Which kinds of questions are asked; Codex's keys, three of them required."""

    sandbox_approval: bool
    rules: bool
    mcp_elicitations: bool
    skill_approval: bool = False
    request_permissions: bool = False


class GranularPolicy(Value, forbid_unknown_fields=True):
    """`approval_policy = { granular = { … } }`: on-request, for these kinds of questions only."""

    granular: GranularTable


class NetworkTable(NetworkSettings):
    """`[network]`: the network proxy, with the keys of Codex's `[permissions.NAME.network]`."""

    enabled: bool = False
    domains: dict[str, Literal["allow", "deny"]] = {}
    allow_upstream_proxy: bool = False
    dangerously_allow_all_unix_sockets: bool = False
    unix_sockets: dict[str, Literal["allow", "none"]] = {}  # also applies when the proxy is off
    # Codex's other keys have no effect here (`no_effect.py`); the proxy is stricter.
    proxy_url: str | None = None
    socks_url: str | None = None
    enable_socks5_udp: bool = False
    dangerously_allow_non_loopback_proxy: bool = False


Access = Literal["read", "write", "none", "deny"]  # none: Codex's older word for deny


class PermissionProfile(Value):
    """`[permissions.NAME]`. Keys of `filesystem` are paths, special names such as `:root`, and
    `glob_scan_max_depth`; `permission_profiles.py` reads them.
    """

    extends: str | None = None
    filesystem: dict[str, Access | int | dict[str, Access]] = {}
    workspace_roots: dict[str, bool] = {}
    network: NetworkTable = NetworkTable()


class SkillConfig(Value):
    """`[[skills.config]]`: exactly one of `name` and `path` is set."""

    name: str = ""
    path: str = ""
    enabled: bool = True


class PluginTable(Value):
    """`[plugins."PLUGIN@MARKETPLACE"]`."""

    enabled: bool | None = None


class MarketplaceTable(Value):
    """`[marketplaces.NAME]`."""

    source_type: Literal["git", "local", "archive"] = "local"
    source: str = ""
    ref: str | None = None
    sparse_paths: tuple[str, ...] = ()
    last_updated: str | None = None
    last_revision: str | None = None


class ProjectSkills(Value):
    """`[skills.projects."/path"]`: names of skills that are on or off in one project."""

    enable: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()


class SkillsTable(Value):
    """`[skills]`."""

    include_instructions: bool = True  # False: no list in the prompt
    config: tuple[SkillConfig, ...] = ()
    exclude: tuple[str, ...] = ()  # swarm's own: names
    # swarm's own: what the list may take, of a model's window and in bytes
    budget_percent: int = 2
    budget_bytes: int = 8_000
    # swarm's own: by the canonical path of a project's root; a project may not set it
    projects: dict[str, ProjectSkills] = {}


class Config(PartKeys):
    """The supported keys. Each field's default is its built-in value."""

    model: str | None = None
    model_provider: str | None = None
    # swarm's own: `provider:model`, taken in order when a provider fails for good
    fallback: tuple[str, ...] = ()
    model_providers: dict[str, ProviderTable] = {}
    openai_base_url: str | None = None
    model_reasoning_effort: str | None = None
    model_reasoning_summary: Summary = "auto"
    model_verbosity: Verbosity | None = None
    model_supports_reasoning_summaries: bool | None = None  # None: as the catalogue says
    # for agents that review code, unless their role or -m names one
    review_model: str | None = None
    developer_instructions: str = ""
    model_instructions_file: str | None = None
    model_context_window: int | None = None
    model_auto_compact_token_limit: int | None = None
    compact_prompt: str = ""
    experimental_compact_prompt_file: str | None = None
    include_permissions_instructions: bool = True
    include_environment_context: bool = True
    approval_policy: AskForApproval | GranularPolicy = "on-request"
    # `nobody` is swarm's own. None: a person if there is a terminal, else the reviewer.
    approvals_reviewer: Literal["user", "auto_review", "guardian_subagent", "nobody"] | None = None
    approval_timeout: str | int | float | None = None  # swarm's own: for a person's answer
    allow_commit: bool = False  # swarm's own: commands that only record work in a repository
    merge: MergeAtEnd = "ask"  # swarm's own: unmerged work in copies at the end of a run
    isolation: RunIsolation | IsolationTable = "shared"  # swarm's own: who works in copies
    auto_review: AutoReviewTable = AutoReviewTable()
    sandbox_mode: SandboxMode = "workspace-write"
    sandbox_workspace_write: WorkspaceTable = WorkspaceTable()
    shell_environment_policy: ShellTable = ShellTable()
    project_doc_max_bytes: int = 32_768
    project_doc_fallback_filenames: tuple[str, ...] = ()
    project_root_markers: tuple[str, ...] = (".git",)
    # what opens a file whose name is clicked in the terminal; `file` is swarm's own
    file_opener: Literal["file", "vscode", "vscode-insiders", "windsurf", "cursor", "none"] = "file"
    agents: Toml = {}
    budget: Budget = Budget()  # swarm's own: limits of the whole run
    limits: LimitsTable = LimitsTable()  # swarm's own
    hosts: dict[str, HostToml] = {}  # swarm's own
    network: NetworkTable = NetworkTable()  # swarm's own; when enabled the profile's does not count
    skills: SkillsTable = SkillsTable()
    plugins: dict[str, PluginTable] = {}  # a project's only selects and restricts
    marketplaces: dict[str, MarketplaceTable] = {}
    # Codex's shape; every layer's hooks run (`hooks/hook_file.py` reads each layer's own table)
    hooks: Toml = {}
    mcp_oauth_callback_port: int | None = None  # of `swarm mcp login`; None: any free one
    mcp_servers: dict[str, McpServerTable] = {}
    default_permissions: str | None = None
    permissions: dict[str, PermissionProfile] = {}
    deadline: str | int | float | None = None  # swarm's own
    features: dict[str, bool | Toml] = {}
    suppress_unstable_features_warning: bool = False

    @property
    def approval(self) -> AskForApproval:
        """The policy's name; a granular policy is `on-request`."""
        policy = self.approval_policy
        return "on-request" if isinstance(policy, GranularPolicy) else policy

    @property
    def granular(self) -> Granular | None:
        """The kinds of questions that a granular policy asks; None for other policies."""
        policy = self.approval_policy
        if not isinstance(policy, GranularPolicy):
            return None
        return msgspec.convert(msgspec.to_builtins(policy.granular), Granular)


# Codex's keys that have no effect here; `no_effect.py` reports them.
_CODEX = """
    plan_mode_reasoning_effort
    model_catalog_json
    personality service_tier chatgpt_base_url oss_provider tool_output_token_limit instructions
    include_apps_instructions commit_attribution
    experimental_instructions_file allow_login_shell
    background_terminal_max_timeout zsh_path web_search tool_suggest js_repl_node_path
    js_repl_node_module_dirs ghost_snapshot cli_auth_credentials_store
    mcp_oauth_callback_url history sqlite_home log_dir analytics
    feedback check_for_update_on_startup otel apps
    notice hide_agent_reasoning show_raw_agent_reasoning
    disable_paste_burst tui experimental_use_unified_exec_tool
    experimental_use_freeform_apply_patch profiles projects windows
"""
CODEX_KEYS = frozenset(_CODEX.split())
# Codex's keys without effect within supported tables.
CODEX_INNER_KEYS = frozenset(
    {
        "agents.default_subagent_model", "agents.default_subagent_reasoning_effort",
        "agents.interrupt_message",
    }
)  # fmt: skip
RESERVED_PROVIDERS = ("openai", "anthropic", "ollama", "lmstudio", "llamacpp", "local")

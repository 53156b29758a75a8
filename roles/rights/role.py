"""Roles as data: instructions, model and limits of an agent."""

from typing import Annotated

import msgspec

from swarm.mailbox.protocol.settings import (
    PromptSize,
    SamplingSettings,
    SkillChoice,
    Summary,
    ToolChoice,
    Verbosity,
)
from swarm.mailbox.protocol.spec import ContextOverrides, RoleBrief
from swarm.mailbox.protocol.values.base import Value
from swarm.mailbox.protocol.values.limits import (
    AskForApproval,
    Budget,
    Isolation,
    McpAccess,
    NetworkPolicy,
    UnixSockets,
)

from ..config.model_keys import ModelKeys
from ..config.part_keys import RolePartKeys, RoleParts, role_parts
from ..config.schema import (
    NetworkTable,
    SandboxMode,
    Toml,
    WorkspaceTable,
)
from .proxy_policy import read_network_table
from .role_layer import tools_without_features
from .unix_sockets import read_socket_table


class RoleBudget(Budget, forbid_unknown_fields=True):
    """`[budget]` of a role (swarm's own): limits of each agent of the role and all below it."""

    tokens: Annotated[int, msgspec.Meta(gt=0)] | None = None
    usd: Annotated[float, msgspec.Meta(gt=0)] | None = None
    requests: Annotated[int, msgspec.Meta(gt=0)] | None = None


class RoleServer(Value, forbid_unknown_fields=True):
    """`[mcp_servers.NAME]` of a role: less of a server of the run. A role defines no server."""

    enabled: bool = True
    enabled_tools: tuple[str, ...] | None = None


class RoleSkills(Value, forbid_unknown_fields=True):
    """`[skills]` of a role: all skills of the run but these."""

    exclude: tuple[str, ...] = ()


class RolePlugin(Value, forbid_unknown_fields=True):
    """`[plugins."NAME"]` of a role: less of a plugin of the run. A role brings no plugin."""

    enabled: bool = True


class PluginChoice(Value):
    """Plugins by id or name: of the others a role has nothing but their hooks."""

    only: tuple[str, ...] | None = None  # None: all of the run
    exclude: tuple[str, ...] = ()


class RoleFile(RolePartKeys, forbid_unknown_fields=True):
    """A role's TOML file: what names the role, and the keys of a configuration that it may set.

    `role_layer.py` says what becomes of the other keys of a configuration.
    """

    name: str | None = None
    description: str | None = None
    nickname_candidates: tuple[str, ...] | None = None
    developer_instructions: str | None = None
    model_instructions_file: str | None = None
    prompt_file: str | None = None  # of a built-in role
    model: str | None = None
    model_provider: str | None = None
    fallback: tuple[str, ...] | None = None  # swarm's own: `provider:model`
    model_reasoning_effort: str | None = None
    approval_policy: AskForApproval | None = None
    sandbox_mode: SandboxMode | None = None
    sandbox_workspace_write: WorkspaceTable | None = None
    isolation: Isolation | None = None  # swarm's own
    # swarm's own: machines of `[hosts]` on which its agents run, and what each takes of one
    host: str | None = None
    resources: dict[str, Annotated[float, msgspec.Meta(ge=0)]] = {}
    merges: bool = False  # swarm's own
    network: NetworkTable | None = None
    # names (swarm's own), or Codex's tables by name; None: the parent's
    mcp_servers: tuple[str, ...] | dict[str, RoleServer] | None = None
    enabled_tools: dict[str, tuple[str, ...]] = {}  # swarm's own: by server, its own names
    budget: RoleBudget = RoleBudget()
    model_reasoning_summary: Summary | None = None
    model_verbosity: Verbosity | None = None
    model_context_window: Annotated[int, msgspec.Meta(gt=0)] | None = None
    model_auto_compact_token_limit: Annotated[int, msgspec.Meta(gt=0)] | None = None
    compact_prompt: str | None = None
    include_permissions_instructions: bool | None = None
    include_environment_context: bool | None = None
    features: dict[str, bool | Toml] = {}
    # swarm's own: names of skills, or all but the excluded ones
    skills: tuple[str, ...] | RoleSkills = RoleSkills()
    # swarm's own: ids or names, or tables by them; None: the parent's
    plugins: tuple[str, ...] | dict[str, RolePlugin] | None = None

    @property
    def skill_choice(self) -> SkillChoice:
        """Which skills the role's agents are told of."""
        if isinstance(self.skills, RoleSkills):
            return SkillChoice(exclude=self.skills.exclude)
        return SkillChoice(only=self.skills)

    @property
    def plugin_choice(self) -> PluginChoice:
        """Which plugins the role's agents use."""
        if isinstance(self.plugins, tuple):
            return PluginChoice(only=self.plugins)
        tables = (self.plugins or {}).items()
        return PluginChoice(exclude=tuple(name for name, table in tables if not table.enabled))


class Role(Value):
    """A role with its files read. None means: inherited from the parent."""

    name: str
    description: str = ""
    nickname_candidates: tuple[str, ...] = ()
    base_instructions: str = ""
    developer_instructions: str = ""
    model: str | None = None
    model_provider: str | None = None
    fallback: tuple[str, ...] | None = None
    effort: str | None = None
    approval: AskForApproval | None = None
    sandbox_mode: SandboxMode | None = None
    workspace: WorkspaceTable | None = None
    isolation: Isolation = "shared"
    host: str | None = None  # a table of `[hosts]`, or "here"; None: as the run says
    resources: dict[str, float] = {}  # what each of its agents takes of another machine
    parts: RoleParts = RoleParts()
    merges: bool = False  # it merges what others of its parent changed, and is in no copy unasked
    network: NetworkPolicy | None = None
    unix_sockets: UnixSockets | None = None
    mcp_servers: tuple[str, ...] | None = None
    without_servers: tuple[str, ...] = ()
    mcp_tools: tuple[McpAccess, ...] = ()  # narrows these servers, named above or inherited
    budget: Budget = Budget()  # its own; limits higher in the tree apply too
    tools: ToolChoice = ToolChoice()
    prompt: PromptSize = ""
    sampling: SamplingSettings = SamplingSettings()
    summary: Summary | None = None
    verbosity: Verbosity | None = None
    context: ContextOverrides = ContextOverrides()
    skills: SkillChoice = SkillChoice()
    plugins: PluginChoice = PluginChoice()
    warnings: tuple[str, ...] = ()  # keys of its file that have no effect
    source: str = "built-in"

    @property
    def is_agent_file(self) -> bool:
        """True for a role that a Markdown file of another agent describes."""
        return self.source.endswith(".md")

    def brief(self) -> RoleBrief:
        """The part that the agent's process needs.

        Only a read-only role is locked: no approval can widen it.
        """
        return RoleBrief(
            name=self.name,
            base_instructions=self.base_instructions,
            developer_instructions=self.developer_instructions,
            locked=self.sandbox_mode == "read-only",
            tools=self.tools,
            prompt=self.prompt,
            sampling=self.sampling,
            context=self.context,
            skills=self.skills,
        )


def role_from_file(file: RoleFile, *, name: str, source: str) -> Role:
    """The role without texts from other files (the loader reads those)."""
    servers = file.mcp_servers if isinstance(file.mcp_servers, dict) else {}
    chosen = {
        name: one.enabled_tools for name, one in servers.items() if one.enabled_tools is not None
    } | file.enabled_tools
    return Role(
        name=name,
        description=(file.description or "").strip(),
        nickname_candidates=file.nickname_candidates or (),
        developer_instructions=(file.developer_instructions or "").strip(),
        model=file.model,
        model_provider=file.model_provider,
        fallback=file.fallback,
        effort=file.model_reasoning_effort,
        approval=file.approval_policy,
        sandbox_mode=file.sandbox_mode,
        workspace=file.sandbox_workspace_write,
        isolation=file.isolation or "shared",
        host=file.host,
        resources=file.resources,
        merges=file.merges,
        parts=role_parts(file),
        network=None if file.network is None else read_network_table(file.network, "network"),
        unix_sockets=None if file.network is None else read_socket_table(file.network, "network"),
        mcp_servers=file.mcp_servers if isinstance(file.mcp_servers, tuple) else None,
        without_servers=tuple(name for name, table in servers.items() if not table.enabled),
        mcp_tools=tuple(McpAccess(server=name, tools=tools) for name, tools in chosen.items()),
        budget=msgspec.convert(file.budget, Budget, from_attributes=True),
        tools=file.tool_choice.narrowed(tools_without_features(file.features)),
        prompt=file.prompt,
        sampling=file.sampling,
        skills=file.skill_choice,
        plugins=file.plugin_choice,
        summary=file.model_reasoning_summary,
        verbosity=file.model_verbosity,
        context=_context_of(file),
        source=source,
    )


def _context_of(file: RoleFile) -> ContextOverrides:
    return ContextOverrides(
        compact_tokens=file.model_auto_compact_token_limit,
        window_tokens=file.model_context_window,
        compact_prompt=file.compact_prompt,
        permissions=file.include_permissions_instructions,
        environment=file.include_environment_context,
    )


def merge_sampling(high: SamplingSettings, low: SamplingSettings) -> SamplingSettings:
    """`high`, with missing values from `low`."""
    given = {key: one for key, one in msgspec.structs.asdict(high).items() if one is not None}
    return msgspec.structs.replace(low, **given)


def with_run_settings(role: Role, keys: ModelKeys) -> Role:
    """The role with what the run's configuration says where it says nothing itself."""
    return msgspec.structs.replace(
        role,
        prompt=role.prompt or keys.prompt,
        sampling=merge_sampling(role.sampling, keys.sampling),
    )


def fill_missing(high: Role, low: Role) -> Role:
    """`high`, with missing values filled from `low`, a lower layer's role of the same name."""
    return msgspec.structs.replace(
        high,
        description=high.description or low.description,
        nickname_candidates=high.nickname_candidates or low.nickname_candidates,
    )

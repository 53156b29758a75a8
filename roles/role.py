"""Roles as data: instructions, model and limits of an agent."""

from typing import Annotated

import msgspec

from swarm.mailbox.protocol.base import Value
from swarm.mailbox.protocol.limits import (
    AskForApproval,
    Budget,
    McpAccess,
    NetworkPolicy,
    UnixSockets,
)
from swarm.mailbox.protocol.spec import RoleBrief

from .config.schema import BudgetTable, NetworkTable, SandboxMode, WorkspaceTable
from .proxy_policy import read_network_table
from .unix_sockets import read_socket_table


class RoleBudget(BudgetTable, forbid_unknown_fields=True):
    """`[budget]` of a role (swarm's own): limits of each agent of the role and all below it."""

    tokens: Annotated[int, msgspec.Meta(gt=0)] | None = None
    usd: Annotated[float, msgspec.Meta(gt=0)] | None = None
    requests: Annotated[int, msgspec.Meta(gt=0)] | None = None


class RoleFile(Value, forbid_unknown_fields=True):
    """A role's TOML file. The keys are Codex's, except `prompt` (a file of the built-in roles).

    Any other key is an error, because it could not take effect.
    """

    name: str | None = None
    description: str | None = None
    nickname_candidates: tuple[str, ...] | None = None
    developer_instructions: str | None = None
    model_instructions_file: str | None = None
    prompt: str | None = None
    model: str | None = None
    model_provider: str | None = None
    fallback: tuple[str, ...] | None = None  # swarm's own: `provider:model`
    model_reasoning_effort: str | None = None
    approval_policy: AskForApproval | None = None
    sandbox_mode: SandboxMode | None = None
    sandbox_workspace_write: WorkspaceTable | None = None
    network: NetworkTable | None = None
    mcp_servers: tuple[str, ...] | None = None  # swarm's own: names; None: the parent's
    enabled_tools: dict[str, tuple[str, ...]] = {}  # swarm's own: by server, its own names
    budget: RoleBudget = RoleBudget()


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
    network: NetworkPolicy | None = None
    unix_sockets: UnixSockets | None = None
    mcp_servers: tuple[str, ...] | None = None
    mcp_tools: tuple[McpAccess, ...] = ()  # narrows these servers, named above or inherited
    budget: Budget = Budget()  # its own; limits higher in the tree apply too
    source: str = "built-in"

    def brief(self) -> RoleBrief:
        """The part that the agent's process needs.

        Only a read-only role is locked: no approval can widen it.
        """
        return RoleBrief(
            name=self.name,
            base_instructions=self.base_instructions,
            developer_instructions=self.developer_instructions,
            locked=self.sandbox_mode == "read-only",
        )


def role_from_file(file: RoleFile, *, name: str, source: str) -> Role:
    """The role without texts from other files (the loader reads those)."""
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
        network=None if file.network is None else read_network_table(file.network, "network"),
        unix_sockets=None if file.network is None else read_socket_table(file.network, "network"),
        mcp_servers=file.mcp_servers,
        mcp_tools=tuple(
            McpAccess(server=name, tools=tools) for name, tools in file.enabled_tools.items()
        ),
        budget=msgspec.convert(file.budget, Budget, from_attributes=True),
        source=source,
    )


def fill_missing(high: Role, low: Role) -> Role:
    """`high`, with missing values filled from `low`, a lower layer's role of the same name."""
    return msgspec.structs.replace(
        high,
        description=high.description or low.description,
        nickname_candidates=high.nickname_candidates or low.nickname_candidates,
    )

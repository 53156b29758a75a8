"""Computes a child's limits from the parent's limits and the role; never wider. No I/O.

A role can take rights away but never add any. Values that cannot be compared stay as the
parent has them.
"""

import os
from typing import TypeVar

import msgspec

from swarm.mailbox.base.path_rules import intersect_profiles, make_rules
from swarm.mailbox.protocol.values.limits import (
    AskForApproval,
    Budget,
    DangerFullAccess,
    Isolation,
    Limits,
    McpAccess,
    NetworkPolicy,
    ProfilePolicy,
    ReadOnly,
    SandboxPolicy,
    UnixSockets,
    WorkspaceWrite,
)

from .proxy_policy import intersect_networks
from .role import Role
from .unix_sockets import intersect_sockets

BoundPolicy = ReadOnly | WorkspaceWrite | ProfilePolicy
_N = TypeVar("_N", int, float)
_STRICTNESS: tuple[AskForApproval, ...] = ("untrusted", "on-failure", "on-request")


def narrow_limits(parent: Limits, role: Role) -> Limits:
    """The limits of an agent of this role under this parent. The reviewer stays the parent's."""
    network = narrow_role_network(parent.network, role)
    sandbox = narrow_sandbox(parent.sandbox, role)
    if role.network is not None:  # a role's network table names hosts, so no direct access to all
        sandbox = without_direct_network(sandbox)
    approval = narrow_approval(parent.approval, role.approval)
    return Limits(
        sandbox=sandbox,
        approval=approval,
        granular=parent.granular if approval == "on-request" else None,
        reviewer=parent.reviewer,
        budget=narrow_budget(parent.budget, role.budget),
        deadline_unix_s=parent.deadline_unix_s,
        max_depth=parent.max_depth,
        network=network,
        unix_sockets=narrow_role_sockets(parent.unix_sockets, role),
        planning=parent.planning,
        mcp=narrow_role_servers(parent.mcp, role),
        isolation=narrow_isolation(parent.isolation, role.isolation, sandbox=sandbox),
        only_merges=parent.only_merges and not role.merges,
    )


def narrow_isolation(*wanted: Isolation | None, sandbox: SandboxPolicy) -> Isolation:
    """A copy, if anybody wants one; an agent that may not write needs none."""
    return "copy" if "copy" in wanted and not isinstance(sandbox, ReadOnly) else "shared"


def narrow_role_sockets(parent: UnixSockets, role: Role) -> UnixSockets:
    """Which sockets of other programs an agent of this role may connect to."""
    if role.unix_sockets is not None:
        return intersect_sockets(parent, role.unix_sockets)
    return parent if _keeps_network(role) else UnixSockets()


def narrow_role_servers(parent: tuple[McpAccess, ...], role: Role) -> tuple[McpAccess, ...]:
    """The MCP servers and tools that an agent of this role may use."""
    narrower = {one.server: one.tools for one in role.mcp_tools}
    named = role.mcp_servers
    kept = (
        one
        for one in parent
        if (named is None or one.server in named) and one.server not in role.without_servers
    )
    return tuple(
        msgspec.structs.replace(one, tools=_common_tools(one.tools, narrower.get(one.server)))
        for one in kept
    )


def _common_tools(
    parent: tuple[str, ...] | None, wanted: tuple[str, ...] | None
) -> tuple[str, ...] | None:
    if parent is None or wanted is None:
        return wanted if parent is None else parent
    return tuple(name for name in wanted if name in parent)


def narrow_role_network(parent: NetworkPolicy | None, role: Role) -> NetworkPolicy | None:
    """What an agent of this role may reach through the proxy; None: no proxy."""
    if parent is not None and role.network is not None:
        return intersect_networks(parent, role.network)
    return parent if _keeps_network(role) else None


def _keeps_network(role: Role) -> bool:
    """False for a read-only role, unless its workspace table asks for network access."""
    return role.sandbox_mode != "read-only" or _wants_network(role)


def without_direct_network(policy: SandboxPolicy) -> SandboxPolicy:
    """The policy without direct network access; only the proxy remains, if there is one."""
    if isinstance(policy, DangerFullAccess):
        return policy
    return msgspec.structs.replace(policy, network_access=False)


def narrow_sandbox(parent: SandboxPolicy, role: Role) -> SandboxPolicy:
    """The intersection. Roots and network that a role does not name stay the parent's."""
    match role.sandbox_mode:
        case None | "danger-full-access":
            return parent
        case "read-only":
            return intersect_sandboxes(parent, ReadOnly(network_access=_wants_network(role)))
        case "workspace-write":
            table = role.workspace
            if table is None and isinstance(parent, ProfilePolicy):
                return parent
            if table is None:
                roots = parent.writable_roots if isinstance(parent, WorkspaceWrite) else ()
                return intersect_sandboxes(
                    parent, WorkspaceWrite(writable_roots=roots, network_access=_network(parent))
                )
            own = msgspec.convert(table, WorkspaceWrite, from_attributes=True)
            return intersect_sandboxes(parent, own)


def profile_from_policy(policy: BoundPolicy, workspace: tuple[str, ...]) -> ProfilePolicy:
    """A policy as a permission profile, for a run with these folders.

    Source: Codex's mapping of its older modes.
    """
    match policy:
        case ProfilePolicy():
            return policy
        case ReadOnly(network_access=network):
            return ProfilePolicy(
                name=":read-only",
                rules=make_rules((("/", "read"), *((root, "read") for root in workspace))),
                tmp="write",
                workspace=workspace,
                network_access=network,
            )
        case WorkspaceWrite(writable_roots=roots, network_access=network):
            climbing = {root for root in roots if ".." in root.split("/")}
            written = [
                *workspace,
                *(os.path.normpath(root) for root in roots if root not in climbing),
            ]
            return ProfilePolicy(
                name=":workspace",
                rules=make_rules((("/", "read"), *((root, "write") for root in written))),
                tmp="read" if policy.exclude_slash_tmp else "write",
                workspace=workspace,
                network_access=network,
            )


def _wants_network(role: Role) -> bool:
    return role.workspace is not None and role.workspace.network_access


def _network(policy: SandboxPolicy) -> bool:
    return isinstance(policy, DangerFullAccess) or policy.network_access


def intersect_sandboxes(one: SandboxPolicy, other: SandboxPolicy) -> SandboxPolicy:
    """The widest policy that allows nothing that either of the two forbids."""
    if isinstance(one, DangerFullAccess):
        return other
    if isinstance(other, DangerFullAccess):
        return one
    network = one.network_access and other.network_access
    if isinstance(one, ProfilePolicy) or isinstance(other, ProfilePolicy):
        workspace = one.workspace if isinstance(one, ProfilePolicy) else ()
        workspace = workspace or (other.workspace if isinstance(other, ProfilePolicy) else ())
        return intersect_profiles(
            profile_from_policy(one, workspace), profile_from_policy(other, workspace)
        )
    if isinstance(one, ReadOnly) or isinstance(other, ReadOnly):
        return ReadOnly(network_access=network)
    return WorkspaceWrite(
        writable_roots=_common_roots(one.writable_roots, other.writable_roots),
        network_access=network,
        exclude_tmpdir_env_var=one.exclude_tmpdir_env_var or other.exclude_tmpdir_env_var,
        exclude_slash_tmp=one.exclude_slash_tmp or other.exclude_slash_tmp,
    )


def _common_roots(one: tuple[str, ...], other: tuple[str, ...]) -> tuple[str, ...]:
    """Roots that lie within a root of the other side."""
    kept = [root for root in one if _is_below(root, other)]
    kept += [root for root in other if _is_below(root, one)]
    return tuple(dict.fromkeys(kept))


def _is_below(path: str, roots: tuple[str, ...]) -> bool:
    if not path.startswith("/") or ".." in path.split("/"):
        return False
    steps = _steps(path)
    return any(steps[: len(_steps(root))] == _steps(root) for root in roots)


def _steps(path: str) -> list[str]:
    return [step for step in path.split("/") if step not in {"", "."}]


def narrow_approval(parent: AskForApproval, role: AskForApproval | None) -> AskForApproval:
    """The stricter of the two.

    `never` asks nothing, so nothing can be granted: a parent's `never` stays. A role's `never` also
    counts, except under `untrusted`, where not asking would let more commands run.
    """
    if role is None or parent == "never":
        return parent
    if role == "never":
        return parent if parent == "untrusted" else "never"
    return next(word for word in _STRICTNESS if word in {parent, role})


def narrow_budget(parent: Budget, wanted: Budget) -> Budget:
    """The smaller limit of each kind."""
    return Budget(
        tokens=_least(parent.tokens, wanted.tokens),
        usd=_least(parent.usd, wanted.usd),
        requests=_least(parent.requests, wanted.requests),
    )


def _least(one: _N | None, other: _N | None) -> _N | None:
    if one is None or other is None:
        return other if one is None else one
    return min(one, other)

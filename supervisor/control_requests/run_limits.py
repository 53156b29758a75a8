"""The limits that a run gives to its root and to the items of its fan-out."""

import msgspec

from swarm.mailbox.protocol.values.limits import Limits, NetworkPolicy

from ..context.run_context import RunContext
from ..parts.network.network_policy import with_rules
from ..request.run_request import ItemAgents, RunRequest


def run_limits(running: RunContext) -> Limits:
    """What the person allowed when the run was started or resumed, without plan mode."""
    request = running.request
    approvals = request.approvals
    return Limits(
        sandbox=request.sandbox,
        approval=approvals.approval,
        granular=approvals.granular if approvals.approval == "on-request" else None,
        reviewer=approvals.reviewer,
        budget=request.budget,
        deadline_unix_s=running.deadline_unix_s,
        max_depth=request.team.max_depth,
        network=_with_rules(request.network, request),
        unix_sockets=request.unix_sockets,
        mcp=request.mcp.root,
        isolation=request.copies.root_isolation,
        only_merges=_only_joins(request),
    )


def item_limits(running: RunContext, items: ItemAgents) -> Limits:
    """Likewise, for the items of its fan-out."""
    limits = run_limits(running)
    return msgspec.structs.replace(
        limits,
        sandbox=limits.sandbox if items.sandbox is None else items.sandbox,
        budget=items.budget,
        network=_with_rules(items.network, running.request),
        unix_sockets=items.unix_sockets,
        mcp=items.mcp,
        isolation=items.isolation,
        only_merges=False,
    )


def _with_rules(network: NetworkPolicy | None, request: RunRequest) -> NetworkPolicy | None:
    return None if network is None else with_rules(network, request.rules)


def _only_joins(request: RunRequest) -> bool:
    """True for a root that joins the answers of agents in copies: it writes by merging them alone.

    What they changed is not in the project yet; a change of the root's own would be a second one.
    """
    in_copies = request.fan_out is not None and request.fan_out.agents.isolation == "copy"
    role = request.roles.known.get(request.role.name)
    return in_copies and not (role is not None and role.merges)

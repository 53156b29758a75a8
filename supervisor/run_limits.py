"""The limits that a run gives to its root and to the items of its fan-out."""

from swarm.mailbox.protocol.limits import Limits

from .network.network_policy import with_rules
from .run_context import RunContext
from .run_request import RunRequest


def run_limits(running: RunContext, *, for_fan_out: bool = False) -> Limits:
    """What the person allowed when the run was started or resumed, without plan mode."""
    request = running.request
    sandbox = request.sandbox
    if for_fan_out and request.fan_sandbox is not None:
        sandbox = request.fan_sandbox
    network = request.fan_network if for_fan_out else request.network
    if network is not None:
        network = with_rules(network, request.rules)
    return Limits(
        sandbox=sandbox,
        approval=request.approval,
        granular=request.granular if request.approval == "on-request" else None,
        reviewer=request.reviewer,
        budget=request.fan_budget if for_fan_out else request.budget,
        deadline_unix_s=running.deadline_unix_s,
        max_depth=request.max_depth,
        network=network,
        unix_sockets=request.fan_unix_sockets if for_fan_out else request.unix_sockets,
        mcp=request.mcp.items if for_fan_out else request.mcp.root,
        isolation=request.fan_isolation if for_fan_out else request.root_isolation,
        only_merges=not for_fan_out and _only_joins(request),
    )


def _only_joins(request: RunRequest) -> bool:
    """True for a root that joins the answers of agents in copies: it writes by merging them alone.

    What they changed is not in the project yet; a change of the root's own would be a second one.
    """
    in_copies = request.fan_out is not None and request.fan_isolation == "copy"
    role = request.roles.known.get(request.role.name)
    return in_copies and not (role is not None and role.merges)

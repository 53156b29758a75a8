"""On which machines an agent runs: as asked at its start, else as its role or the run says."""

import msgspec

from swarm.mailbox.protocol.limits import DangerFullAccess, Limits
from swarm.roles.role import Role

from ..agents.agent_record import AgentPlan
from ..run_request import RunRequest

HERE = "here"
_RAY_NAMES = {"num_cpus": "CPU", "num_gpus": "GPU"}  # as its options say, as its nodes say


class HostRefused(Exception):
    """The agent cannot run where it should; the text says why."""


def with_host(
    plan: AgentPlan, request: RunRequest, role: Role, *, wanted: str | None = None
) -> AgentPlan:
    """The plan with its host: `wanted`, else the role's, else the run's for agents in copies.

    Raises HostRefused.
    """
    named = wanted or role.host
    if named is None:
        goes_away = plan.limits.isolation == "copy" and not role.merges
        named = request.host if goes_away else ""
    if named in {"", HERE}:
        return plan
    known = [table.name for table in request.hosts]
    if named not in known:
        hint = f"it may use {', '.join(known)}" if known else f"start it with --hosts {named}"
        raise HostRefused(f"this run does not use the host `{named}`: {hint}")
    if role.merges:
        raise HostRefused("an agent that merges works in the project itself, on this machine")
    limits = _limits_there(plan.limits)
    return msgspec.structs.replace(plan, host=named, resources=resources_of(role), limits=limits)


def resources_of(role: Role) -> dict[str, float]:
    """What each agent of the role takes of another machine, by the names that Ray's nodes have."""
    return {_RAY_NAMES.get(name, name): amount for name, amount in role.resources.items()}


def _limits_there(limits: Limits) -> Limits:
    """On another machine also one that only reads works in a copy. Raises HostRefused."""
    if isinstance(limits.sandbox, DangerFullAccess):
        raise HostRefused("without a sandbox nothing holds an agent to a copy of the project")
    if limits.network is not None:
        raise HostRefused(
            "its commands may use the network through the run's proxy, which other machines cannot "
            "reach"
        )
    return msgspec.structs.replace(limits, isolation="copy")

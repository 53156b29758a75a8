"""On which machines an agent runs: as asked at its start, else as its role or the run says."""

import msgspec

from swarm.mailbox.protocol.values.limits import DangerFullAccess, Limits
from swarm.roles.rights.role import Role

from ....agents.agent_record import AgentPlan
from ....request.run_request import RunRequest

HERE = "here"
_RAY_NAMES = {"num_cpus": "CPU", "num_gpus": "GPU"}  # as its options say, as its nodes say


class HostRefused(Exception):
    """The agent cannot run where it should; the text says why."""


def with_host(
    plan: AgentPlan,
    request: RunRequest,
    role: Role,
    *,
    wanted: str | None = None,
    resources: dict[str, float] | None = None,
) -> AgentPlan:
    """The plan with its host: `wanted`, else the role's, else the run's for agents in copies.

    `resources` count beside the role's, and before them. Raises HostRefused.
    """
    named = wanted or role.host
    if named is None:
        goes_away = plan.limits.isolation == "copy" and not role.merges
        named = request.copies.host if goes_away else ""
    if named in {"", HERE}:
        if resources:
            raise HostRefused("resources are of other machines, and this agent works here")
        return plan
    known = [table.name for table in request.copies.hosts]
    if named not in known:
        hint = f"it may use {', '.join(known)}" if known else f"start it with --hosts {named}"
        raise HostRefused(f"this run does not use the host `{named}`: {hint}")
    if role.merges:
        raise HostRefused("an agent that merges works in the project itself, on this machine")
    limits = _limits_there(plan.limits)
    takes = resources_of(role, resources)
    return msgspec.structs.replace(plan, host=named, resources=takes, limits=limits)


def resources_of(role: Role, own: dict[str, float] | None = None) -> dict[str, float]:
    """What an agent of the role takes of another machine, by the names that Ray's nodes have.

    `own`: what is said of this one agent, or of the items of a fan-out.
    """
    both = (role.resources, own or {})
    return {_RAY_NAMES.get(name, name): amount for one in both for name, amount in one.items()}


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

"""Plan mode, and rights that a person adds in mid-run: (plan, wanted) → new plan, or a refusal.

No I/O. Only a person asks for either, through the control socket, which no process of a run may
use. A child never gets more than its parent has.
"""

import msgspec

from swarm.mailbox.base.errors import UsageError
from swarm.mailbox.protocol.settings import SandboxMode
from swarm.mailbox.protocol.values.limits import (
    AskForApproval,
    DangerFullAccess,
    Limits,
    SandboxPolicy,
    WorkspaceWrite,
)
from swarm.roles.rights.narrow import intersect_sandboxes, narrow_approval, narrow_limits
from swarm.roles.rights.role import Role

from .agent_record import AgentPlan

PLAN_ACCEPTED = "The plan is accepted. Carry it out."
_PLANNER = Role(name="plan", sandbox_mode="read-only", approval="never")


class RightsBound(msgspec.Struct, frozen=True):
    """The most that an agent may be given."""

    limits: Limits  # of the run as it was started, or of the agent's parent
    is_parent: bool = False
    sandbox_required: str = ""  # why no command may run without a sandbox


def plan_limits(limits: Limits) -> Limits:
    """These limits in plan mode: everything may be read, nothing written or asked for."""
    return msgspec.structs.replace(narrow_limits(limits, _PLANNER), planning=True)


def suspended_limits(limits: Limits) -> Limits:
    """These limits in plan mode, for an agent that gets them back: one in a copy stays in it."""
    return msgspec.structs.replace(plan_limits(limits), isolation=limits.isolation)


def begin_planning(plan: AgentPlan) -> AgentPlan:
    """The plan in plan mode; it keeps what it gets back when its plan is accepted."""
    if plan.limits.planning:
        return plan
    return msgspec.structs.replace(plan, allowed=plan.limits, limits=suspended_limits(plan.limits))


def end_planning(plan: AgentPlan, bound: RightsBound | None) -> AgentPlan:
    """The plan with what it was allowed before plan mode, at most what its parent has."""
    if not plan.limits.planning:
        return plan
    if plan.allowed is None:
        raise UsageError(
            f"{plan.path} was started by an agent in plan mode; accept that one's plan, and it can "
            "start others with more rights"
        )
    limits = plan.allowed
    if bound is not None and bound.is_parent:
        if bound.limits.planning:
            raise UsageError(f"{plan.path} is below an agent in plan mode; accept that plan first")
        limits = within(limits, bound.limits)
    return msgspec.structs.replace(plan, allowed=None, limits=limits)


def within(limits: Limits, parent: Limits) -> Limits:
    """These limits, with at most the sandbox and approval of `parent`."""
    return msgspec.structs.replace(
        limits,
        sandbox=intersect_sandboxes(parent.sandbox, limits.sandbox),
        approval=narrow_approval(parent.approval, limits.approval),
    )


def widen_sandbox(plan: AgentPlan, wanted: SandboxMode, bound: RightsBound) -> AgentPlan:
    """The plan with a wider sandbox. Raises UsageError for more than may be given."""
    if plan.role.locked:
        raise UsageError(f"{plan.path} is locked to its sandbox for good; start another agent")
    if wanted == "danger-full-access" and bound.sandbox_required:
        raise UsageError(f"no agent may work without a sandbox here: {bound.sandbox_required}")
    policy = _policy(wanted, bound.limits.sandbox)
    if bound.is_parent and intersect_sandboxes(bound.limits.sandbox, policy) != policy:
        raise UsageError(
            f"{plan.path} cannot have more than its parent, whose sandbox is "
            f"{sandbox_mode(bound.limits.sandbox)}; widen that one first"
        )
    limits = msgspec.structs.replace(
        plan.limits,
        sandbox=policy,
        network=bound.limits.network,
        unix_sockets=bound.limits.unix_sockets,
    )
    return msgspec.structs.replace(plan, limits=limits, widened=True)


def widen_approval(plan: AgentPlan, wanted: AskForApproval, bound: RightsBound) -> AgentPlan:
    """The plan with another approval policy. Raises UsageError for more than its parent's."""
    has = bound.limits.approval
    if bound.is_parent and narrow_approval(has, wanted) != wanted:
        raise UsageError(
            f"{plan.path} cannot have more than its parent, whose approval is {has}; widen that "
            "one first"
        )
    granular = bound.limits.granular if wanted == "on-request" else None
    limits = msgspec.structs.replace(plan.limits, approval=wanted, granular=granular)
    return msgspec.structs.replace(plan, limits=limits, widened=True)


def sandbox_mode(policy: SandboxPolicy) -> str:
    """The policy's name in options and messages."""
    return str(policy.__struct_config__.tag)


def _policy(wanted: SandboxMode, bound: SandboxPolicy) -> SandboxPolicy:
    """The run's own policy of this name, with its folders and network; else the plain one."""
    if sandbox_mode(bound) == wanted:
        return bound
    return DangerFullAccess() if wanted == "danger-full-access" else WorkspaceWrite()

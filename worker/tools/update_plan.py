"""update_plan: the agent's checklist, shown to people. It changes nothing else."""

from typing import Literal

import msgspec

from swarm.mailbox.protocol.events import PlanCall, PlanStep

RESULT = "Plan updated"


class PlanStepArgument(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    step: str
    status: Literal["pending", "in_progress", "completed"]


class UpdatePlanArguments(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Arguments as the model writes them; unknown keys are an error that the model reads."""

    plan: tuple[PlanStepArgument, ...]
    explanation: str | None = None


def plan_call(arguments: UpdatePlanArguments) -> PlanCall:
    """Return the call's detail, which people see."""
    steps = tuple(PlanStep(step=one.step, status=one.status) for one in arguments.plan)
    return PlanCall(plan=steps, explanation=arguments.explanation)

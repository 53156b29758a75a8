"""update_plan: the agent's checklist, kept for people to see. It changes nothing else."""

from typing import Literal

import msgspec

from swarm.mailbox.protocol.events import PlanCall, PlanStep

RESULT = "Plan updated"


class PlanStepArgument(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    step: str
    status: Literal["pending", "in_progress", "completed"]


class UpdatePlanArguments(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """As the model writes them; unknown keys are an error it reads."""

    plan: tuple[PlanStepArgument, ...]
    explanation: str | None = None


def plan_call(arguments: UpdatePlanArguments) -> PlanCall:
    """The call's detail: what watchers show."""
    steps = tuple(PlanStep(step=one.step, status=one.status) for one in arguments.plan)
    return PlanCall(plan=steps, explanation=arguments.explanation)

"""update_plan: the agent's checklist, shown to people. It changes nothing else."""

from typing import Literal

from msgspec import Struct

from swarm.mailbox.protocol.events import PlanCall, PlanStep
from swarm.mailbox.protocol.items import AnyCall

from .interface.function_tool import DirectInvocation, FunctionTool, decode_arguments
from .interface.tool_interface import Invocation, ToolResult


class PlanStepArgument(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    step: str
    status: Literal["pending", "in_progress", "completed"]


class UpdatePlanArguments(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Arguments as the model writes them; unknown keys are an error that the model reads."""

    plan: tuple[PlanStepArgument, ...]
    explanation: str | None = None


class UpdatePlanTool(FunctionTool):
    """The update_plan tool."""

    name = "update_plan"
    arguments = UpdatePlanArguments

    async def prepare(self, call: AnyCall) -> Invocation:
        arguments = decode_arguments(call, UpdatePlanArguments)
        steps = tuple(PlanStep(step=one.step, status=one.status) for one in arguments.plan)
        return DirectInvocation(PlanCall(plan=steps, explanation=arguments.explanation), _note_plan)


async def _note_plan() -> ToolResult:
    return ToolResult(content="Plan updated")

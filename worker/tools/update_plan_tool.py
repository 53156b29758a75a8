"""The update_plan tool: shows the checklist to people."""

from swarm.mailbox.protocol.events import AnyCallDetail
from swarm.mailbox.protocol.items import AnyCall, FunctionCall
from swarm.mailbox.protocol.sampling import ModelInfo, ToolSpec

from ..policy.command_decision import PolicyDecision, Run
from .call_router import decode_arguments
from .tool_descriptions import description_of
from .tool_interface import ABORTED_CALL, Invocation, OnOutput, Schema, ToolResult, function_spec
from .update_plan import RESULT, UpdatePlanArguments, plan_call

_PROPERTIES: dict[str, Schema] = {
    "explanation": {"type": "string", "description": "Why the plan changed; one sentence."},
    "plan": {
        "type": "array",
        "items": {
            "type": "object",
            "properties": {
                "status": {"type": "string", "enum": ["pending", "in_progress", "completed"]},
                "step": {"type": "string"},
            },
            "required": ["step", "status"],
            "additionalProperties": False,
        },
    },
}


class UpdatePlanTool:
    """The update_plan tool."""

    name = "update_plan"
    parallel = False
    aborted_text = ABORTED_CALL

    def describe(self, model: ModelInfo) -> ToolSpec | None:
        return function_spec(self.name, description_of(self.name), _PROPERTIES, required=("plan",))

    def accepts(self, call: AnyCall) -> bool:
        return isinstance(call, FunctionCall)

    async def prepare(self, call: AnyCall) -> Invocation:
        return _UpdatePlanInvocation(decode_arguments(call, UpdatePlanArguments))


class _UpdatePlanInvocation:
    def __init__(self, arguments: UpdatePlanArguments) -> None:
        self.detail: AnyCallDetail = plan_call(arguments)

    def judge(self) -> PolicyDecision:
        return Run()

    async def run(self, verdict: Run, listen: OnOutput) -> ToolResult:
        return ToolResult(content=RESULT)

"""The door of update_plan: the checklist goes to the people who watch."""

from swarm.mailbox.protocol.events import AnyCallDetail
from swarm.mailbox.protocol.items import AnyCall, FunctionCall
from swarm.mailbox.protocol.sampling import ModelInfo, ToolSpec

from ..policy.decide import Run, Verdict
from .router import decode_arguments
from .spec import ABORTED_CALL, Listen, Outcome, Prepared, Schema, function_spec
from .texts import description_of
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


class UpdatePlan:
    """The tool."""

    name = "update_plan"
    parallel = False
    aborted_text = ABORTED_CALL

    def describe(self, model: ModelInfo) -> ToolSpec | None:
        return function_spec(self.name, description_of(self.name), _PROPERTIES, required=("plan",))

    def accepts(self, call: AnyCall) -> bool:
        return isinstance(call, FunctionCall)

    async def prepare(self, call: AnyCall) -> Prepared:
        return _PlanDeed(decode_arguments(call, UpdatePlanArguments))


class _PlanDeed:
    def __init__(self, arguments: UpdatePlanArguments) -> None:
        self.detail: AnyCallDetail = plan_call(arguments)

    def judge(self) -> Verdict:
        return Run()

    async def run(self, verdict: Run, listen: Listen) -> Outcome:
        return Outcome(content=RESULT)

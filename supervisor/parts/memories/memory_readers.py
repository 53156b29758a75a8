"""Which agents read memories."""

from ...agents.agent_record import AgentPlan
from ...request.run_request import RunRequest


def reads_memories(request: RunRequest, plan: AgentPlan) -> bool:
    """True for the root, and for agents of roles that read memories, if there are any."""
    if not request.parts.memories.text:
        return False
    known = request.roles.known.get(plan.role.name)
    return plan.depth == 0 or (known is not None and known.parts.memories and not plan.slotless)

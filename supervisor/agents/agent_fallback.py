"""What an agent's fallback to another provider changes in its plan. Pure."""

import msgspec

from swarm.mailbox.base.model_reference import ModelReference, split_reference
from swarm.mailbox.protocol.events import ProviderFallback

from .agent_record import AgentPlan


def plan_after_fallback(plan: AgentPlan, taken: ProviderFallback) -> AgentPlan | None:
    """The plan from now on, also for the agent's next process.

    None: the plan stays. The event names no entry of the agent's list, or a person has chosen
    another model meanwhile, which counts from the agent's next turn on.
    """
    asked = plan.model_settings
    if not plan.fallbacks_taken < taken.taken <= len(asked.fallback):
        return None
    entry = split_reference(asked.fallback[taken.taken - 1])
    if entry != ModelReference(provider=taken.provider, model=taken.model):
        return None
    is_other = asked.model not in {None, taken.failed_model}
    if is_other or asked.provider not in {None, taken.failed_provider}:
        return None
    asked = msgspec.structs.replace(asked, provider=entry.provider, model=entry.model)
    return msgspec.structs.replace(plan, model_settings=asked, fallbacks_taken=taken.taken)

"""Responses that are no part of the agent's conversation: answers to hooks, servers, summaries."""

from collections.abc import Callable

from swarm.mailbox.protocol.sampling import SampleCompleted

from .agent_state import AgentState
from .sampler import SampleParameters, SampleStreamEvent


async def sample_beside(
    state: AgentState,
    parameters: SampleParameters,
    on_event: Callable[[SampleStreamEvent], bool],
) -> SampleCompleted | None:
    """Sample once; its tokens count for the agent and for its open turn.

    Returns None if `on_event` ended it. Raises SamplingError.
    """
    completed = await state.sampler.sample(parameters, on_event)
    if completed is not None and completed.usage is not None:
        state.meter.add_side_response(completed.usage)
        if state.turn is not None:
            state.turn.add_usage(completed.usage)
    return completed

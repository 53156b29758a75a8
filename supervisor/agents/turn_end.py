"""What the end of a turn means for an agent's work.

The work ends with its turn, unless another input was sent meanwhile (its turn follows). In a run
that is ending, the work ends even then: what was not read waits for the resume.
"""

from swarm.mailbox.protocol.events import TurnAborted, TurnFailed

from .agent_manager import AgentManager
from .end_states import TurnEnd, end_state_of
from .live_agent import LiveAgent


def on_turn_end(control: AgentManager, agent: LiveAgent, end: TurnEnd) -> None:
    """Called once the turn's end is written. An input not taken up yet starts another turn."""
    agent.turn_ends_pending -= 1
    state, message = end_state_of(end)
    if agent.pending_inputs and not isinstance(end, TurnFailed):
        if not control.run_end.has_begun:
            return
        state, message = "interrupted", "the run ended before it had read all that it was told"
    agent.last_turn_end = end
    if isinstance(end, TurnAborted) and agent.wanted_end == "killed":
        state, message = "killed", "it was killed"
    control.end_work(agent, state, message, end.usage)
    # Mail has started another turn while this end was being written.
    if agent.turn is not None or agent.turn_ends_pending:
        control.continue_work(agent)

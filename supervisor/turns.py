"""What the end of a turn means for an agent's work: the one table of end states.

A turn's end is the end of the work, unless another input was posted meanwhile (its turn follows).
"""

from swarm.mailbox.protocol.events import TurnAborted, TurnCompleted, TurnFailed
from swarm.mailbox.protocol.records import EndState

from .agents import LiveAgent
from .control import Control

TurnEnd = TurnCompleted | TurnFailed | TurnAborted


def end_state_of(end: TurnEnd) -> tuple[EndState, str]:
    """The end state and the message: the result, or why there is none."""
    match end:
        case TurnCompleted(out_of_budget=True):
            return "budget", end.last_message or "the budget was used up"
        case TurnCompleted(refused=True):
            return "refused", end.last_message or "it needed an approval that nobody could give"
        case TurnCompleted(truncated=True):
            return "truncated", end.last_message or ""
        case TurnCompleted():
            return "completed", end.last_message or ""
        case TurnFailed(kind="refused_budget"):
            return "budget", end.message
        case TurnFailed():
            return "failed", end.message
        case TurnAborted(reason="budget"):
            return "budget", "the budget was used up"
        case TurnAborted(reason="deadline"):
            return "deadline", "the deadline was reached"
        case TurnAborted():
            return "interrupted", "it was interrupted"


def on_turn_end(control: Control, agent: LiveAgent, end: TurnEnd) -> None:
    """Called once the turn's end is written. An input not taken up yet has a turn to come."""
    agent.ending -= 1
    if agent.untaken and not isinstance(end, TurnFailed):
        return
    agent.last_turn_end = end
    state, message = end_state_of(end)
    if isinstance(end, TurnAborted) and agent.wanted_end == "killed":
        state, message = "killed", "it was killed"
    control.conclude(agent, state, message, end.usage)
    if agent.turn is not None or agent.ending:  # a letter began it while this end was being written
        control.go_on(agent)

"""End states: what a turn's end makes of an agent's work, and what a resume does with it. No I/O.

Work that did not end well continues when its run is resumed, whatever ended it: a signal, a
provider, a limit, a crash. Work that was cut off is never called completed.
"""

from swarm.mailbox.protocol.events import TurnAborted, TurnCompleted, TurnEnd, TurnFailed
from swarm.mailbox.protocol.records import AgentEnded, EndState
from swarm.mailbox.protocol.values.base import Value

from ..journal.replay import AgentMemory, AgentPast

STOPPED_NOTE = (
    "The run was stopped at this point and has now been resumed. Commands that were running have "
    "ended; a call that was cut off may have done a part of its work, so look before you repeat "
    "it. Go on with the task where you left off."
)
LIMIT_RAISED_NOTE = (
    "The bound that ended your work before has been raised. Earlier notes about the budget or the "
    "deadline being reached no longer hold; your tools are available again. Go on with the task "
    "where you left off."
)
REFUSED_NOTE = (
    "The run has been resumed. An approval that nobody could give before may be given now: ask for "
    "it again if you still need it. Go on with the task where you left off."
)
GOOD_ENDS: frozenset[EndState] = frozenset({"completed", "truncated"})
# End state → what the model is told when its work continues. "": nothing, the same request is sent
# again. States that are not here ended well.
_CONTINUE_NOTES: dict[EndState, str] = {
    "interrupted": STOPPED_NOTE,
    "killed": STOPPED_NOTE,
    "budget": LIMIT_RAISED_NOTE,
    "deadline": LIMIT_RAISED_NOTE,
    "refused": REFUSED_NOTE,
    "failed": "",
    "crashed": "",
}


class ContinueWork(Value):
    """Its work continues; `note`, unless empty, is told to its model first."""

    note: str = ""


class WorkEnded(Value):
    """Nothing is left to do; it had ended like this before."""

    state: EndState
    message: str


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
        case TurnAborted(reason="run_ended"):
            return "interrupted", "the run ended first"
        case TurnAborted():
            return "interrupted", "it was interrupted"


def last_end_state(past: AgentPast | None, memory: AgentMemory) -> tuple[EndState, str]:
    """The last end state of an agent's work: the newer of the run's record and the agent's file.

    The agent's own file may have a turn's end whose record was lost with the supervisor, or a
    rollback.
    """
    ended: AgentEnded | None = None if past is None else past.ended
    if past is not None and ended is not None and past.ended_seq > memory.last_end_seq:
        return ended.state, ended.message
    if memory.last_end is None:
        return "completed", memory.last_message or ""
    return end_state_of(memory.last_end)


def decide_resume(past: AgentPast | None, memory: AgentMemory) -> ContinueWork | WorkEnded:
    """What a resume without a new input does with an agent that has no open turn."""
    state, message = last_end_state(past, memory)
    if state in _CONTINUE_NOTES:
        return ContinueWork(note=_CONTINUE_NOTES[state])
    return WorkEnded(state=state, message=message)


def continue_note(state: EndState) -> str:
    """What the model is told when its agent continues after this end; "" for nothing."""
    return _CONTINUE_NOTES.get(state, "")

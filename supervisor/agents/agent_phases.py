"""The phases of an agent and the one table of their transitions. Pure.

Every other file sends an event to `AgentDirectory.apply` and reads the phase. The table is total.
An event that means nothing in a phase (a message that was on its way when its process ended, a
second request for a process) leaves the phase as it is. Source of the form: h11.
"""

from enum import Enum
from typing import NamedTuple


class Phase(Enum):
    """What an agent does, and whether it has a process."""

    NEW = "no process and no work yet"
    IDLE = "a process that was never given work"
    QUEUED = "its work waits for a slot and a process"
    HANDOVER = "its work waits for the end of its present process"
    STARTING = "its process has not taken up its work yet"
    RUNNING = "it works; its process may just be restarted"
    SUSPENDING = "its process is being ended during a turn"
    SUSPENDED = "its turn waits without a process"
    RESTING = "its work has ended, its process stays"
    ENDED = "its work has ended, and it has no process"
    CLOSING = "ended for good: its process is being killed while it works"
    RETIRING = "ended for good: its process is being killed after its work"
    CLOSED = "ended for good, without a process"

    @property
    def status(self) -> str:
        """What is shown of it; "" for the end state of its work."""
        return _STATUS.get(self, "")

    @property
    def is_active(self) -> bool:
        """It works, or is about to."""
        return self in _ACTIVE

    @property
    def has_process(self) -> bool:
        """It has a process, or is between two of them because it is being restarted."""
        return self in _WITH_PROCESS

    @property
    def is_closed(self) -> bool:
        """It was ended for good, and never works again."""
        return self in _CLOSED


class AgentEvent(Enum):
    """What happens to an agent."""

    PROCESS_REQUESTED = "its work needs a process"
    PROCESS_STARTED = "a process has started, the first one or a further one"
    WAKING_MAIL = "mail came that starts a turn"
    INPUT_SENT = "an input was sent to its process"
    TURN_STARTED = "its process has begun a turn"
    WORK_ENDED = "its work reached an end state"
    SUSPENDED = "its process is ended during a turn, which another process continues"
    PROCESS_ENDED = "its process has ended; it may be restarted"
    PROCESS_GONE = "its process has ended, and no other follows unless somebody requests it"
    CLOSED = "it is ended for good"


class Effect(Enum):
    """What whoever sent the event has to do."""

    START_PROCESS = "start a process as soon as there is a slot"
    END_PROCESS = "kill its process"
    CANCEL_START = "stop waiting for its first process"
    RECORD_END = "journal its end: no process of it will"
    REPORT_END = "report its end to its parent"


class Transition(NamedTuple):
    """The next phase, and what to do."""

    phase: Phase
    effects: frozenset[Effect] = frozenset()


_P, _E = Phase, AgentEvent
_STATUS = {
    _P.NEW: "idle",
    _P.IDLE: "idle",
    _P.QUEUED: "queued",
    _P.HANDOVER: "queued",
    _P.STARTING: "starting",
    _P.RUNNING: "running",
    _P.SUSPENDING: "running",
    _P.SUSPENDED: "running",
    _P.CLOSING: "running",
}
_ACTIVE = frozenset(_STATUS) - {_P.NEW, _P.IDLE}
_CLOSED = frozenset({_P.CLOSING, _P.RETIRING, _P.CLOSED})
_WITH_PROCESS = frozenset(_P) - {_P.NEW, _P.QUEUED, _P.SUSPENDED, _P.ENDED, _P.CLOSED}

# Parts of rows.
_NO_PROCESS = {_E.PROCESS_REQUESTED: _P.QUEUED, _E.WORK_ENDED: _P.ENDED, _E.CLOSED: _P.CLOSED}
_PROCESS = {
    _E.PROCESS_REQUESTED: _P.HANDOVER,
    _E.INPUT_SENT: _P.RUNNING,
    _E.TURN_STARTED: _P.RUNNING,
    _E.WORK_ENDED: _P.RESTING,
    _E.PROCESS_GONE: _P.ENDED,
}
_AT_WORK = {**_PROCESS, _E.CLOSED: _P.CLOSING}
_AT_REST = {**_PROCESS, _E.WAKING_MAIL: _P.RUNNING, _E.CLOSED: _P.RETIRING}

# Phase → event → next phase. An event that is not in a row leaves the phase as it is.
_ROWS: dict[Phase, dict[AgentEvent, Phase]] = {
    _P.NEW: {**_NO_PROCESS, _E.WAKING_MAIL: _P.QUEUED, _E.PROCESS_STARTED: _P.IDLE},
    _P.IDLE: _AT_REST,
    _P.QUEUED: {**_NO_PROCESS, _E.PROCESS_STARTED: _P.STARTING},
    _P.HANDOVER: {**_AT_WORK, _E.PROCESS_STARTED: _P.STARTING, _E.PROCESS_GONE: _P.QUEUED},
    _P.STARTING: _AT_WORK,
    _P.RUNNING: {**_AT_WORK, _E.SUSPENDED: _P.SUSPENDING},
    _P.SUSPENDING: {
        _E.PROCESS_REQUESTED: _P.HANDOVER,
        _E.PROCESS_GONE: _P.SUSPENDED,
        _E.WORK_ENDED: _P.ENDED,
        _E.CLOSED: _P.CLOSING,
    },
    _P.SUSPENDED: {**_NO_PROCESS, _E.PROCESS_STARTED: _P.RUNNING},
    _P.RESTING: _AT_REST,
    _P.ENDED: {**_NO_PROCESS, _E.WAKING_MAIL: _P.QUEUED, _E.PROCESS_STARTED: _P.RESTING},
    _P.CLOSING: {_E.WORK_ENDED: _P.RETIRING, _E.PROCESS_GONE: _P.CLOSED},
    _P.RETIRING: {_E.PROCESS_GONE: _P.CLOSED},
    _P.CLOSED: {_E.PROCESS_STARTED: _P.RETIRING},  # a start that could not be stopped any more
}


def _effects(phase: Phase, event: AgentEvent) -> frozenset[Effect]:
    """`phase` is the one before the event."""
    match event:
        case AgentEvent.CLOSED if phase.has_process:
            return frozenset({Effect.END_PROCESS})
        case AgentEvent.CLOSED if phase.is_active:
            return frozenset({Effect.CANCEL_START, Effect.RECORD_END})
        case AgentEvent.PROCESS_STARTED if phase.is_closed:
            return frozenset({Effect.END_PROCESS})
        case AgentEvent.PROCESS_REQUESTED if not phase.is_closed:
            return frozenset({Effect.START_PROCESS})
        case AgentEvent.WORK_ENDED if not phase.is_closed:
            return frozenset({Effect.REPORT_END})
        case _:
            return frozenset()


TRANSITIONS: dict[tuple[Phase, AgentEvent], Transition] = {
    (phase, event): Transition(row.get(event, phase), _effects(phase, event))
    for phase, row in _ROWS.items()
    for event in AgentEvent
}

"""The phases of a run and how it is asked to stop: the two tables. Pure.

What a run does (`RunPhase`) and how urgently its end was wanted (`Urgency`) are two things: a
second Ctrl-C changes what the third one does, not what the run does. Both tables are total. An
event that is not in a row leaves all as it is; one that a row refuses (None) cannot happen there,
so who sends it has to look first. The owner is `RunLife`: every other file sends it events and
reads.
"""

from enum import Enum


class RunPhase(Enum):
    """What the run does."""

    WORKING = "agents work, or something will give them work"
    PAUSING = "a person interrupted the root by itself: with its turn the run begins to wait"
    IDLE = "no agent works; the run waits for input"
    FINISHING = "it ends with its last answer as soon as its work is done"
    DRAINING = "it ends: nothing begins that waits, and what still works is cut off"
    CLOSING = "its work is over: its processes are being ended, and no agent starts"

    @property
    def is_ending(self) -> bool:
        """No other work begins."""
        return self in _ENDING


class RunEvent(Enum):
    """What happens to a run."""

    ROOT_INTERRUPTED = "a person interrupts the root by itself"
    IDLE_BEGAN = "all work has ended, and the run is one that stays"
    IDLE_ENDED = "there is input, or the wait is over"
    FINISH_WANTED = "a person wants it to end once its work is done"
    END_BEGAN = "it was stopped or interrupted as a whole, lost its root, or its work is over"
    CLOSED = "its agents are being ended"


_P, _E = RunPhase, RunEvent
_ENDING = frozenset({_P.DRAINING, _P.CLOSING})

# Phase → event → next phase; None: refused.
_Row = dict[RunEvent, RunPhase | None]
_ENDS: _Row = {_E.END_BEGAN: _P.DRAINING, _E.CLOSED: _P.CLOSING}
_LIVES: _Row = {**_ENDS, _E.FINISH_WANTED: _P.FINISHING}
_ROWS: dict[RunPhase, _Row] = {
    _P.WORKING: {
        **_LIVES,
        _E.ROOT_INTERRUPTED: _P.PAUSING,
        _E.IDLE_BEGAN: _P.IDLE,
        _E.IDLE_ENDED: None,
    },
    _P.PAUSING: {**_LIVES, _E.IDLE_BEGAN: _P.IDLE, _E.IDLE_ENDED: None},
    _P.IDLE: {**_LIVES, _E.IDLE_BEGAN: None, _E.IDLE_ENDED: _P.WORKING},
    _P.FINISHING: {**_ENDS, _E.IDLE_BEGAN: None},
    _P.DRAINING: {_E.IDLE_BEGAN: None, _E.CLOSED: _P.CLOSING},
    _P.CLOSING: {_E.IDLE_BEGAN: None},
}
PHASES: dict[tuple[RunPhase, RunEvent], RunPhase | None] = {
    (phase, event): row.get(event, phase) for phase, row in _ROWS.items() for event in RunEvent
}


class Urgency(Enum):
    """How the end was wanted so far."""

    NONE = "nobody asked for it"
    INTERRUPTED = "by Ctrl-C: with the turns that were interrupted"
    STOPPED = "in order, at once"
    PRESSED = "in order, at once, with a Ctrl-C before it or after it: the next one kills"
    KILLED = "without a grace period"

    @property
    def is_stop(self) -> bool:
        """Agents and gateway end now."""
        return self in _STOPS

    @property
    def after_ctrl_c(self) -> bool:
        return self in _AFTER_CTRL_C


class StopRequest(Enum):
    """What is asked."""

    INTERRUPT = "end with the turns that are interrupted now"
    STOP = "end in order, at once"
    KILL = "no grace period"


_U, _R = Urgency, StopRequest
_STOPS = frozenset({_U.STOPPED, _U.PRESSED, _U.KILLED})
_AFTER_CTRL_C = frozenset({_U.INTERRUPTED, _U.PRESSED, _U.KILLED})
_URGED: dict[Urgency, dict[StopRequest, Urgency | None]] = {
    _U.NONE: {_R.INTERRUPT: _U.INTERRUPTED, _R.STOP: _U.STOPPED, _R.KILL: None},
    _U.INTERRUPTED: {_R.STOP: _U.PRESSED, _R.KILL: None},
    _U.STOPPED: {_R.INTERRUPT: _U.PRESSED, _R.KILL: _U.KILLED},
    _U.PRESSED: {_R.KILL: _U.KILLED},
    _U.KILLED: {},
}
URGENCIES: dict[tuple[Urgency, StopRequest], Urgency | None] = {
    (urgency, request): row.get(request, urgency)
    for urgency, row in _URGED.items()
    for request in StopRequest
}


class CtrlC(Enum):
    """What one Ctrl-C does."""

    INTERRUPT_TURNS = "all turns end, the run stays"
    INTERRUPT_RUN = "all turns end, and the run with them"
    STOP = "the run ends in order"
    KILL = "the run ends without a grace period"


def decide_ctrl_c(
    phase: RunPhase, urgency: Urgency, *, stays: bool, turns_are_ending: bool
) -> CtrlC:
    """What this Ctrl-C does.

    Args:
        phase: While the run waits for input there is no turn to interrupt.
        urgency: What was asked before.
        stays: The run is kept open, and its root has begun.
        turns_are_ending: An interrupt of all turns is still in progress.
    """
    if phase is RunPhase.IDLE:
        return CtrlC.STOP
    if stays and not phase.is_ending and not turns_are_ending:
        return CtrlC.INTERRUPT_TURNS
    if not urgency.after_ctrl_c and not turns_are_ending:
        return CtrlC.INTERRUPT_RUN
    return CtrlC.KILL if urgency.is_stop else CtrlC.STOP

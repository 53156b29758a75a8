"""The two tables of a run: what it does after each event, and what requests to stop lead to."""

import pytest

from swarm.supervisor.context.run_life import RunLife
from swarm.supervisor.context.run_phases import (
    PHASES,
    URGENCIES,
    CtrlC,
    RunEvent,
    RunPhase,
    StopRequest,
    Urgency,
    decide_ctrl_c,
)

P, E, U, R = RunPhase, RunEvent, Urgency, StopRequest


def test_the_tables_are_total():
    assert set(PHASES) == {(phase, event) for phase in P for event in E}
    assert set(URGENCIES) == {(urgency, request) for urgency in U for request in R}


@pytest.mark.parametrize(
    ("events", "phase"),
    [
        ((), P.WORKING),
        ((E.IDLE_BEGAN,), P.IDLE),
        ((E.IDLE_BEGAN, E.IDLE_ENDED), P.WORKING),
        ((E.ROOT_INTERRUPTED,), P.PAUSING),
        ((E.ROOT_INTERRUPTED, E.IDLE_BEGAN, E.IDLE_ENDED), P.WORKING),
        ((E.FINISH_WANTED,), P.FINISHING),
        ((E.FINISH_WANTED, E.ROOT_INTERRUPTED), P.FINISHING),
        ((E.IDLE_BEGAN, E.FINISH_WANTED, E.IDLE_ENDED), P.FINISHING),
        ((E.IDLE_BEGAN, E.END_BEGAN, E.IDLE_ENDED), P.DRAINING),
        ((E.END_BEGAN, E.FINISH_WANTED, E.ROOT_INTERRUPTED), P.DRAINING),
        ((E.END_BEGAN, E.CLOSED, E.END_BEGAN), P.CLOSING),
        ((E.CLOSED,), P.CLOSING),
    ],
)
def test_what_happens_to_a_run_leads_to_its_phase(events, phase):
    life = RunLife()
    assert all(life.apply(event) for event in events)
    assert life.phase is phase


def test_a_run_waits_for_input_only_out_of_work_and_ends_a_wait_that_began():
    refused = {pair for pair, phase in PHASES.items() if phase is None}
    assert refused == {
        (P.IDLE, E.IDLE_BEGAN),
        (P.FINISHING, E.IDLE_BEGAN),
        (P.DRAINING, E.IDLE_BEGAN),
        (P.CLOSING, E.IDLE_BEGAN),
        (P.WORKING, E.IDLE_ENDED),
        (P.PAUSING, E.IDLE_ENDED),
    }
    life = RunLife()
    life.apply(E.FINISH_WANTED)
    assert not life.apply(E.IDLE_BEGAN)
    assert life.phase is P.FINISHING


def test_no_run_comes_back_from_its_end():
    for (phase, _), after in PHASES.items():
        if after is not None:
            assert after.is_ending or not phase.is_ending
            assert after is P.CLOSING or phase is not P.CLOSING
    for (urgency, _), later in URGENCIES.items():
        if later is not None:
            assert later.is_stop or not urgency.is_stop
            assert later is U.KILLED or urgency is not U.KILLED


def test_nobody_is_killed_before_the_run_was_to_end_in_order():
    refused = {pair for pair, urgency in URGENCIES.items() if urgency is None}
    assert refused == {(U.NONE, R.KILL), (U.INTERRUPTED, R.KILL)}


@pytest.mark.parametrize(
    ("phase", "urgency", "stays", "turns_are_ending", "wanted"),
    [
        (P.IDLE, U.NONE, True, False, CtrlC.STOP),
        (P.IDLE, U.NONE, True, True, CtrlC.STOP),
        (P.WORKING, U.NONE, True, False, CtrlC.INTERRUPT_TURNS),
        (P.WORKING, U.NONE, True, True, CtrlC.STOP),
        (P.FINISHING, U.NONE, True, False, CtrlC.INTERRUPT_TURNS),
        (P.WORKING, U.NONE, False, False, CtrlC.INTERRUPT_RUN),
        (P.DRAINING, U.NONE, False, False, CtrlC.INTERRUPT_RUN),
        (P.DRAINING, U.INTERRUPTED, False, False, CtrlC.STOP),
        (P.DRAINING, U.STOPPED, False, False, CtrlC.INTERRUPT_RUN),
        (P.DRAINING, U.STOPPED, True, True, CtrlC.KILL),
        (P.DRAINING, U.PRESSED, False, False, CtrlC.KILL),
        (P.CLOSING, U.NONE, True, False, CtrlC.INTERRUPT_RUN),
    ],
)
def test_what_a_ctrl_c_does(phase, urgency, stays, turns_are_ending, wanted):
    found = decide_ctrl_c(phase, urgency, stays=stays, turns_are_ending=turns_are_ending)
    assert found is wanted


async def test_the_first_reason_of_a_stop_stays():
    life = RunLife()
    life.ask(R.STOP, "deadline")
    life.ask(R.STOP, "terminated")
    assert (life.status, life.phase, life.stop.is_set()) == ("deadline", P.DRAINING, True)
    assert not life.skip_grace.is_set()
    assert life.ask(R.KILL)
    assert life.skip_grace.is_set()

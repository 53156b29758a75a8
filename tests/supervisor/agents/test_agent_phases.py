"""The table of an agent's phases is total, and nothing leads out of it."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swarm.supervisor.agents.agent_phases import TRANSITIONS, AgentEvent, Effect, Phase, Transition

P, E = Phase, AgentEvent
EVENTS = st.lists(st.sampled_from(AgentEvent), max_size=30)

TABLE = [
    # A first process, its work, its end, further work.
    (P.QUEUED, E.PROCESS_STARTED, P.STARTING, ()),
    (P.STARTING, E.TURN_STARTED, P.RUNNING, ()),
    (P.RUNNING, E.WORK_ENDED, P.RESTING, (Effect.REPORT_END,)),
    (P.RESTING, E.PROCESS_GONE, P.ENDED, ()),
    (P.ENDED, E.PROCESS_REQUESTED, P.QUEUED, (Effect.START_PROCESS,)),
    # The root and an item of a fan-out start without work.
    (P.NEW, E.PROCESS_STARTED, P.IDLE, ()),
    (P.IDLE, E.INPUT_SENT, P.RUNNING, ()),
    # Mail that starts a turn.
    (P.NEW, E.WAKING_MAIL, P.QUEUED, ()),
    (P.ENDED, E.WAKING_MAIL, P.QUEUED, ()),
    (P.RESTING, E.WAKING_MAIL, P.RUNNING, ()),
    (P.STARTING, E.WAKING_MAIL, P.STARTING, ()),
    # A restart changes nothing.
    (P.RUNNING, E.PROCESS_ENDED, P.RUNNING, ()),
    (P.RUNNING, E.PROCESS_STARTED, P.RUNNING, ()),
    (P.RESTING, E.PROCESS_STARTED, P.RESTING, ()),
    # A turn that waits without a process.
    (P.RUNNING, E.SUSPENDED, P.SUSPENDING, ()),
    (P.SUSPENDING, E.PROCESS_GONE, P.SUSPENDED, ()),
    (P.SUSPENDED, E.PROCESS_REQUESTED, P.QUEUED, (Effect.START_PROCESS,)),
    (P.SUSPENDING, E.PROCESS_REQUESTED, P.HANDOVER, (Effect.START_PROCESS,)),
    (P.HANDOVER, E.PROCESS_GONE, P.QUEUED, ()),
    (P.SUSPENDED, E.WORK_ENDED, P.ENDED, (Effect.REPORT_END,)),
    # An end for good.
    (P.RUNNING, E.CLOSED, P.CLOSING, (Effect.END_PROCESS,)),
    (P.CLOSING, E.WORK_ENDED, P.RETIRING, ()),
    (P.RETIRING, E.PROCESS_GONE, P.CLOSED, ()),
    (P.RESTING, E.CLOSED, P.RETIRING, (Effect.END_PROCESS,)),
    (P.QUEUED, E.CLOSED, P.CLOSED, (Effect.CANCEL_START, Effect.RECORD_END)),
    (P.SUSPENDED, E.CLOSED, P.CLOSED, (Effect.CANCEL_START, Effect.RECORD_END)),
    (P.ENDED, E.CLOSED, P.CLOSED, ()),
    (P.CLOSED, E.PROCESS_REQUESTED, P.CLOSED, ()),
    (P.CLOSED, E.PROCESS_STARTED, P.RETIRING, (Effect.END_PROCESS,)),
]


@pytest.mark.parametrize(("phase", "event", "after", "effects"), TABLE)
def test_an_event_leads_to_the_next_phase_and_its_effects(phase, event, after, effects):
    assert TRANSITIONS[phase, event] == Transition(after, frozenset(effects))


def test_the_table_knows_every_event_in_every_phase():
    assert set(TRANSITIONS) == {(phase, event) for phase in Phase for event in AgentEvent}


def walk(events: list[AgentEvent]) -> list[Phase]:
    phases = [Phase.NEW]
    for event in events:
        phases.append(TRANSITIONS[phases[-1], event].phase)
    return phases


@given(EVENTS)
def test_an_agent_that_was_ended_for_good_never_works_again(events):
    phases = walk(events)
    for before, after in pairwise(phases):
        assert after.is_closed or not before.is_closed
    closed = [phase for phase in phases if phase.is_closed]
    ended = closed.index(P.CLOSED) if P.CLOSED in closed else len(closed)
    assert not any(phase.is_active for phase in closed[ended:])


@given(EVENTS)
def test_only_events_of_its_process_give_it_one_or_take_it_away(events):
    phases = walk(events)
    for before, event, after in zip(phases, events, phases[1:], strict=False):
        if before.has_process != after.has_process:
            is_aborted = (before, event) == (P.SUSPENDING, E.WORK_ENDED)
            assert is_aborted or event in {E.PROCESS_STARTED, E.PROCESS_GONE}


@given(EVENTS)
def test_after_the_end_of_its_work_it_is_not_active_until_there_is_new_work(events):
    after = walk([*events, E.WORK_ENDED])[-1]
    assert not after.is_active
    for event in (E.PROCESS_STARTED, E.PROCESS_ENDED, E.PROCESS_GONE, E.SUSPENDED, E.CLOSED):
        assert not TRANSITIONS[after, event].phase.is_active


@given(EVENTS)
def test_it_can_always_be_ended_for_good(events):
    phases = walk([*events, E.CLOSED, E.WORK_ENDED, E.PROCESS_GONE])
    assert phases[-1] is P.CLOSED

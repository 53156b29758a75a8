"""Slots for commands: whose call waits keeps his, the line keeps its order, and it has an end."""

import msgspec
import pytest
import trio
import trio.testing
from hypothesis import given
from hypothesis import strategies as st

from swarm.worker.exec.exec_outcome import (
    PROTECTED_RECENT,
    SessionQueueFull,
    closed_text,
    waited_text,
)
from swarm.worker.exec.exec_session import MAX_QUEUED_CALLS, SessionSlots, choose_session_to_close


class One(msgspec.Struct, frozen=True):
    last_used: int
    awaited: int = 0
    has_ended: bool = False


SESSIONS = st.lists(st.tuples(st.integers(0, 2), st.booleans()), max_size=70).map(
    lambda rows: [One(number, *row) for number, row in enumerate(rows)]
)


@given(SESSIONS, st.randoms())
def test_only_what_nobody_awaits_is_closed_and_the_last_used_are_spared(sessions, chance):
    shuffled = sessions.copy()
    chance.shuffle(shuffled)
    chosen = choose_session_to_close(shuffled)
    spare = [one for one in sessions[:-PROTECTED_RECENT] if not one.awaited]
    if chosen is None:
        assert not spare
        return
    assert chosen in spare
    ended = [one for one in spare if one.has_ended]
    assert chosen == (ended or spare)[0]


async def test_slots_are_handed_out_in_the_order_of_asking():
    slots, order = SessionSlots(lambda: False, most=2), []

    async def ask(name):
        await slots.acquire()
        order.append(name)

    async with trio.open_nursery() as nursery:
        for name in "abcd":
            nursery.start_soon(ask, name)
            await trio.testing.wait_all_tasks_blocked()
        assert order == ["a", "b"]
        slots.release()
        await trio.testing.wait_all_tasks_blocked()
        assert order == ["a", "b", "c"]
        slots.release()
    assert order == ["a", "b", "c", "d"]


async def test_who_leaves_the_line_takes_no_slot_along():
    slots = SessionSlots(lambda: False, most=1)
    await slots.acquire()
    scopes = [trio.CancelScope() for _ in range(2)]

    async def ask(scope):
        with scope:
            await slots.acquire()

    async with trio.open_nursery() as nursery:
        for scope in scopes:
            nursery.start_soon(ask, scope)
        await trio.testing.wait_all_tasks_blocked()
        scopes[0].cancel()
        await trio.testing.wait_all_tasks_blocked()
        scopes[1].cancel()
        slots.release()  # to the second, who leaves in the same moment
    with trio.fail_after(1):
        assert await slots.acquire() == 0


async def test_a_session_that_is_awaited_no_more_makes_room_for_the_next_in_line():
    spare = []
    slots = SessionSlots(lambda: bool(spare) and spare.pop(), most=1)
    await slots.acquire()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(slots.acquire)
        await trio.testing.wait_all_tasks_blocked()
        spare.append(True)
        slots.wake_waiting()
    assert spare == []


async def test_a_line_that_is_too_long_refuses_and_says_so():
    slots = SessionSlots(lambda: False, most=1)
    await slots.acquire()
    async with trio.open_nursery() as nursery:
        for _ in range(MAX_QUEUED_CALLS):
            nursery.start_soon(slots.acquire)
        await trio.testing.wait_all_tasks_blocked()
        with pytest.raises(
            SessionQueueFull, match=f"{MAX_QUEUED_CALLS} more wait .* nothing was started"
        ):
            await slots.acquire()
        nursery.cancel_scope.cancel()


def test_the_model_reads_what_waited_and_what_was_closed():
    assert waited_text(0.0) == closed_text([]) == ""
    assert "began 2.5 s late" in waited_text(2.5)
    assert "session 1001, 1002" in closed_text([1001, 1002])

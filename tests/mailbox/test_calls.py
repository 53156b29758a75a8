"""Every request ends: with its reply, its deadline or the loss of the other side."""

import pytest
import trio
import trio.testing

from swarm.mailbox.calls import Calls, CallTimedOut
from swarm.mailbox.errors import PeerGone


async def test_replies_find_their_requests_in_any_order():
    calls = Calls[str]()
    first, second = calls.begin(), calls.begin()
    assert calls.resolve(second, "two")
    assert calls.resolve(first, "one")
    assert await calls.wait(first, timeout_s=1) == "one"
    assert await calls.wait(second, timeout_s=1) == "two"
    assert len(calls) == 0


async def test_a_reply_that_comes_twice_late_or_unasked_is_ignored(autojump_clock):
    calls = Calls[None]()
    request = calls.begin()
    assert [calls.resolve(request, None), calls.resolve(request, None)] == [True, False]
    await calls.wait(request, timeout_s=1)
    assert not calls.resolve(request, None)
    assert not calls.resolve(77, None)


async def test_a_request_without_reply_ends_at_its_deadline(autojump_clock):
    calls = Calls[str]()
    started = trio.current_time()
    with pytest.raises(CallTimedOut, match="request 1 had no reply after 30 s"):
        await calls.wait(calls.begin(), timeout_s=30)
    assert trio.current_time() - started == 30
    assert len(calls) == 0


async def test_a_cancelled_or_abandoned_request_is_closed():
    calls = Calls[str]()
    with trio.move_on_after(0):
        await calls.wait(calls.begin(), timeout_s=5)
    calls.abandon(calls.begin())
    assert len(calls) == 0


async def test_the_loss_of_the_other_side_ends_all_open_requests():
    calls = Calls[str]()
    answered, waiting = calls.begin(), calls.begin()
    calls.resolve(answered, "in time")

    async def lose():
        await trio.testing.wait_all_tasks_blocked()
        calls.fail_all(PeerGone(b"gateway"))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(lose)
        with pytest.raises(PeerGone):
            await calls.wait(waiting, timeout_s=60)
    assert await calls.wait(answered, timeout_s=1) == "in time"

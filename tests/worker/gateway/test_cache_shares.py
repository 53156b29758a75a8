"""The cache of the embedded model is shared by requests that fit into it together."""

import trio
import trio.testing
from hypothesis import given
from hypothesis import strategies as st

from swarm.worker.gateway.cache_shares import CacheShares


async def use(shares, tokens, seconds, log, name):
    async with shares.share(tokens):
        log.append((name, trio.current_time()))
        await trio.sleep(seconds)


async def begin_all(shares, wanted):
    log = []
    began = trio.current_time()
    async with trio.open_nursery() as nursery:
        for name, tokens, seconds in wanted:
            nursery.start_soon(use, shares, tokens, seconds, log, name)
            await trio.testing.wait_all_tasks_blocked()
    return {name: at - began for name, at in log}


async def test_short_conversations_are_answered_side_by_side_and_long_ones_alone(autojump_clock):
    wanted = [("a", 400, 10), ("b", 500, 10), ("c", 1000, 10), ("d", 100, 10)]
    assert await begin_all(CacheShares(1000, 2), wanted) == {"a": 0, "b": 0, "c": 10, "d": 20}


async def test_no_more_than_the_bound_are_answered_at_once(autojump_clock):
    wanted = [(name, 1, 5) for name in "abc"]
    assert await begin_all(CacheShares(1000, 2), wanted) == {"a": 0, "b": 0, "c": 5}


async def test_one_that_is_cancelled_while_it_waits_or_works_frees_its_share(autojump_clock):
    shares = CacheShares(100, 2)
    with trio.move_on_after(1):
        async with shares.share(100):
            with trio.move_on_after(0.5):
                async with shares.share(100):
                    raise AssertionError("there is no room")
            await trio.sleep_forever()
    assert shares.holders == 0
    with trio.fail_after(1):
        async with shares.share(100):
            assert shares.holders == 1


@given(st.lists(st.tuples(st.integers(0, 5000), st.integers(0, 9)), max_size=12))
def test_together_they_never_take_more_than_there_is(wanted):
    async def play():
        shares, held = CacheShares(1000, 3), []

        async def hold(tokens, seconds):
            async with shares.share(tokens):
                held.append(min(tokens, 1000))
                assert sum(held) <= 1000
                assert len(held) <= 3
                await trio.sleep(seconds)
                held.remove(min(tokens, 1000))

        async with trio.open_nursery() as nursery:
            for tokens, seconds in wanted:
                nursery.start_soon(hold, tokens, seconds)

    trio.run(play, clock=trio.testing.MockClock(autojump_threshold=0))


def test_an_estimate_that_was_too_low_makes_the_next_ones_careful():
    shares = CacheShares(10_000, 2)
    assert shares.need_tokens(3000, 500) == 1501
    shares.note_overflow()
    assert shares.need_tokens(3000, 500) == 3501
    assert shares.need_tokens(1 << 30, 500) == 10_000

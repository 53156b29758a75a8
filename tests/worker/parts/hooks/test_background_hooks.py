"""Hooks in the background: none is waited for, and their number is bounded."""

from functools import partial

import trio

from swarm.worker.parts.hooks.background_hooks import BackgroundHooks


async def test_jobs_run_side_by_side_and_the_wait_ends_with_the_last(autojump_clock):
    background, ended = BackgroundHooks(), list[int]()

    async def job(number):
        await trio.sleep(number)
        ended.append(number)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(background.run)
        started = trio.current_time()
        for number in (3, 1, 2):
            assert background.start(partial(job, number))
        await background.wait_idle()
        assert (ended, trio.current_time() - started) == ([1, 2, 3], 3)
        nursery.cancel_scope.cancel()


async def test_too_many_are_refused_and_never_waited_for(autojump_clock):
    background = BackgroundHooks()
    assert all(background.start(trio.sleep_forever) for _ in range(64))
    assert not background.start(trio.sleep_forever)

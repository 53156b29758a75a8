"""Shared places run together, others alone, and nobody overtakes."""

import trio
from trio.testing import wait_all_tasks_blocked

from swarm.worker.agent.loop.sample_attempt import CallLock


async def stand(place, log, name, leave):
    async with place:
        log.append(f"+{name}")
        await leave.wait()
        log.append(f"-{name}")


async def test_order_is_the_order_of_the_calls_and_exclusive_calls_run_alone():
    line, log = CallLock(), []
    kinds = [("a", True), ("b", True), ("c", False), ("d", True), ("e", True), ("f", False)]
    leave = {name: trio.Event() for name, _ in kinds}
    async with trio.open_nursery() as nursery:
        places = [(name, line.reserve(shared=shared)) for name, shared in kinds]
        for name, place in reversed(places):  # the order of starting does not matter
            nursery.start_soon(stand, place, log, name, leave[name])
        await wait_all_tasks_blocked()
        assert sorted(log) == ["+a", "+b"]
        for name in ("a", "b", "c", "d", "e", "f"):
            leave[name].set()
            await wait_all_tasks_blocked()
    assert log[4:6] == ["+c", "-c"]
    assert sorted(log[6:8]) == ["+d", "+e"]
    assert log[-2:] == ["+f", "-f"]


async def test_who_gives_up_while_waiting_does_not_block_those_behind():
    line, log = CallLock(), []
    first, second, third = (line.reserve(shared=shared) for shared in (True, False, True))
    done = trio.Event()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(stand, first, log, "first", done)
        with trio.CancelScope() as scope:
            scope.cancel()
            await stand(second, log, "second", done)
        nursery.start_soon(stand, third, log, "third", done)
        await wait_all_tasks_blocked()
        assert sorted(log) == ["+first", "+third"]
        done.set()

"""The queue for slots moves, or says at once that it cannot."""

import pytest
import trio
import trio.testing

from swarm.supervisor.agents.life.slot_deadlock import DEADLOCK_MESSAGE, DeadlockDetector
from swarm.supervisor.agents.slot_scheduler import HeldSlot, is_blocked, suspension_cost


class FakeSlotUsers:
    """One agent holds the only slot; the test sets the facts."""

    def __init__(self):
        self.waiting = 0
        self.blocked = True
        self.can_free = False
        self.freed = 0
        self.detector = DeadlockDetector(self)

    def waiting_count(self):
        return self.waiting

    def holders(self):
        return [HeldSlot("/root", requests=frozenset({"spawn_agent"} if self.blocked else ()))]

    async def free_slot(self):
        await trio.lowlevel.checkpoint()
        if self.can_free:
            self.freed += 1
            self.waiting = 0
        return self.can_free

    async def spawn(self, ends):
        with self.detector.track_spawn() as pending:
            self.waiting += 1
            await trio.sleep(1000)
        self.waiting -= 1
        ends.append((pending.reason, trio.current_time()))


async def test_a_spawn_that_can_never_get_a_slot_fails_soon_and_says_so(autojump_clock, nursery):
    users, ends = FakeSlotUsers(), []
    nursery.start_soon(users.detector.run)
    started = trio.current_time()
    await users.spawn(ends)
    assert ends[0][0] == DEADLOCK_MESSAGE
    assert ends[0][1] - started < 2


async def test_while_an_agent_works_a_spawn_waits(autojump_clock, nursery):
    users, ends = FakeSlotUsers(), []
    users.blocked = False
    nursery.start_soon(users.detector.run)
    await users.spawn(ends)
    assert ends[0][0] == ""


async def test_a_parent_that_can_do_without_its_slot_gives_it_up_once(autojump_clock, nursery):
    users, ends = FakeSlotUsers(), []
    users.can_free = True
    nursery.start_soon(users.detector.run)
    await users.spawn(ends)
    assert (users.freed, ends[0][0]) == (1, "")


async def test_the_youngest_spawn_fails_so_that_the_others_may_get_a_slot(autojump_clock, nursery):
    users, first, second = FakeSlotUsers(), [], []
    nursery.start_soon(users.detector.run)
    async with trio.open_nursery() as spawns:
        spawns.start_soon(users.spawn, first)
        await trio.testing.wait_all_tasks_blocked()
        spawns.start_soon(users.spawn, second)
        await trio.sleep(1.5)
        assert second[0][0] == DEADLOCK_MESSAGE
        assert first == []
        users.blocked = False
        spawns.cancel_scope.cancel()


WAITS = HeldSlot("/root/a", requests=frozenset({"wait_agent"}), open_calls=("wait_agent",))
SPAWNS = HeldSlot("/root/a", requests=frozenset({"spawn_agent"}), open_calls=("spawn_agent",))


@pytest.mark.parametrize(
    ("holder", "blocked"),
    [
        (WAITS, True),
        (SPAWNS, True),
        (WAITS._replace(is_ending=True), False),
        (WAITS._replace(responding=True), False),
        (WAITS._replace(open_calls=("wait_agent", "shell")), False),
        (WAITS._replace(requests=frozenset()), False),  # its answer is on its way
        (WAITS._replace(has_input=True), False),  # ends the wait
        (SPAWNS._replace(has_input=True), True),  # does not give it a slot
        (HeldSlot("/root", has_turn=False, is_idle=True), True),
        (HeldSlot("/root", has_turn=False), False),
        (HeldSlot("/root/a", has_turn=False, is_idle=True), False),  # its process ends by itself
    ],
)
def test_an_agent_is_blocked_only_if_nothing_of_its_own_is_in_progress(holder, blocked):
    assert is_blocked(holder) == blocked


def test_the_slot_of_the_agent_that_loses_least_is_freed_first():
    deep = WAITS._replace(path="/root/a/b")
    cut = WAITS._replace(path="/root", has_unstarted_calls=True)
    assert sorted([cut, SPAWNS, deep, WAITS], key=suspension_cost) == [WAITS, deep, SPAWNS, cut]

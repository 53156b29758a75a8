"""The line for slots moves, or says at once that it cannot."""

import trio
import trio.testing

from swarm.mailbox.protocol.limits import Limits
from swarm.mailbox.protocol.spec import RoleBrief
from swarm.supervisor.agents.agent_record import Agent, AgentPlan
from swarm.supervisor.agents.slot_deadlock import DEADLOCK_MESSAGE, DeadlockDetector


class Story:
    """A line whose facts are set by the test."""

    def __init__(self):
        plan = AgentPlan(path="/root", agent_id="1", role=RoleBrief(), limits=Limits(), cwd="/")
        self.live = [Agent(plan)]
        self.waiting = 0
        self.blocked = True
        self.can_relieve = False
        self.relieved = 0
        self.warden = DeadlockDetector(
            waiting=lambda: self.waiting,
            live=lambda: self.live,
            is_blocked=lambda life: self.blocked,
            relieve=self.free_slot,
        )

    async def free_slot(self, live):
        await trio.lowlevel.checkpoint()
        if self.can_relieve:
            self.relieved += 1
            self.waiting = 0
        return self.can_relieve

    async def wish(self, ends):
        with self.warden.track_spawn() as wish:
            self.waiting += 1
            await trio.sleep(1000)
        self.waiting -= 1
        ends.append((wish.reason, trio.current_time()))


async def test_a_wish_that_can_never_be_granted_fails_soon_and_says_so(autojump_clock, nursery):
    story, ends = Story(), []
    nursery.start_soon(story.warden.run)
    started = trio.current_time()
    await story.wish(ends)
    assert ends[0][0] == DEADLOCK_MESSAGE
    assert ends[0][1] - started < 2


async def test_while_anybody_works_a_wish_waits(autojump_clock, nursery):
    story, ends = Story(), []
    story.blocked = False
    nursery.start_soon(story.warden.run)
    await story.wish(ends)
    assert ends[0][0] == ""


async def test_a_parent_that_can_do_without_its_slot_gives_it_up_once(autojump_clock, nursery):
    story, ends = Story(), []
    story.can_relieve = True
    nursery.start_soon(story.warden.run)
    await story.wish(ends)
    assert (story.relieved, ends[0][0]) == (1, "")


async def test_the_youngest_wish_is_given_up_so_that_the_others_may_be_granted(
    autojump_clock, nursery
):
    story, first, second = Story(), [], []
    nursery.start_soon(story.warden.run)
    async with trio.open_nursery() as wishes:
        wishes.start_soon(story.wish, first)
        await trio.testing.wait_all_tasks_blocked()
        wishes.start_soon(story.wish, second)
        await trio.sleep(1.5)
        assert second[0][0] == DEADLOCK_MESSAGE
        assert first == []
        story.blocked = False
        wishes.cancel_scope.cancel()

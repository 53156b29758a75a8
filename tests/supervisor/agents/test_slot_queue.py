"""Waiting for a slot: in order, in turn, and never lost by a cancellation."""

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from swarm.supervisor.agents.slot_scheduler import FairQueue
from swarm.supervisor.agents.slots import AgentLimitReached, AgentRegistry, PathTaken
from swarm.supervisor.processes.process_types import SpawnError


def test_parents_take_turns_and_their_children_keep_their_order():
    queue: FairQueue[str] = FairQueue()
    for parent, child in ("a1", "a2", "a3", "b1", "c1", "b2"):
        queue.join(parent, parent + child)
    expected = ["a1", "b1", "c1", "a2", "b2", "a3"]
    assert list(queue.in_order()) == expected
    assert [queue.take_next() for _ in expected] == expected
    assert queue.take_next() is None


def test_who_leaves_is_not_served_and_the_others_move_up():
    queue: FairQueue[str] = FairQueue()
    first, second = "x", "y"
    queue.join("a", first)
    queue.join("a", second)
    assert queue.leave("a", first)
    assert not queue.leave("a", first)
    assert list(queue.in_order()) == ["y"]
    assert queue.leave("a", second)
    assert len(queue) == 0


class SlotHolders:
    """Agents that hold their slot until told to end."""

    def __init__(self, max_agents: int) -> None:
        self.registry = AgentRegistry(max_agents)
        self.started: list[str] = []
        self.places: list[tuple[str, int]] = []

    async def be(self, path: str, pid: int, parent: str = "/root") -> None:
        def note(place: int) -> None:
            self.places.append((path, place))

        async with self.registry.wait_for_slot(path, parent=parent, on_position=note) as slot:
            self.started.append(path)
            slot.commit(pid)


async def test_a_free_slot_is_had_at_once_and_nobody_is_told_a_place():
    holders = SlotHolders(1)
    await holders.be("/root", 1)
    assert holders.started == ["/root"]
    assert holders.places == []


async def test_each_end_lets_the_next_in_line_start(nursery):
    holders = SlotHolders(2)
    await holders.be("/root", 1)
    await holders.be("/root/a", 2)
    for pid, name in enumerate("bcd", start=3):
        nursery.start_soon(holders.be, f"/root/{name}", pid)
        await wait_all_tasks_blocked()
    assert holders.registry.waiting == 3
    assert holders.places == [("/root/b", 1), ("/root/c", 2), ("/root/d", 3)]
    holders.registry.release("/root/a", 2)
    await wait_all_tasks_blocked()
    assert holders.started[-1] == "/root/b"
    assert holders.places[3:] == [("/root/c", 1), ("/root/d", 2)]
    holders.registry.check()
    holders.registry.release("/root/b", 3)
    holders.registry.release("/root", 1)
    await wait_all_tasks_blocked()
    assert set(holders.started[-2:]) == {"/root/c", "/root/d"}


async def test_a_slot_given_to_somebody_who_was_cancelled_goes_to_the_next(nursery):
    holders = SlotHolders(2)
    await holders.be("/root", 1)
    await holders.be("/root/x", 9)
    scope = trio.CancelScope()

    async def give_up() -> None:
        with scope:
            await holders.be("/root/a", 2)

    nursery.start_soon(give_up)
    await wait_all_tasks_blocked()
    nursery.start_soon(holders.be, "/root/b", 3)
    await wait_all_tasks_blocked()
    scope.cancel()  # in the same moment …
    holders.registry.release("/root/x", 9)  # … in which /root/a is called
    await wait_all_tasks_blocked()
    assert holders.started == ["/root", "/root/x", "/root/b"]
    assert holders.registry.used == 2


async def test_a_failed_start_passes_the_slot_on(nursery):
    holders = SlotHolders(2)
    await holders.be("/root", 1)
    go = trio.Event()

    async def fail() -> None:
        with pytest.raises(RuntimeError):
            async with holders.registry.wait_for_slot("/root/a", parent="/root"):
                await go.wait()
                raise RuntimeError("no hello")

    nursery.start_soon(fail)
    await wait_all_tasks_blocked()
    nursery.start_soon(holders.be, "/root/b", 3)
    await wait_all_tasks_blocked()
    assert holders.started == ["/root"]
    go.set()
    await wait_all_tasks_blocked()
    assert holders.started == ["/root", "/root/b"]


async def test_a_run_of_one_agent_never_waits():
    holders = SlotHolders(1)
    await holders.be("/root", 1)
    with pytest.raises(AgentLimitReached):
        await holders.be("/root/a", 2)


async def test_a_taken_path_is_refused_before_waiting():
    holders = SlotHolders(2)
    await holders.be("/root", 1)
    await holders.be("/root/a", 2)
    with pytest.raises(PathTaken):
        await holders.be("/root/a", 3)


async def test_a_dissolved_line_tells_everybody_why(nursery):
    holders = SlotHolders(2)
    await holders.be("/root", 1)
    await holders.be("/root/a", 2)
    told: list[str] = []

    async def wait(name: str) -> None:
        try:
            await holders.be(name, 5)
        except SpawnError as error:
            told.append(str(error))

    nursery.start_soon(wait, "/root/b")
    nursery.start_soon(wait, "/root/c")
    await wait_all_tasks_blocked()
    assert holders.registry.waiting == 2
    holders.registry.close("no slot can ever come free")
    await wait_all_tasks_blocked()
    assert told == ["no slot can ever come free"] * 2
    assert holders.registry.waiting == 0

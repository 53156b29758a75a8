"""What holders of leases use: measured seldom, shared among an agent's commands, judged idle."""

import pytest
import trio

from swarm.mailbox.base.process_tree import descendants_of
from swarm.supervisor.parts.leases.holder_usage import (
    HolderUsage,
    measure_trees,
    was_idle,
    with_usage,
)
from swarm.supervisor.parts.leases.lease_scheduler import Ticket
from swarm.supervisor.processes.machine_state import TreeUsage


def ticket(number, pid, given_s=0.0) -> Ticket:
    return Ticket(
        run="r", number=number, agent="/root", kind="test", command="pytest", asked_s=0.0,
        memory_bytes=100, cpus=1.0, pid=pid, given_s=given_s,
    )  # fmt: skip


async def test_holders_are_measured_once_a_second_and_new_ones_at_once():
    asked, now = list[set[int]](), 0.0

    async def measure(pids):
        asked.append(set(pids))
        return {pid: TreeUsage(resident_bytes=pid) for pid in pids}

    usage = HolderUsage(measure, lambda: now)
    await usage.refresh([ticket(1, 7), ticket(2, 7), ticket(3, 8, None), ticket(4, 0)])
    now = 0.5
    await usage.refresh([ticket(1, 7), ticket(3, 8)])
    await usage.refresh([ticket(1, 7), ticket(3, 8)])
    now = 1.1
    await usage.refresh([ticket(3, 8)])
    assert asked == [{7}, {8}, set(), {8}]
    assert set(usage.measured) == {8}


@pytest.mark.parametrize(
    ("usage", "used"),
    [
        (TreeUsage(resident_bytes=300), 150),
        (TreeUsage(resident_bytes=300, is_whole=False), 150),
        (TreeUsage(resident_bytes=60, is_whole=False), 100),
        (TreeUsage(resident_bytes=60), 30),
    ],
)
def test_a_trees_memory_is_shared_and_a_tree_that_was_cut_uses_what_was_expected(usage, used):
    waits, unknown = ticket(3, 7, None), ticket(4, 9)
    told = with_usage([ticket(1, 7), ticket(2, 7), waits, unknown], {7: usage})
    assert [one.used_bytes for one in told] == [used, used, 0, 0]


@pytest.mark.parametrize(
    ("before", "after", "idle"),
    [
        (TreeUsage(cpu_s=9.0), TreeUsage(cpu_s=14.9), True),
        (TreeUsage(cpu_s=9.0), TreeUsage(cpu_s=15.1), False),
        (TreeUsage(cpu_s=9.0), TreeUsage(cpu_s=1.0), False),  # who knows what the gone ones used
        (TreeUsage(cpu_s=9.0, is_whole=False), TreeUsage(cpu_s=9.0), False),
        (TreeUsage(cpu_s=9.0), TreeUsage(cpu_s=9.0, is_whole=False), False),
        (TreeUsage(), TreeUsage(is_working=True), False),
        (TreeUsage(is_working=True), TreeUsage(), True),
        (None, TreeUsage(), False),
        (TreeUsage(), None, False),
    ],
)
def test_a_tree_that_kept_a_tenth_of_a_processor_busy_is_not_idle(before, after, idle):
    assert was_idle(before, after, 60.0) is idle


async def test_trees_are_measured_in_a_thread_and_without_any_none_is_started(monkeypatch):
    began = list[object]()
    run_sync = trio.to_thread.run_sync

    async def noted(*args):
        began.append(args)
        return await run_sync(*args)

    monkeypatch.setattr(trio.to_thread, "run_sync", noted)
    assert await measure_trees(set()) == {}
    assert began == []
    assert await measure_trees({0}) == {0: TreeUsage()}
    assert len(began) == 1


def test_no_more_descendants_are_listed_than_asked_for(monkeypatch):
    """Each process has 50 children, without end."""
    asked = list[int]()

    def children_of(pid):
        asked.append(pid)
        return [50 * pid + n for n in range(50)]

    monkeypatch.setattr("swarm.mailbox.base.process_tree.children_of", children_of)
    assert len(descendants_of(1, most=513)) == 513
    assert len(asked) < 2 * 513

"""What the processes that hold leases use. It is measured in a thread, and never under a lock.

Each agent's commands are one tree: what it uses is shared among the leases of its commands.
"""

from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping

import msgspec
import trio

from ...processes.machine_state import TreeUsage, read_tree_usage
from .lease_scheduler import Ticket

MeasureTrees = Callable[[Collection[int]], Awaitable[dict[int, TreeUsage]]]
_REFRESH_S = 1.0  # older figures are measured again
_IDLE_CPUS = 0.1  # a tree that keeps less than this busy does nearly nothing


class HolderUsage:
    """The last figures of all holders, by the agent's process."""

    def __init__(self, measure: MeasureTrees, clock: Callable[[], float]) -> None:
        self._measure, self._clock = measure, clock
        self._measured_s = float("-inf")
        self.measured: dict[int, TreeUsage] = {}

    async def refresh(self, tickets: Iterable[Ticket]) -> None:
        """Measure the holders at most once a second; at once only those that are new."""
        pids, now = holder_pids(tickets), self._clock()
        if now - self._measured_s < _REFRESH_S:
            self.measured |= await self._measure(pids - self.measured.keys())
            return
        self._measured_s = now
        self.measured = await self._measure(pids)


async def measure_trees(pids: Collection[int]) -> dict[int, TreeUsage]:
    """Measure in a thread; without any process none is started."""
    return await trio.to_thread.run_sync(read_trees, pids) if pids else {}


def read_trees(pids: Collection[int]) -> dict[int, TreeUsage]:
    """What the processes below each of these use. Blocks."""
    return {pid: read_tree_usage(pid) for pid in pids}


def holder_pids(tickets: Iterable[Ticket]) -> set[int]:
    """The agents' processes whose commands hold leases."""
    return {one.pid for one in tickets if one.holds_lease and one.pid}


def with_usage(tickets: list[Ticket], measured: Mapping[int, TreeUsage]) -> list[Ticket]:
    """The tickets with what running ones use now, shared among the commands of one agent."""
    held = [one.pid for one in tickets if one.holds_lease]
    return [
        msgspec.structs.replace(one, used_bytes=_used_bytes(one, usage, held.count(one.pid)))
        if one.holds_lease and (usage := measured.get(one.pid)) is not None
        else one
        for one in tickets
    ]


def _used_bytes(one: Ticket, usage: TreeUsage, shares: int) -> int:
    """A tree that was not seen whole uses at least what was expected."""
    used = usage.resident_bytes // shares
    return used if usage.is_whole else max(used, one.memory_bytes)


def was_idle(before: TreeUsage | None, after: TreeUsage | None, seconds: float) -> bool:
    """Whether the tree did nearly nothing; a tree that was not seen whole may have done much.

    One that waits for a disk works: on a machine that swaps it gets little of a processor.
    """
    if before is None or after is None or not (before.is_whole and after.is_whole):
        return False
    return not after.is_working and 0 <= after.cpu_s - before.cpu_s < _IDLE_CPUS * seconds

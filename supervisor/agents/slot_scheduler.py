"""Who gets the next slot, and whether one can come free at all. Pure.

The queue is FIFO among one parent's children, and round robin over the parents: a parent that asks
for thirty children does not keep another parent from its first one.
"""

from collections import deque
from collections.abc import Iterator
from typing import Generic, NamedTuple, TypeVar

from swarm.mailbox.base.ids import ROOT_PATH

Waiter = TypeVar("Waiter")


class FairQueue(Generic[Waiter]):
    """Waiters by parent. Waiters are compared by identity."""

    def __init__(self) -> None:
        self._queues: dict[str, deque[Waiter]] = {}  # in the order of the parents' turns

    def __len__(self) -> int:
        return sum(map(len, self._queues.values()))

    def join(self, parent: str, waiter: Waiter) -> None:
        """Add a waiter at the end of this parent's queue."""
        self._queues.setdefault(parent, deque()).append(waiter)

    def leave(self, parent: str, waiter: Waiter) -> bool:
        """Remove a waiter; False if it is not in the queue (any more)."""
        queue = self._queues.get(parent, ())
        kept = deque(other for other in queue if other is not waiter)
        if len(kept) == len(queue):
            return False
        if kept:
            self._queues[parent] = kept
        else:
            del self._queues[parent]
        return True

    def take_next(self) -> Waiter | None:
        """Remove and return the next waiter; its parent goes to the end of the round."""
        if not self._queues:
            return None
        parent = next(iter(self._queues))
        queue = self._queues.pop(parent)
        waiter = queue.popleft()
        if queue:
            self._queues[parent] = queue
        return waiter

    def in_order(self) -> Iterator[Waiter]:
        """All waiters, the next one first: the place in the queue is the index + 1."""
        queues = [list(queue) for queue in self._queues.values()]
        for turn in range(max(map(len, queues), default=0)):
            for queue in queues:
                if turn < len(queue):
                    yield queue[turn]


class HeldSlot(NamedTuple):
    """What an agent that holds a slot does."""

    path: str
    is_ending: bool = False  # its process is being ended, for good or for a while
    has_turn: bool = True
    is_idle: bool = False  # without a turn, an input or mail that would start one
    requests: frozenset[str] = frozenset()  # tools whose requests the supervisor has not answered
    open_calls: tuple[str, ...] = ()  # tools
    has_unstarted_calls: bool = False
    responding: bool = False  # a model response is still incomplete
    has_input: bool = False  # sent, and not taken up


_WAITING_TOOLS = frozenset({"spawn_agent", "wait_agent", "spawn_agents_on_csv"})


def is_blocked(holder: HeldSlot) -> bool:
    """True if the agent does nothing until another agent does something.

    Nothing of its own may be in progress: no command, no model response, no input that ends a wait.
    """
    if holder.is_ending:
        return False
    if not holder.has_turn:
        return holder.path == ROOT_PATH and holder.is_idle
    # An input that it has not taken up ends a wait, but not a spawn that waits for a slot.
    goes_on = holder.responding or (holder.has_input and "wait_agent" in holder.requests)
    only_waits = _WAITING_TOOLS.issuperset(holder.open_calls)
    return bool(holder.requests & _WAITING_TOOLS) and only_waits and not goes_on


def suspension_cost(holder: HeldSlot) -> tuple[bool, bool, int]:
    """The agent with the lowest cost gives up its slot first: the one nearest to the root.

    Agents that wait for others come before agents that wait for a slot: those need their process
    sooner. Agents with unstarted calls come last: their next process is told that these calls never
    ran.
    """
    waits_for_slot = "spawn_agent" in holder.open_calls
    return holder.has_unstarted_calls, waits_for_slot, holder.path.count("/")

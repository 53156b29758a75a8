"""Fair queue for slots: FIFO among one parent's children, round robin over the parents.

A parent that asks for thirty children does not keep another parent from its first one.
"""

from collections import deque
from collections.abc import Iterator
from typing import Generic, TypeVar

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
        line = self._queues.get(parent, ())
        kept = deque(other for other in line if other is not waiter)
        if len(kept) == len(line):
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
        line = self._queues.pop(parent)
        waiter = line.popleft()
        if line:
            self._queues[parent] = line
        return waiter

    def in_order(self) -> Iterator[Waiter]:
        """All waiters, the next one first: the place in the queue is the index + 1."""
        lines = [list(line) for line in self._queues.values()]
        for turn in range(max(map(len, lines), default=0)):
            for line in lines:
                if turn < len(line):
                    yield line[turn]

    def parents(self) -> frozenset[str]:
        """The parents whose children wait."""
        return frozenset(self._queues)

"""The line for slots: first come first served among one parent's children, parents in turn. Pure.

A parent that asks for thirty children does not keep another from its first one.
"""

from collections import deque
from collections.abc import Iterator
from typing import Generic, TypeVar

Waiter = TypeVar("Waiter")


class FairQueue(Generic[Waiter]):
    """Who waits, by parent. Waiters are compared by identity."""

    def __init__(self) -> None:
        self._queues: dict[str, deque[Waiter]] = {}  # in the order of the parents' turns

    def __len__(self) -> int:
        return sum(map(len, self._queues.values()))

    def join(self, parent: str, waiter: Waiter) -> None:
        """Go to the end of this parent's line."""
        self._queues.setdefault(parent, deque()).append(waiter)

    def leave(self, parent: str, waiter: Waiter) -> bool:
        """Give up waiting; False if it was not in the line (any more)."""
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
        """Remove and return whose turn it is; the parent then waits for its next turn."""
        if not self._queues:
            return None
        parent = next(iter(self._queues))
        line = self._queues.pop(parent)
        waiter = line.popleft()
        if line:
            self._queues[parent] = line
        return waiter

    def in_order(self) -> Iterator[Waiter]:
        """All waiters, the next one first: the place in line is the index + 1."""
        lines = [list(line) for line in self._queues.values()]
        for turn in range(max(map(len, lines), default=0)):
            for line in lines:
                if turn < len(line):
                    yield line[turn]

    def parents(self) -> frozenset[str]:
        """Whose children wait."""
        return frozenset(self._queues)

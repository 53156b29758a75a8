"""Fair reader/writer lock with numbered places: which calls of a response may run together.

Calls run in their order. A call takes its place when it arrives, not when its task first runs (Trio
starts tasks in no fixed order), so no call overtakes another.
"""

from collections import deque
from types import TracebackType

import trio


class LockTicket:
    """One place in the queue, to be used once with `async with`."""

    def __init__(self, line: "CallLock", *, shared: bool) -> None:
        self._lock, self.shared = line, shared
        self.granted = trio.Event()

    async def __aenter__(self) -> None:
        try:
            await self.granted.wait()
        except BaseException:
            self._lock.release(self)
            raise

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._lock.release(self)


class CallLock:
    """Shared places run together, any other place runs alone, all in order of arrival."""

    def __init__(self) -> None:
        self._waiting: deque[LockTicket] = deque()
        self._running: set[LockTicket] = set()

    def reserve(self, *, shared: bool) -> LockTicket:
        """Join the queue. The place must be entered once, or it blocks those behind it."""
        place = LockTicket(self, shared=shared)
        self._waiting.append(place)
        self._grant_waiting()
        return place

    def release(self, place: LockTicket) -> None:
        """Release the place, whether it was granted or still waits."""
        self._running.discard(place)
        if place in self._waiting:
            self._waiting.remove(place)
        self._grant_waiting()

    def _grant_waiting(self) -> None:
        while self._waiting:
            first = self._waiting[0]
            alone = not self._running
            if not alone and not (first.shared and all(one.shared for one in self._running)):
                return
            self._waiting.popleft()
            self._running.add(first)
            first.granted.set()

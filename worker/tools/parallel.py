"""Which calls of a response may run together: a fair reader/writer lock with numbered places.

Rule guarded: order is the order of the calls. A place is taken when the call arrives, not when its
task first runs (Trio starts tasks in no order), so nobody overtakes.
"""

from collections import deque
from types import TracebackType

import trio


class Place:
    """One place in the line, for use once with `async with`."""

    def __init__(self, line: "Turnstile", *, shared: bool) -> None:
        self._line, self.shared = line, shared
        self.granted = trio.Event()

    async def __aenter__(self) -> None:
        try:
            await self.granted.wait()
        except BaseException:
            self._line.leave(self)
            raise

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._line.leave(self)


class Turnstile:
    """Shared places run together; any other runs alone; all in order of arrival."""

    def __init__(self) -> None:
        self._waiting: deque[Place] = deque()
        self._inside: set[Place] = set()

    def take_place(self, *, shared: bool) -> Place:
        """Stand in line. The place must be entered once, or it blocks those behind it."""
        place = Place(self, shared=shared)
        self._waiting.append(place)
        self._let_in()
        return place

    def leave(self, place: Place) -> None:
        """Give the place up, whether it was granted or still waits."""
        self._inside.discard(place)
        if place in self._waiting:
            self._waiting.remove(place)
        self._let_in()

    def _let_in(self) -> None:
        while self._waiting:
            first = self._waiting[0]
            alone = not self._inside
            if not alone and not (first.shared and all(one.shared for one in self._inside)):
                return
            self._waiting.popleft()
            self._inside.add(first)
            first.granted.set()

"""Who minds the line for slots: sees that it can move, and says so at once if it never will.

Rule guarded: while somebody waits for a slot, some live agent works and will free one; if none
does, a parent that only waits gives its slot up for a while; if none can, the youngest wish fails.
"""

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager

import trio

from ..agents import LiveAgent

LOOK_S = 0.05
CERTAIN_AFTER_S = 1.0  # news that is on its way arrives before
NEVER = (
    "no agent slot can ever come free: every live agent waits for a slot or for another agent. "
    "Solve the task yourself, or ask for a run with a larger --max-agents"
)


class Wish:
    """A spawn that waits. `reason` is set when it was given up for the others' sake."""

    def __init__(self) -> None:
        self.scope = trio.CancelScope()
        self.reason = ""


class LineWarden:
    """Looks while anybody is in line; sleeps otherwise.

    Args:
        waiting: How many are in line while nobody is being started.
        live: The agents that have a process.
        is_blocked: True for an agent that does nothing by itself.
        relieve: Frees a slot of one of them; False if none can be freed.
    """

    def __init__(
        self,
        *,
        waiting: Callable[[], int],
        live: Callable[[], list[LiveAgent]],
        is_blocked: Callable[[LiveAgent], bool],
        relieve: Callable[[list[LiveAgent]], Awaitable[bool]],
    ) -> None:
        self._waiting, self._live = waiting, live
        self._is_blocked, self._relieve = is_blocked, relieve
        self._wishes: list[Wish] = []
        self._stirred = trio.Event()

    def stir(self) -> None:
        """Somebody joins the line now."""
        self._stirred.set()

    @contextmanager
    def in_line(self) -> Iterator[Wish]:
        """Around the birth of a wish. If it is given up the block ends, and `reason` is set."""
        wish = Wish()
        self._wishes.append(wish)
        self.stir()
        try:
            with wish.scope:
                yield wish
        finally:
            self._wishes.remove(wish)

    async def mind(self) -> None:
        """Until cancelled."""
        while True:
            await self._stirred.wait()
            self._stirred = trio.Event()
            await trio.sleep(LOOK_S)
            stuck_since: float | None = None
            while self._waiting() or self._wishes:
                if not self._is_stuck() or await self._relieve(self._live()):
                    stuck_since = None
                elif stuck_since is None:
                    stuck_since = trio.current_time()
                elif trio.current_time() - stuck_since > CERTAIN_AFTER_S:
                    self._give_up_youngest()
                    stuck_since = None
                await trio.sleep(LOOK_S)

    def _is_stuck(self) -> bool:
        live = self._live()
        return self._waiting() > 0 and bool(live) and all(map(self._is_blocked, live))

    def _give_up_youngest(self) -> None:
        if self._wishes:
            wish = self._wishes[-1]
            wish.reason = NEVER
            wish.scope.cancel()

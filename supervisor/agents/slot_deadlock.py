"""Deadlock detector for slots: while agents wait for a slot, one must be able to free one.

While an agent waits for a slot, some live agent works and will free one. If none works, a parent
that only waits is suspended and frees its slot. If none can be, the youngest spawn fails.
"""

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager

import trio

from .agent_record import Agent

POLL_S = 0.05
CONFIRM_AFTER_S = 1.0  # time for messages on their way to arrive
DEADLOCK_MESSAGE = (
    "no agent slot can ever come free: every live agent waits for a slot or for another agent. "
    "Solve the task yourself, or ask for a run with a larger --max-agents"
)


class PendingSpawn:
    """A waiting spawn. `reason` is set if it was failed to resolve a deadlock."""

    def __init__(self) -> None:
        self.scope = trio.CancelScope()
        self.reason = ""


class DeadlockDetector:
    """Checks while any agent waits for a slot; sleeps otherwise.

    Args:
        waiting: How many agents wait while none is being started.
        live: The agents that have a process.
        is_blocked: True for an agent that does nothing by itself.
        relieve: Frees a slot of one of them; False if none can be freed.
    """

    def __init__(
        self,
        *,
        waiting: Callable[[], int],
        live: Callable[[], list[Agent]],
        is_blocked: Callable[[Agent], bool],
        relieve: Callable[[list[Agent]], Awaitable[bool]],
    ) -> None:
        self._waiting, self._live = waiting, live
        self._is_blocked, self._free_slot = is_blocked, relieve
        self._spawns: list[PendingSpawn] = []
        self._woken = trio.Event()

    def wake(self) -> None:
        """An agent joins the queue now."""
        self._woken.set()

    @contextmanager
    def track_spawn(self) -> Iterator[PendingSpawn]:
        """Wrap a spawn. If the detector fails it, the block is cancelled and `reason` is set."""
        wish = PendingSpawn()
        self._spawns.append(wish)
        self.wake()
        try:
            with wish.scope:
                yield wish
        finally:
            self._spawns.remove(wish)

    async def run(self) -> None:
        """Run until cancelled."""
        while True:
            await self._woken.wait()
            self._woken = trio.Event()
            await trio.sleep(POLL_S)
            stuck_since: float | None = None
            while self._waiting() or self._spawns:
                if not self._is_deadlocked() or await self._free_slot(self._live()):
                    stuck_since = None
                elif stuck_since is None:
                    stuck_since = trio.current_time()
                elif trio.current_time() - stuck_since > CONFIRM_AFTER_S:
                    self._fail_youngest()
                    stuck_since = None
                await trio.sleep(POLL_S)

    def _is_deadlocked(self) -> bool:
        live = self._live()
        return self._waiting() > 0 and bool(live) and all(map(self._is_blocked, live))

    def _fail_youngest(self) -> None:
        if self._spawns:
            wish = self._spawns[-1]
            wish.reason = DEADLOCK_MESSAGE
            wish.scope.cancel()

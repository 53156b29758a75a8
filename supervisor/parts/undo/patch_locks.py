"""The project's lock for agents' patches: taken here, before the agent writes, and given up after.

The agent's own process never holds it. A patch that waits for long goes on without it: it compares
each file in the moment of the exchange all the same.
"""

import os
from functools import partial
from pathlib import Path

import trio

from swarm.mailbox.base.errors import SwarmError

from ...agents.agent_record import Agent
from .project_lock import take_project

_WAIT_S = 2.0  # the agent waits a little longer for the reply to its begin
_HOLD_S = 10.0  # of one call; its process may have stopped


class PatchLocks:
    """One per run. `nursery` outlives every call."""

    def __init__(self, lock_file: Path, nursery: trio.Nursery) -> None:
        self._file, self._nursery = lock_file, nursery
        self._held: dict[str, trio.CancelScope] = {}  # by call id

    async def take(self, agent: Agent, call_id: str, paths: tuple[str, ...]) -> None:
        """Return when the lock is held for this call, or after two seconds."""
        if not paths or agent.plan.host or agent.plan.limits.isolation == "copy":
            return
        self._held[call_id] = trio.CancelScope(deadline=trio.current_time() + _WAIT_S + _HOLD_S)
        take = partial(take_project, self._file, paths, limit_s=_WAIT_S)
        try:
            fd = await trio.to_thread.run_sync(take)
        except (SwarmError, OSError):
            self._held.pop(call_id, None)
            return
        self._nursery.start_soon(self._hold, fd, call_id)

    def release(self, call_id: str) -> None:
        """The call is over. Never waits."""
        if (scope := self._held.pop(call_id, None)) is not None:
            scope.cancel()

    async def _hold(self, fd: int, call_id: str) -> None:
        try:
            if (scope := self._held.get(call_id)) is not None:
                with scope:
                    await trio.sleep_forever()
        finally:
            self._held.pop(call_id, None)
            os.close(fd)

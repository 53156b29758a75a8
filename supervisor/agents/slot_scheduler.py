"""Slot scheduler: waits fairly for a slot of the registry.

A slot that comes free is reserved for the next waiter at once, before another task can take it.
"""

from collections.abc import AsyncIterator, Callable
from contextlib import ExitStack, asynccontextmanager

import trio

from ..processes.process_types import SpawnError
from .slot_queue import FairQueue
from .slots import AgentLimitReached, AgentRegistry, Slot


class SlotSchedulerClosed(SpawnError):
    """Nothing was started, and nothing will be: the run is ending."""


class _SlotWaiter:
    def __init__(self, path: str, agent_id: str, on_place: Callable[[int], None] | None) -> None:
        self.path, self.agent_id, self.on_position = path, agent_id, on_place
        self.position = 0
        self.served = trio.Event()
        self.slot: Slot | None = None
        self.error: SpawnError | None = None
        self.reservation = ExitStack()


class SlotScheduler:
    """Owns the queue of one registry; all code that waits for a slot uses it."""

    def __init__(self, registry: AgentRegistry) -> None:
        self._registry = registry
        self._queue: FairQueue[_SlotWaiter] = FairQueue()
        self._closed_reason = ""  # why no slot is given out any more
        registry.on_free = self._assign_slots

    def __len__(self) -> int:
        return len(self._queue)

    @asynccontextmanager
    async def wait_for_slot(
        self,
        path: str,
        *,
        parent: str,
        agent_id: str = "",
        on_place: Callable[[int], None] | None = None,
    ) -> AsyncIterator[Slot]:
        """Like `AgentRegistry.reserve`, but wait for a slot; the caller sets the deadline.

        Args:
            path: The new agent's path; another agent may take it meanwhile.
            parent: Parents take turns, however many children each wants.
            agent_id: As in `reserve`.
            on_place: Called with the place in the queue (1 = next) whenever it changes.

        Raises PathTaken; AgentLimitReached at once if there can never be a second agent;
        SlotSchedulerClosed if the run is ending.
        """
        if self._closed_reason:
            raise SlotSchedulerClosed(self._closed_reason)
        self._registry.check_path(path, agent_id=agent_id)
        if self._registry.max_agents == 1 and not self._registry.free:
            raise AgentLimitReached(limit=1, bound=self._registry.limit_reason)
        ticket = _SlotWaiter(path, agent_id, on_place)
        self._queue.join(parent, ticket)
        with ticket.reservation:
            try:
                self._assign_slots()
                await ticket.served.wait()
            except BaseException:
                if self._queue.leave(parent, ticket):
                    self._notify_positions()
                raise
            if ticket.slot is None:
                assert ticket.error is not None
                raise ticket.error
            yield ticket.slot

    def close(self, reason: str) -> None:
        """The run ends: all present and later waiters get SlotSchedulerClosed."""
        self._closed_reason = reason
        while (ticket := self._queue.take_next()) is not None:
            ticket.error = SlotSchedulerClosed(reason)
            ticket.served.set()

    def _assign_slots(self) -> None:
        while self._registry.free and (ticket := self._queue.take_next()) is not None:
            try:
                reservation = self._registry.reserve(ticket.path, agent_id=ticket.agent_id)
                ticket.slot = ticket.reservation.enter_context(reservation)
            except SpawnError as error:
                ticket.error = error
            ticket.served.set()
        self._notify_positions()

    def _notify_positions(self) -> None:
        for place, ticket in enumerate(self._queue.in_order(), start=1):
            if ticket.position != place:
                ticket.position = place
                if ticket.on_position is not None:
                    ticket.on_position(place)

"""Waiting for a slot, fairly: the registry's async face.

A slot that comes free is reserved for the next in line at once, before anybody else can see it.
"""

from collections.abc import AsyncIterator, Callable
from contextlib import ExitStack, asynccontextmanager

import trio

from .queue import WaitingLine
from .registry import AgentLimitReached, AgentRegistry, Slot
from .spawner.base import SpawnError


class LineDissolved(SpawnError):
    """Nothing was started, and nothing will be: the run is ending."""


class _Ticket:
    def __init__(self, path: str, agent_id: str, on_place: Callable[[int], None] | None) -> None:
        self.path, self.agent_id, self.on_place = path, agent_id, on_place
        self.place = 0
        self.called = trio.Event()
        self.slot: Slot | None = None
        self.error: SpawnError | None = None
        self.held = ExitStack()


class WaitingRoom:
    """Owns the line of one registry; everyone who would wait must come through here."""

    def __init__(self, registry: AgentRegistry) -> None:
        self._registry = registry
        self._line: WaitingLine[_Ticket] = WaitingLine()
        self._over = ""  # why nobody is served any more
        registry.on_free = self._serve

    def __len__(self) -> int:
        return len(self._line)

    @asynccontextmanager
    async def wait_for_slot(
        self,
        path: str,
        *,
        parent: str,
        agent_id: str = "",
        on_place: Callable[[int], None] | None = None,
    ) -> AsyncIterator[Slot]:
        """Like `AgentRegistry.reserve`, but wait for one's turn; the caller sets the deadline.

        Args:
            path: The new agent's path; may be taken by somebody else while we wait.
            parent: Parents take turns, whatever number of children each wants.
            agent_id: As in `reserve`.
            on_place: Told the place in line (1 = next) whenever it changes.

        Raises PathTaken; AgentLimitReached at once if there can never be a second agent;
        LineDissolved if the run is ending.
        """
        if self._over:
            raise LineDissolved(self._over)
        self._registry.check_path(path, agent_id=agent_id)
        if self._registry.max_agents == 1 and not self._registry.free:
            raise AgentLimitReached(limit=1, bound=self._registry.bound)
        ticket = _Ticket(path, agent_id, on_place)
        self._line.join(parent, ticket)
        with ticket.held:
            try:
                self._serve()
                await ticket.called.wait()
            except BaseException:
                if self._line.leave(parent, ticket):
                    self._tell_places()
                raise
            if ticket.slot is None:
                assert ticket.error is not None
                raise ticket.error
            yield ticket.slot

    def dissolve(self, reason: str) -> None:
        """The run ends: every waiter gets LineDissolved, and so does whoever comes later."""
        self._over = reason
        while (ticket := self._line.take_next()) is not None:
            ticket.error = LineDissolved(reason)
            ticket.called.set()

    def _serve(self) -> None:
        while self._registry.free and (ticket := self._line.take_next()) is not None:
            try:
                reservation = self._registry.reserve(ticket.path, agent_id=ticket.agent_id)
                ticket.slot = ticket.held.enter_context(reservation)
            except SpawnError as error:
                ticket.error = error
            ticket.called.set()
        self._tell_places()

    def _tell_places(self) -> None:
        for place, ticket in enumerate(self._line.in_order(), start=1):
            if ticket.place != place:
                ticket.place = place
                if ticket.on_place is not None:
                    ticket.on_place(place)

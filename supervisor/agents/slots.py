"""Slots: a slot is a live agent process, freed only by the end of that process.

One Trio thread owns the registry, so nothing can come between a check and its change. A slot that
comes free is reserved for the next waiter at once, before another task can take it.
"""

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from typing import Protocol

import trio

from ..processes.process_types import SpawnError
from .slot_scheduler import FairQueue


class AgentLimitReached(SpawnError):
    """Nothing was started: a live process holds every slot."""

    def __init__(self, *, limit: int, bound: str = "") -> None:
        why = "this run may have one agent only" if limit == 1 else "wait for one to end"
        more = bound or "raise --max-agents"
        super().__init__(f"all {limit} agent slots are in use; {why}, or {more}")
        self.limit = limit


class PathTaken(SpawnError):
    """Nothing was started: the path belongs to another agent of this run, alive or ended."""

    def __init__(self, path: str) -> None:
        super().__init__(f"agent path `{path}` already exists")
        self.path = path


class SlotsClosed(SpawnError):
    """Nothing was started, and nothing will be: the run is ending."""


class PathOwners(Protocol):
    """The archive of finished agents."""

    def owner_of(self, path: str) -> str | None:
        """The id of the agent that the path belongs to, if it knows one."""


class Slot:
    """A reserved slot. Without `commit` it is free again when its `with` block ends."""

    def __init__(self, path: str, live: dict[str, int | None]) -> None:
        self.path, self._live = path, live

    def commit(self, pid: int) -> None:
        """From now on the process holds the slot."""
        if pid <= 0:
            raise ValueError(f"{pid} is not a process")
        if self._live.get(self.path, 0) is not None:
            raise ValueError(f"the reservation of {self.path} is over")
        self._live[self.path] = pid


class _SlotWaiter:
    def __init__(self, path: str, agent_id: str, on_position: Callable[[int], None] | None) -> None:
        self.path, self.agent_id, self.on_position = path, agent_id, on_position
        self.position = 0
        self.served = trio.Event()
        self.slot: Slot | None = None
        self.error: SpawnError | None = None
        self.reservation = ExitStack()


class AgentRegistry:
    """Counts the live agent processes, the root included; knows every path of the run."""

    def __init__(
        self, max_agents: int, *, bound: str = "", archive: PathOwners | None = None
    ) -> None:
        """Make a registry without agents.

        Args:
            max_agents: The number of slots, ≥ 1.
            bound: Why there are no more, if a person did not choose that number.
            archive: Knows the owners of paths that were forgotten here.
        """
        if max_agents < 1:
            raise ValueError("max_agents must be at least 1")
        self._max, self.limit_reason = max_agents, bound
        self._live: dict[str, int | None] = {}  # path → pid; None while it starts
        self._owners: dict[str, str] = {}  # path → agent id
        self._archive = archive
        self._queue: FairQueue[_SlotWaiter] = FairQueue()
        self._closed_reason = ""  # why no slot is given out any more

    def __repr__(self) -> str:
        starting = sum(pid is None for pid in self._live.values())
        return f"<{self.used}/{self._max} slots, {starting} starting, {len(self._owners)} paths>"

    @property
    def used(self) -> int:
        return len(self._live)

    @property
    def max_agents(self) -> int:
        return self._max

    @property
    def free(self) -> int:
        return self._max - len(self._live)

    @contextmanager
    def reserve(self, path: str, *, agent_id: str = "") -> Iterator[Slot]:
        """Reserve a slot while a process starts; it is free again unless committed.

        Args:
            path: Once committed, it belongs to one agent for the whole run.
            agent_id: The same agent may come again, restarted or resumed, with one process at a
                time.

        Raises PathTaken or AgentLimitReached; nothing has changed then.
        """
        self.check_path(path, agent_id=agent_id)
        if not self.free:
            raise AgentLimitReached(limit=self._max, bound=self.limit_reason)
        slot = Slot(path, self._live)
        self._live[path] = None
        try:
            yield slot
        finally:
            if self._live.get(path, 0) is None:
                del self._live[path]
                self._assign_slots()
            else:
                self._owners.setdefault(path, agent_id)

    def check_path(self, path: str, *, agent_id: str = "") -> None:
        """Raise PathTaken if this agent cannot start a process at `path` now."""
        if path in self._live or (self._owner(path) or agent_id) != agent_id:
            raise PathTaken(path)

    def restore_path(self, path: str, *, agent_id: str) -> None:
        """Remember an agent of an earlier part of this run. Raises PathTaken."""
        if (self._owner(path) or agent_id) != agent_id:
            raise PathTaken(path)
        self._owners[path] = agent_id

    def set_owner(self, path: str, agent_id: str) -> None:
        """Remember the owner of a path that the archive gave back."""
        self._owners[path] = agent_id

    def forget_owner(self, path: str) -> None:
        """Forget a path's owner: from now on the archive knows it."""
        self._owners.pop(path, None)

    def _owner(self, path: str) -> str | None:
        owner = self._owners.get(path)
        return owner or (self._archive.owner_of(path) if self._archive is not None else None)

    def release(self, path: str, pid: int) -> bool:
        """The process `pid` has ended. False if it holds no slot (any more): harmless."""
        if self._live.get(path) != pid or pid <= 0:
            return False
        del self._live[path]
        self._assign_slots()
        return True

    def pid_of(self, path: str) -> int | None:
        """The pid of the live process at this path; None also while it starts."""
        return self._live.get(path)

    def is_known(self, path: str) -> bool:
        """True if the path was ever an agent's in this run, or is reserved now."""
        return path in self._live or self._owner(path) is not None

    def check(self) -> None:
        """Raise AssertionError if an invariant is broken. For tests and `doctor`."""
        pids = [pid for pid in self._live.values() if pid is not None]
        assert 0 <= self.used <= self._max, self
        assert len(pids) == len(set(pids)), "one process holds two slots"
        assert all(pid > 0 for pid in pids), pids

    # --- waiting -------------------------------------------------------------------------------

    @property
    def waiting(self) -> int:
        """How many wait for a slot."""
        return len(self._queue)

    @asynccontextmanager
    async def wait_for_slot(
        self,
        path: str,
        *,
        parent: str,
        agent_id: str = "",
        on_position: Callable[[int], None] | None = None,
    ) -> AsyncIterator[Slot]:
        """Like `reserve`, but wait for a slot; the caller sets the deadline.

        Args:
            path: The new agent's path; another agent may take it meanwhile.
            parent: Parents take turns, however many children each wants.
            agent_id: As in `reserve`.
            on_position: Called with the place in the queue (1 = next) whenever it changes.

        Raises PathTaken; AgentLimitReached at once if there can never be a second agent;
        SlotsClosed if the run is ending.
        """
        if self._closed_reason:
            raise SlotsClosed(self._closed_reason)
        self.check_path(path, agent_id=agent_id)
        if self._max == 1 and not self.free:
            raise AgentLimitReached(limit=1, bound=self.limit_reason)
        waiter = _SlotWaiter(path, agent_id, on_position)
        self._queue.join(parent, waiter)
        with waiter.reservation:
            try:
                self._assign_slots()
                await waiter.served.wait()
            except BaseException:
                if self._queue.leave(parent, waiter):
                    self._notify_positions()
                raise
            if waiter.slot is None:
                assert waiter.error is not None
                raise waiter.error
            yield waiter.slot

    def close(self, reason: str) -> None:
        """The run ends: all present and later waiters get SlotsClosed."""
        self._closed_reason = reason
        while (waiter := self._queue.take_next()) is not None:
            waiter.error = SlotsClosed(reason)
            waiter.served.set()

    def _assign_slots(self) -> None:
        while self.free and (waiter := self._queue.take_next()) is not None:
            try:
                reservation = self.reserve(waiter.path, agent_id=waiter.agent_id)
                waiter.slot = waiter.reservation.enter_context(reservation)
            except SpawnError as error:
                waiter.error = error
            waiter.served.set()
        self._notify_positions()

    def _notify_positions(self) -> None:
        for position, waiter in enumerate(self._queue.in_order(), start=1):
            if waiter.position != position:
                waiter.position = position
                if waiter.on_position is not None:
                    waiter.on_position(position)

"""Slot registry: a slot is a live agent process, freed only by the end of that process.

One Trio thread owns it and nothing here waits, so nothing can come between a check and its change.
The queue for slots is in `slot_scheduler.py`.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol

from ..processes.process_types import SpawnError


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
            raise ValueError(f"{pid} is no process")
        if self._live.get(self.path, 0) is not None:
            raise ValueError(f"the reservation of {self.path} is over")
        self._live[self.path] = pid


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
        self.on_free: Callable[[], None] | None = None  # called after a slot came free

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
                self._notify_free()
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
        self._notify_free()
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

    def _notify_free(self) -> None:
        if self.on_free is not None:
            self.on_free()

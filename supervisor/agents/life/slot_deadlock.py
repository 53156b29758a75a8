"""Deadlock detector for slots: while agents wait for a slot, one must be able to free one.

While an agent waits for a slot, some live agent works and will free one. If none works, a parent
that only waits is suspended and frees its slot. If none can be, the youngest spawn fails.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Protocol

import trio

from swarm.mailbox.parts.part_messages import PART_WAITS
from swarm.mailbox.protocol.requests import AnyRequest, Spawn, WaitFor

from ...context.run_context import RunContext
from ..agent_record import Agent
from ..slot_scheduler import HeldSlot, is_blocked, suspension_cost
from .agent_manager import AgentManager
from .lifecycle import AgentLifecycle

POLL_S = 0.05
CONFIRM_AFTER_S = 1.0  # time for messages on their way to arrive
DEADLOCK_MESSAGE = (
    "no agent slot can ever come free: every live agent waits for a slot or for another agent. "
    "Solve the task yourself, or ask for a run with a larger --max-agents"
)
_TOOLS: dict[type[object], str] = {
    Spawn: "spawn_agent",
    WaitFor: "wait_agent",
    **PART_WAITS,
}


class SlotUsers(Protocol):
    """What the detector needs to know and to do."""

    def waiting_count(self) -> int:
        """How many agents wait for a slot; 0 while any agent is being started."""
        ...

    def holders(self) -> list[HeldSlot]:
        """The agents that hold a slot."""
        ...

    async def free_slot(self) -> bool:
        """Free the slot of an agent that can do without a process; False if there is none."""
        ...


class LiveSlotUsers:
    """The agents of the run. `open_requests` gives an agent's open requests by its path."""

    def __init__(
        self,
        running: RunContext,
        agents: AgentManager,
        lifecycle: AgentLifecycle,
        open_requests: Callable[[str], Iterable[AnyRequest]],
    ) -> None:
        self._run, self._agents, self._lifecycle = running, agents, lifecycle
        self._open_requests = open_requests

    def waiting_count(self) -> int:
        registry = self._run.agents.registry
        is_starting = registry.used > len(self._live())
        return 0 if is_starting else registry.waiting

    def holders(self) -> list[HeldSlot]:
        return [self._describe(agent) for agent in self._live()]

    async def free_slot(self) -> bool:
        live = sorted(self._live(), key=lambda agent: suspension_cost(self._describe(agent)))
        for agent in live:
            if self._lifecycle.is_idle(agent):
                await self._agents.end(agent)
                return True
            if self._lifecycle.only_waits(agent) and await self._lifecycle.suspend(agent):
                return True
        return False

    def _live(self) -> list[Agent]:
        """No reviewer, and no agent that waits for a restart."""
        holds = self._run.agents.registry.pid_of
        return [agent for agent in self._agents.agents.values() if holds(agent.path) is not None]

    def _describe(self, agent: Agent) -> HeldSlot:
        process = agent.process
        asked = (_TOOLS.get(type(one)) for one in self._open_requests(agent.path))
        return HeldSlot(
            path=agent.path,
            is_ending=agent.wanted_end is not None or process.suspending,
            has_turn=process.turn is not None,
            is_idle=self._lifecycle.is_idle(agent),
            requests=frozenset(tool for tool in asked if tool is not None),
            open_calls=tuple(process.open_calls.values()),
            has_unstarted_calls=bool(process.unstarted_calls),
            responding=process.responding,
            has_input=bool(agent.pending_inputs),
        )


class PendingSpawn:
    """A waiting spawn. `reason` is set if it was failed to resolve a deadlock."""

    def __init__(self) -> None:
        self.scope = trio.CancelScope()
        self.reason = ""


class DeadlockDetector:
    """Checks while any agent waits for a slot; sleeps otherwise."""

    def __init__(self, users: SlotUsers) -> None:
        self._users = users
        self._spawns: list[PendingSpawn] = []
        self._woken = trio.Event()

    def wake(self) -> None:
        """An agent joins the queue now."""
        self._woken.set()

    @contextmanager
    def track_spawn(self) -> Iterator[PendingSpawn]:
        """Wrap a spawn. If the detector fails it, the block is cancelled and `reason` is set."""
        spawn = PendingSpawn()
        self._spawns.append(spawn)
        self.wake()
        try:
            with spawn.scope:
                yield spawn
        finally:
            self._spawns.remove(spawn)

    async def run(self) -> None:
        """Run until cancelled."""
        while True:
            await self._woken.wait()
            self._woken = trio.Event()
            await trio.sleep(POLL_S)
            stuck_since: float | None = None
            while self._users.waiting_count() or self._spawns:
                if not self._is_deadlocked() or await self._users.free_slot():
                    stuck_since = None
                elif stuck_since is None:
                    stuck_since = trio.current_time()
                elif trio.current_time() - stuck_since > CONFIRM_AFTER_S:
                    self._fail_youngest()
                    stuck_since = None
                await trio.sleep(POLL_S)

    def _is_deadlocked(self) -> bool:
        holders = self._users.holders()
        return self._users.waiting_count() > 0 and bool(holders) and all(map(is_blocked, holders))

    def _fail_youngest(self) -> None:
        if self._spawns:
            spawn = self._spawns[-1]
            spawn.reason = DEADLOCK_MESSAGE
            spawn.scope.cancel()

"""Finds agents that are blocked on others, and frees the slot of one that can give it up.

An agent counts as blocked only if nothing of its own is in progress: no command, no model response,
no message that will end its wait.
"""

from collections.abc import Callable, Iterable

from swarm.mailbox.ids import ROOT_PATH
from swarm.mailbox.protocol.requests import AnyRequest, Spawn, SpawnOnCsv, WaitFor

from ..run_context import RunContext
from .agent_manager import AgentManager
from .agent_record import Agent
from .lifecycle import AgentLifecycle

_WAITING_TOOLS = frozenset({"spawn_agent", "wait_agent", "spawn_agents_on_csv"})


class BlockedAgents:
    """Answers the deadlock detector. `asked` gives an agent's open requests by its path."""

    def __init__(
        self,
        running: RunContext,
        control: AgentManager,
        lives: AgentLifecycle,
        asked: Callable[[str], Iterable[AnyRequest]],
    ) -> None:
        self._run, self._agents, self._lifecycle, self._open_requests = (
            running,
            control,
            lives,
            asked,
        )

    def slot_holders(self) -> list[Agent]:
        """The agents that hold a slot: no reviewer, and no agent that waits for a restart."""
        holds = self._run.registry.pid_of
        return [life for life in self._agents.agents.values() if holds(life.path) is not None]

    def waiting_count(self) -> int:
        """How many agents wait for a slot; 0 while any agent is being started."""
        is_starting = self._run.registry.used > len(self.slot_holders())
        return 0 if is_starting else len(self._run.slot_scheduler)

    def is_blocked(self, life: Agent) -> bool:
        """True if the agent does nothing until another agent does something."""
        if life.wanted_end is not None or life.process.suspending:
            return False
        process = life.process
        if process.turn is None:
            return life.path == ROOT_PATH and self._lifecycle.is_idle(life)
        asked = tuple(self._open_requests(life.path))
        has_asked = any(isinstance(one, Spawn | WaitFor | SpawnOnCsv) for one in asked)
        only_waits = all(tool in _WAITING_TOOLS for tool in process.open_calls.values())
        # An input that it has not taken up ends a wait, but not a spawn that waits for a slot.
        goes_on = bool(life.pending_inputs) and any(isinstance(one, WaitFor) for one in asked)
        return has_asked and only_waits and not process.responding and not goes_on

    async def free_slot(self, live: list[Agent]) -> bool:
        """Free the slot of the agent nearest to the root that can do without a process.

        Agents that wait for others come before agents that wait for a slot: those need their
        process sooner. Agents with unstarted calls come last: their next process is told that these
        calls never ran.
        """
        for life in sorted(live, key=_suspend_cost):
            if self._lifecycle.is_idle(life):
                await self._agents.end(life)
                return True
            if self._lifecycle.only_waits(life) and await self._lifecycle.suspend(life):
                return True
        return False


def _suspend_cost(life: Agent) -> tuple[bool, bool, int]:
    waits_for_slot = "spawn_agent" in life.process.open_calls.values()
    return bool(life.process.unstarted_calls), waits_for_slot, life.path.count("/")

"""What other parts of a run do for its agents, and what they are told of them."""

from collections.abc import Awaitable, Callable
from typing import NamedTuple, Protocol

from swarm.mailbox.protocol.sampling import ModelInfo
from swarm.mailbox.protocol.values.limits import Budget

from .agent_phases import AgentEvent, Effect
from .agent_record import Agent


class AgentListener(Protocol):
    """Receives what happens to agents; the team implements it. Quick, and raises nothing."""

    def on_agent_event(
        self, agent: Agent, event: AgentEvent, effects: frozenset[Effect] = frozenset()
    ) -> None:
        """TURN_STARTED, WORK_ENDED, PROCESS_ENDED or PROCESS_GONE; the phase has changed."""


async def _admit_everybody(path: str, budget: Budget) -> None:
    """Without a budget service no limit applies."""


async def _without_gateway() -> None:
    """Nobody remembers a limit."""


class AgentHooks(NamedTuple):
    """What other parts of the run do for agents; the defaults are for runs without these parts."""

    admit: Callable[[str, Budget], Awaitable[None]] = _admit_everybody  # before a process starts
    forget: Callable[[Agent], None] | None = None  # it has no process any more
    find_model: Callable[[], ModelInfo | None] | None = None  # the run's model, once known
    # The gateway forgets the limits that it knows of.
    try_now: Callable[[], Awaitable[None]] = _without_gateway

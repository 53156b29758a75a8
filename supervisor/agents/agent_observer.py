"""Who is told what becomes of agents: the contract between control and the team."""

from typing import Protocol

from swarm.mailbox.protocol.ops import Mail

from .live_agent import LiveAgent


class AgentObserver(Protocol):
    """Who is told what becomes of agents: the team. Every call is quick and raises nothing."""

    def on_process_started(self, agent: LiveAgent) -> None:
        """A life has begun; what waits for it is handed over next."""

    def on_turn_started(self, agent: LiveAgent) -> None:
        """A turn has started."""

    def on_input(self, agent: LiveAgent) -> None:
        """A person's input for it came."""

    def on_mail_read(self, agent: LiveAgent, mail: Mail) -> None:
        """A letter stands in its history now."""

    def on_work_ended(self, agent: LiveAgent) -> None:
        """Its work reached the end state `agent.outcome`."""

    def on_process_ended(self, agent: LiveAgent) -> None:
        """A life has ended; another one may follow."""

    def on_gone(self, agent: LiveAgent) -> None:
        """It has no process and will have none unless somebody wants it."""


class NullObserver:
    """Watches nothing."""

    def _ignore(self, agent: LiveAgent) -> None:
        pass

    def on_mail_read(self, agent: LiveAgent, mail: Mail) -> None:
        pass

    on_process_started = on_turn_started = on_input = on_work_ended = on_process_ended = on_gone = (
        _ignore
    )

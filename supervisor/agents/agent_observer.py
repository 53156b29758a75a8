"""Observer of agent events: the interface between the agent manager and the team."""

from typing import Protocol

from swarm.mailbox.protocol.ops import Mail

from .live_agent import LiveAgent


class AgentObserver(Protocol):
    """Receives agent events; the team implements it. Every call is quick and raises nothing."""

    def on_process_started(self, agent: LiveAgent) -> None:
        """A process has started; what waits for it is delivered next."""

    def on_turn_started(self, agent: LiveAgent) -> None:
        """A turn has started."""

    def on_input(self, agent: LiveAgent) -> None:
        """An input for it was sent."""

    def on_mail_read(self, agent: LiveAgent, mail: Mail) -> None:
        """A mail is now in its history."""

    def on_work_ended(self, agent: LiveAgent) -> None:
        """Its work reached the end state `agent.outcome`."""

    def on_process_ended(self, agent: LiveAgent) -> None:
        """A process has ended; another one may follow."""

    def on_gone(self, agent: LiveAgent) -> None:
        """It has no process, and gets one only when somebody requests it."""


class NullObserver:
    """Ignores all events."""

    def _ignore(self, agent: LiveAgent) -> None:
        pass

    def on_mail_read(self, agent: LiveAgent, mail: Mail) -> None:
        pass

    on_process_started = on_turn_started = on_input = on_work_ended = on_process_ended = on_gone = (
        _ignore
    )

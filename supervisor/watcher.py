"""Who is told what becomes of agents: the contract between control and the team."""

from typing import Protocol

from swarm.mailbox.protocol.ops import Mail

from .agents import LiveAgent


class Watcher(Protocol):
    """Who is told what becomes of agents: the team. Every call is quick and raises nothing."""

    def born(self, agent: LiveAgent) -> None:
        """A life has begun; what waits for it is handed over next."""

    def turned(self, agent: LiveAgent) -> None:
        """A turn has started."""

    def spoken_to(self, agent: LiveAgent) -> None:
        """A person's input for it came."""

    def read(self, agent: LiveAgent, mail: Mail) -> None:
        """A letter stands in its history now."""

    def concluded(self, agent: LiveAgent) -> None:
        """Its work reached the end state `agent.outcome`."""

    def died(self, agent: LiveAgent) -> None:
        """A life has ended; another one may follow."""

    def gone(self, agent: LiveAgent) -> None:
        """It has no process and will have none unless somebody wants it."""


class Nobody:
    """Watches nothing."""

    def _ignore(self, agent: LiveAgent) -> None:
        pass

    def read(self, agent: LiveAgent, mail: Mail) -> None:
        pass

    born = turned = spoken_to = concluded = died = gone = _ignore

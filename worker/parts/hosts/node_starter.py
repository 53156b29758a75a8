"""What starts a node on another machine, and watches that it lives. Ray is one way."""

from typing import NamedTuple, Protocol

from swarm.mailbox.base.errors import SwarmError
from swarm.mailbox.protocol.nodes import NodeCard, NodeOrder


class NodeUnavailable(SwarmError):
    """No node can be started there; the message says why."""


class Machine(NamedTuple):
    """A machine on which a node can be started."""

    name: str  # unique among all machines
    address: str  # where its nodes listen, and can be reached from here
    resources: dict[str, float] = {}


def check_card(card: NodeCard, version: str) -> None:
    """Raises NodeUnavailable for a node of another version, and where no agent gets a copy."""
    if card.copies and card.sandbox == "none":
        raise NodeUnavailable(
            f"agents cannot work in copies there: {card.copies}; `swarm doctor` on that machine "
            "says what is missing"
        )
    if card.version != version:
        raise NodeUnavailable(
            f"it has swarm {card.version}, and this is {version}: install the same version there"
        )


class StartedNode(Protocol):
    """A node that was started."""

    @property
    def card(self) -> NodeCard: ...

    async def wait_ended(self) -> str:
        """Return why, once what holds the node there is gone; the node is gone soon afterwards."""
        ...

    async def stop(self) -> None:
        """Take away what holds it there. May be called when it has ended."""
        ...


class NodeStarter(Protocol):
    """The machines of one table of the configuration."""

    async def open(self) -> None:
        """Connect to what knows the machines. Raises NodeUnavailable."""
        ...

    async def close(self) -> None:
        """Disconnect: what was started there goes."""
        ...

    async def machines(self) -> tuple[Machine, ...]:
        """Those that are there now. Raises NodeUnavailable."""
        ...

    async def start(self, machine: Machine, order: NodeOrder) -> StartedNode:
        """Start a node. Raises NodeUnavailable."""
        ...

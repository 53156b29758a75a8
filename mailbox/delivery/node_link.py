"""The link between a node and its driver: what shares it, told apart by the first frame.

`c`: numbered messages (`protocol/nodes.py`); `s`, `g`: mail of agents, which a relay carries; `e`:
an echo. Both ends are this one piece of code.
"""

from collections.abc import Callable
from typing import Protocol

import trio

from .curve_link import Link
from .dealer import SinglePeerMailbox
from .endpoint import SOLE_PEER, ReliableEndpoint
from .relay import is_relayed

ECHO = b"e"
_CONTROL, _CONTROL_FRAMES = b"c", 3  # mark, nothing, frame


class Relay(Protocol):
    """Takes messages for which `is_relayed` holds."""

    def take(self, message: list[bytes]) -> None: ...


class NodeLink:
    """One end. Nothing is received before `start`.

    Args:
        link: To the other end; the caller closes it.
        epoch: Of the node's start, the same at both ends.
    """

    def __init__(self, link: Link, *, epoch: int) -> None:
        self.link = link
        self._control = ReliableEndpoint(
            lambda _peer, frame: link.send(_CONTROL, b"", frame), epoch=epoch
        )
        self.mailbox = SinglePeerMailbox(self._control)

    def start(
        self, nursery: trio.Nursery, relay: Relay, on_echo: Callable[[list[bytes]], None]
    ) -> None:
        """Pass on every message while `nursery` is open; `on_echo` gets an echo's whole message."""

        def take(message: list[bytes]) -> None:
            if is_relayed(message):
                relay.take(message)
            elif message[0] == ECHO:
                on_echo(message)
            elif len(message) == _CONTROL_FRAMES and message[0] == _CONTROL:
                self._control.receive_frame(SOLE_PEER, message[2])

        self.link.start(nursery, take)
        nursery.start_soon(self._control.run_acks)
        nursery.start_soon(self._control.run_probes)

    def announce(self) -> None:
        """Tell the other end that it can reach us: after a failure it sends nothing before that."""
        self._control.announce(SOLE_PEER)

"""A child's end of a mailbox: a DEALER socket under a desk with one peer."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

import trio
import zmq

from .desk import OTHER_SIDE, Desk, SoleMailbox
from .gate import through_gate
from .polled import PolledSocket, open_socket
from .wire import over_wire

_KNOCK_AGAIN_MS = 5  # nobody listens yet: the first agent is often ready before the gateway
_KNOCK_LATER_MS = 500  # the pause doubles up to this

_ROUTING_ID = int(zmq.ROUTING_ID)
_RECONNECT_IVL, _RECONNECT_IVL_MAX = int(zmq.RECONNECT_IVL), int(zmq.RECONNECT_IVL_MAX)


@asynccontextmanager
async def open_dealer(endpoint: str, identity: bytes, *, epoch: int) -> AsyncIterator[SoleMailbox]:
    """A mailbox to whoever listens at `endpoint`; it may begin to listen later.

    All sockets of a process share one ZeroMQ context, made here (so after any fork) and ended with
    the last of them. What is unsent at the end of the block is dropped: `flush` first, under a
    deadline.

    Args:
        endpoint: As `ipc:///run/…/mail`; the path at most 107 bytes.
        identity: Unique to this life of the process: role, agent id and epoch. 1 to 255 bytes, the
            first not zero.
        epoch: The life of this process; it is written in every envelope.

    Raises:
        NoEndpoint: `endpoint` is no address.
    """
    with open_socket("dealer") as sock:
        sock.raw.set(_ROUTING_ID, identity)
        sock.raw.set(_RECONNECT_IVL, _KNOCK_AGAIN_MS)
        sock.raw.set(_RECONNECT_IVL_MAX, _KNOCK_LATER_MS)
        async with through_gate(sock, endpoint), trio.open_nursery() as nursery:
            carry = over_wire(lambda _peer, frame: sock.send(frame), nursery)
            desk = Desk(carry, epoch=epoch)
            mailbox = SoleMailbox(desk)
            sock.begin_pump(nursery, partial(_take, desk))
            nursery.start_soon(desk.tend_acknowledgements)
            nursery.start_soon(desk.tend_silence)
            desk.greet(OTHER_SIDE)
            try:
                yield mailbox
            finally:
                desk.hang_up()
                nursery.cancel_scope.cancel()


def _take(desk: Desk, message: list[bytes]) -> None:
    if len(message) == 1:
        desk.arrive(OTHER_SIDE, message[0])
    else:
        desk.refuse("malformed")


@asynccontextmanager
async def open_asker(endpoint: str) -> AsyncIterator[PolledSocket]:
    """A nameless, unnumbered connection for one question (control.py). Raises NoEndpoint."""
    with open_socket("dealer") as sock:
        async with through_gate(sock, endpoint):
            yield sock

"""A child's end of a mailbox: a DEALER socket under a desk with one peer."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

import trio
import zmq

from .endpoint import SOLE_PEER, ReliableEndpoint, SinglePeerMailbox
from .fault_injection import with_injected_faults
from .guarded_listener import open_guarded_connection
from .polled import PolledSocket, open_socket

_RECONNECT_MS = 5  # nobody listens yet: the first agent is often ready before the gateway
_MAX_RECONNECT_MS = 500  # the pause doubles up to this

_ROUTING_ID = int(zmq.ROUTING_ID)
_RECONNECT_IVL, _RECONNECT_IVL_MAX = int(zmq.RECONNECT_IVL), int(zmq.RECONNECT_IVL_MAX)


@asynccontextmanager
async def open_dealer(
    endpoint: str, identity: bytes, *, epoch: int
) -> AsyncIterator[SinglePeerMailbox]:
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
        sock.raw.set(_RECONNECT_IVL, _RECONNECT_MS)
        sock.raw.set(_RECONNECT_IVL_MAX, _MAX_RECONNECT_MS)
        async with open_guarded_connection(sock, endpoint), trio.open_nursery() as nursery:
            carry = with_injected_faults(lambda _peer, frame: sock.send(frame), nursery)
            desk = ReliableEndpoint(carry, epoch=epoch)
            mailbox = SinglePeerMailbox(desk)
            sock.start_pump(nursery, partial(_receive_message, desk))
            nursery.start_soon(desk.run_acks)
            nursery.start_soon(desk.run_probes)
            desk.announce(SOLE_PEER)
            try:
                yield mailbox
            finally:
                desk.disconnect()
                nursery.cancel_scope.cancel()


def _receive_message(desk: ReliableEndpoint, message: list[bytes]) -> None:
    if len(message) == 1:
        desk.receive_frame(SOLE_PEER, message[0])
    else:
        desk.count_drop("malformed")


@asynccontextmanager
async def open_request_client(endpoint: str) -> AsyncIterator[PolledSocket]:
    """A nameless, unnumbered connection for one question (control.py). Raises NoEndpoint."""
    with open_socket("dealer") as sock:
        async with open_guarded_connection(sock, endpoint):
            yield sock

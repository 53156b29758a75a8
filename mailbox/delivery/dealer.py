"""Client end of a mailbox: a DEALER socket with a reliable endpoint for one peer."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial

import trio
import zmq

from .endpoint import SOLE_PEER, ReliableEndpoint
from .fault_injection import with_injected_faults
from .guarded_listener import open_guarded_connection
from .interfaces import MailboxStatistics, ReceivedMessage
from .polled import PolledSocket, open_socket

_RECONNECT_MS = 5  # short: the first agent is often ready before the gateway listens
_MAX_RECONNECT_MS = 500  # the pause doubles up to this

_ROUTING_ID = int(zmq.ROUTING_ID)
_RECONNECT_IVL, _RECONNECT_IVL_MAX = int(zmq.RECONNECT_IVL), int(zmq.RECONNECT_IVL_MAX)


class SinglePeerMailbox:
    """A client's end: an endpoint with one peer, whose epoch is that of its first envelope."""

    def __init__(self, reliable: ReliableEndpoint) -> None:
        self._endpoint = reliable
        reliable.admit(SOLE_PEER, epoch=0)

    async def post(self, body: bytes) -> int:
        return await self._endpoint.post(SOLE_PEER, body)

    def post_nowait(self, body: bytes) -> int:
        return self._endpoint.post_nowait(SOLE_PEER, body)

    def send_transient(self, body: bytes) -> None:
        self._endpoint.send_transient(SOLE_PEER, body)

    async def wait_acknowledged(self, seq: int) -> None:
        await self._endpoint.wait_acknowledged(SOLE_PEER, seq)

    async def receive(self) -> ReceivedMessage:
        return await self._endpoint.receive()

    async def consume(self, take: Callable[[ReceivedMessage], bool]) -> None:
        await self._endpoint.consume(take)

    def acknowledge(self, message: ReceivedMessage, *, soon: bool = True) -> None:
        self._endpoint.acknowledge(message, soon=soon)

    async def flush(self) -> None:
        await self._endpoint.flush(SOLE_PEER)

    def statistics(self) -> MailboxStatistics:
        """The counters of this end."""
        return self._endpoint.statistics()


@asynccontextmanager
async def open_dealer(
    endpoint: str, identity: bytes, *, epoch: int
) -> AsyncIterator[SinglePeerMailbox]:
    """Open a mailbox to the server at `endpoint`, which may begin to listen later.

    All sockets of a process share one ZeroMQ context. The first socket creates it, so it is never
    inherited by a fork; the last one ends it. Unsent messages are dropped at the end of the block:
    call `flush` first, with a deadline.

    Args:
        endpoint: As `ipc:///run/…/mail`; the path has at most 107 bytes.
        identity: Unique to this process: role, agent id and epoch. 1 to 255 bytes, the first not
            zero.
        epoch: Number of this start of the process; every envelope carries it.

    Raises:
        EndpointUnavailable: `endpoint` is not a valid address.
    """
    with open_socket("dealer") as sock:
        sock.raw.set(_ROUTING_ID, identity)
        sock.raw.set(_RECONNECT_IVL, _RECONNECT_MS)
        sock.raw.set(_RECONNECT_IVL_MAX, _MAX_RECONNECT_MS)
        async with open_guarded_connection(sock, endpoint), trio.open_nursery() as nursery:
            carry = with_injected_faults(lambda _peer, frame: sock.send(frame), nursery)
            reliable = ReliableEndpoint(carry, epoch=epoch)
            mailbox = SinglePeerMailbox(reliable)
            sock.start_pump(nursery, partial(_receive_message, reliable))
            nursery.start_soon(reliable.run_acks)
            nursery.start_soon(reliable.run_probes)
            reliable.announce(SOLE_PEER)
            try:
                yield mailbox
            finally:
                reliable.disconnect()
                nursery.cancel_scope.cancel()


def _receive_message(reliable: ReliableEndpoint, message: list[bytes]) -> None:
    if len(message) == 1:
        reliable.receive_frame(SOLE_PEER, message[0])
    else:
        reliable.count_drop("malformed")


@asynccontextmanager
async def open_request_client(endpoint: str) -> AsyncIterator[PolledSocket]:
    """An unnumbered, anonymous connection for one request. Raises EndpointUnavailable."""
    with open_socket("dealer") as sock:
        async with open_guarded_connection(sock, endpoint):
            yield sock

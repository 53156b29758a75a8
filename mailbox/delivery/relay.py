"""Carries mailbox frames of agents on another machine over a link, without reading them.

On the far machine (`FarRelay`) agents connect to sockets as they do at home. At home (`NearRelay`)
each of them is a client of the supervisor's or the gateway's own socket, under the agent's own
identity. Numbers, acknowledgements and proofs are between those two ends; a frame that is lost here
is sent again by them. A far machine can speak only for the agents that were started on it.
"""

from collections import deque
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from functools import partial
from typing import Protocol

import trio
import zmq

from .guarded_listener import open_guarded_connection, open_guarded_listener
from .polled import PolledSocket, open_socket
from .zmq_context import FRAME_LIMIT_BYTES, EndpointUnavailable

SUPERVISOR, GATEWAY = b"s", b"g"  # the doors; the first frame of each message names one
_WAITING_FRAMES = 256  # of an agent whose connection is being made; further ones are lost
_PARTS = 3  # door, identity, frame


class SendFrames(Protocol):
    """Sends the frames of one message over the link, without waiting."""

    def __call__(self, *frames: bytes) -> bool: ...


def is_relayed(message: list[bytes]) -> bool:
    """True for a message of a relay."""
    return (
        len(message) == _PARTS
        and message[0] in (SUPERVISOR, GATEWAY)
        and len(message[2]) <= FRAME_LIMIT_BYTES
    )


class FarRelay:
    """The sockets to which agents on this machine connect."""

    def __init__(self, send: SendFrames) -> None:
        self._send = send
        self._doors: dict[bytes, PolledSocket] = {}

    @asynccontextmanager
    async def open_door(self, door: bytes, endpoint: str) -> AsyncIterator[None]:
        """Let agents connect at `endpoint` during the block. Raises EndpointUnavailable."""
        with open_socket("router") as sock:
            sock.raw.router_mandatory = 1
            sock.raw.router_handover = 1  # an agent whose gateway has moved connects again
            async with open_guarded_listener(sock, endpoint), trio.open_nursery() as nursery:
                self._doors[door] = sock
                sock.start_pump(nursery, partial(self._pass_on, door))
                try:
                    yield
                finally:
                    del self._doors[door]
                    nursery.cancel_scope.cancel()

    def _pass_on(self, door: bytes, message: list[bytes]) -> None:
        if len(message) == _PARTS - 1:
            self._send(door, *message)

    def take(self, message: list[bytes]) -> None:
        """Give a message of the near relay to its agent; one that is not connected misses it."""
        door, identity, frame = message
        if (sock := self._doors.get(door)) is not None:
            sock.send(identity, frame)


class _Peer:
    """The connection of one agent through one door."""

    def __init__(self) -> None:
        self.scope = trio.CancelScope()
        self.sock: PolledSocket | None = None  # None: the connection is being made
        self.waiting = deque[bytes](maxlen=_WAITING_FRAMES)

    def send(self, frame: bytes) -> None:
        if self.sock is None:
            self.waiting.append(frame)
        else:
            self.sock.send(frame)


class NearRelay:
    """The clients that stand for the agents of one far machine.

    Args:
        send: Sends over the link to that machine.
        nursery: Holds the connections; the caller cancels it.
        endpoints: Where each door leads at home.
    """

    def __init__(
        self, send: SendFrames, nursery: trio.Nursery, endpoints: Mapping[bytes, str]
    ) -> None:
        self._send, self._nursery, self._endpoints = send, nursery, dict(endpoints)
        self._admitted: set[bytes] = set()
        self._peers: dict[tuple[bytes, bytes], _Peer] = {}

    def admit(self, identity: bytes) -> None:
        """An agent of this identity is started there."""
        self._admitted.add(identity)

    def dismiss(self, identity: bytes) -> None:
        """The agent's process has ended there, or the machine is lost."""
        self._admitted.discard(identity)
        for door in (SUPERVISOR, GATEWAY):
            self._drop(door, identity)

    def move(self, door: bytes, endpoint: str) -> None:
        """What was behind the door listens elsewhere now; agents' next frames lead there."""
        self._endpoints[door] = endpoint
        for known, identity in tuple(self._peers):
            if known == door:
                self._drop(door, identity)

    def take(self, message: list[bytes]) -> None:
        """Pass on a message of the far relay. One of an agent that is not admitted is dropped."""
        door, identity, frame = message
        if identity not in self._admitted or door not in self._endpoints:
            return
        peer = self._peers.get((door, identity))
        if peer is None:
            peer = self._peers[door, identity] = _Peer()
            self._nursery.start_soon(self._hold, door, identity, peer)
        peer.send(frame)

    def _drop(self, door: bytes, identity: bytes) -> None:
        if (peer := self._peers.pop((door, identity), None)) is not None:
            peer.scope.cancel()

    async def _hold(self, door: bytes, identity: bytes, peer: _Peer) -> None:
        """One connection, until it is dropped."""
        try:
            with peer.scope:
                await self._connect(door, identity, peer)
        except EndpointUnavailable:
            if self._peers.get((door, identity)) is peer:
                del self._peers[door, identity]  # the next frame tries again

    async def _connect(self, door: bytes, identity: bytes, peer: _Peer) -> None:
        def pass_on(message: list[bytes]) -> None:
            if len(message) == 1:
                self._send(door, identity, message[0])

        with open_socket("dealer") as sock:
            sock.raw.set(int(zmq.ROUTING_ID), identity)
            endpoint = self._endpoints[door]
            async with open_guarded_connection(sock, endpoint), trio.open_nursery() as nursery:
                sock.start_pump(nursery, pass_on)
                peer.sock = sock
                while peer.waiting:
                    sock.send(peer.waiting.popleft())
                await trio.sleep_forever()

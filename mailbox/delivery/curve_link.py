"""An encrypted link over TCP between two processes of ours on two machines.

One end listens (the node), the other connects (the process that drives it). Each knows the other's
public key before, from an authenticated channel that is not this one; nobody else gets in. Frames
are encrypted and authenticated by CurveZMQ. The link carries frames and promises nothing: a lost
connection is made again, and what was under way is lost. Numbers and acknowledgements are above it.

Source: CurveZMQ (RFC 26), ZAP (RFC 27).
"""

import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from typing import NamedTuple

import trio
import zmq
from zmq.utils import z85

from .polled import PolledSocket, bind, connect, open_socket
from .zmq_context import EndpointUnavailable

_ZAP = "inproc://zeromq.zap.01"  # the name that the specification gives it
_DOMAIN = b"swarm-link"
_CLIENT = b"driver"
_QUEUED_FRAMES = 4096  # towards a peer that does not read; further ones are lost
_BEAT_MS, _BEAT_LIMIT_MS = 2_000, 10_000  # of ZeroMQ itself: finds connections that are dead
_RECONNECT_MS, _MAX_RECONNECT_MS = 50, 2_000
_ZAP_FRAMES = 8  # with the sender, and one credential

TakeFrames = Callable[[list[bytes]], None]
"""Gets the frames of one message; must not wait."""


class LinkKeys(NamedTuple):
    """A key pair of CurveZMQ, in Z85: 40 characters each."""

    public: bytes
    secret: bytes


def new_link_keys() -> LinkKeys:
    """A fresh pair, for one end in one run. It is never written to disk."""
    return LinkKeys(*zmq.curve_keypair())


class Link:
    """One end of a link. Nothing is received before `start`."""

    def __init__(self, sock: PolledSocket, peer: bytes | None) -> None:
        self._sock, self._peer = sock, peer
        self.last_heard = time.monotonic()  # of the peer; only its own frames count

    def send(self, *frames: bytes) -> bool:
        """Send a message without waiting. False: nobody is connected, or too much waits."""
        if self._peer is None:
            return self._sock.send(*frames)
        return self._sock.send(self._peer, *frames)

    def start(self, nursery: trio.Nursery, handle: TakeFrames) -> None:
        """Pass every message to `handle` while `nursery` is open."""
        self._sock.start_pump(nursery, partial(self._take, handle))

    def _take(self, handle: TakeFrames, frames: list[bytes]) -> None:
        """Pass a message on, without the sender's name, which is always the same."""
        self.last_heard = time.monotonic()
        handle(frames if self._peer is None else frames[1:])


@asynccontextmanager
async def listen_link(
    address: str, keys: LinkKeys, peer_key: bytes
) -> AsyncIterator[tuple[Link, int]]:
    """Listen at a TCP address for the one peer that has `peer_key`; yields the link and its port.

    Args:
        address: Of an interface of this machine: `10.0.0.7`.
        keys: Of this end.
        peer_key: The other end's public key.

    Raises:
        EndpointUnavailable: it cannot be bound.
    """
    async with trio.open_nursery() as nursery:
        with _gatekeeper(nursery, peer_key), open_socket("router") as sock:
            sock.raw.router_mandatory = sock.raw.router_handover = 1
            for option, value in (
                (zmq.CURVE_SERVER, 1),
                (zmq.CURVE_SECRETKEY, keys.secret),
                (zmq.ZAP_DOMAIN, _DOMAIN),
            ):
                sock.raw.set(int(option), value)
            _set_limits(sock)
            try:
                port = sock.raw.bind_to_random_port(f"tcp://{address}")
            except zmq.ZMQError as error:
                raise EndpointUnavailable(f"no link at {address}: {error.strerror}") from error
            try:
                yield Link(sock, _CLIENT), port
            finally:
                nursery.cancel_scope.cancel()


@contextmanager
def connect_link(address: str, port: int, keys: LinkKeys, peer_key: bytes) -> Iterator[Link]:
    """Connect to the listener that has `peer_key`, now or as soon as it can be reached.

    The arguments are as for `listen_link`. Raises EndpointUnavailable: the address cannot be used.
    """
    with open_socket("dealer") as sock:
        for option, value in (
            (zmq.ROUTING_ID, _CLIENT),
            (zmq.CURVE_SERVERKEY, peer_key),
            (zmq.CURVE_PUBLICKEY, keys.public),
            (zmq.CURVE_SECRETKEY, keys.secret),
            (zmq.RECONNECT_IVL, _RECONNECT_MS),
            (zmq.RECONNECT_IVL_MAX, _MAX_RECONNECT_MS),
        ):
            sock.raw.set(int(option), value)
        _set_limits(sock)
        connect(sock, f"tcp://{address}:{port}")
        yield Link(sock, None)


def _set_limits(sock: PolledSocket) -> None:
    for option, value in (
        (zmq.SNDHWM, _QUEUED_FRAMES),
        (zmq.HEARTBEAT_IVL, _BEAT_MS),
        (zmq.HEARTBEAT_TIMEOUT, _BEAT_LIMIT_MS),
        (zmq.HANDSHAKE_IVL, _BEAT_LIMIT_MS),
        (zmq.IPV6, 1),
    ):
        sock.raw.set(int(option), value)


@contextmanager
def _gatekeeper(nursery: trio.Nursery, allowed: bytes) -> Iterator[None]:
    """Admit the holder of this public key to listeners of this process, and nobody else."""
    key = z85.decode(allowed)
    with open_socket("router") as sock:
        bind(sock, _ZAP)

        def answer(asked: list[bytes]) -> None:
            if len(asked) < _ZAP_FRAMES:
                return  # malformed: no answer refuses, too
            sender, _, version, number, domain, _, _, mechanism, *credentials = asked
            is_known = (domain, mechanism, credentials) == (_DOMAIN, b"CURVE", [key])
            status, text = (b"200", b"OK") if is_known else (b"400", b"unknown key")
            sock.send(sender, b"", version, number, status, text, b"", b"")

        sock.start_pump(nursery, answer)
        yield

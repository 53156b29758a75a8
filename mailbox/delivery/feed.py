"""Event feed for watchers: one publisher (XPUB), any number of readers (SUB).

A slow or absent watcher never delays the publisher. Messages that a reader cannot take are dropped;
the gap in the numbers tells it to fetch the snapshot again.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import trio
import zmq

from ..base.errors import MalformedMessage
from .envelope import FRAME_BYTES
from .guarded_listener import open_guarded_connection, open_guarded_listener
from .polled import PolledSocket, open_socket

QUEUE_MESSAGES = 1024  # queued for a slow watcher before messages are dropped
_NUMBER_BYTES = 8


class Feed:
    """The publisher. Each message has a number, counted also while there is no watcher."""

    def __init__(self, sock: PolledSocket) -> None:
        self._sock = sock
        self._number = 0
        self.watchers = 0  # readers that have joined

    def publish(self, body: bytes) -> None:
        """Send to all watchers without waiting. An empty body, or one over 1 MiB, leaves a gap.

        If the body is costly to make, check `watchers` first.
        """
        self._number += 1
        if self.watchers and 0 < len(body) <= FRAME_BYTES:
            self._send(body)

    def _send(self, body: bytes) -> None:
        self._sock.send(self._number.to_bytes(_NUMBER_BYTES, "big"), body)

    async def track_watchers(self) -> None:
        """Count watchers that join and leave; answer a join with the last number and an empty body.

        Runs until cancelled; `open_feed` starts it.
        """
        while True:
            first, *_ = await self._sock.receive()
            if first == b"\x01":
                self.watchers += 1
                self._send(b"")
            elif first == b"\x00" and self.watchers:
                self.watchers -= 1


class FeedReader:
    """A watcher's end, for use by one task."""

    def __init__(self, sock: PolledSocket) -> None:
        self._sock = sock

    async def wait_joined(self) -> int:
        """Wait until the feed knows this reader; return the last number. Then fetch a snapshot.

        All messages published from here on are received or leave a gap. The caller sets a deadline:
        without a publisher this waits for ever.
        """
        while True:
            number, body = await self._message()
            if not body:
                return number

    async def receive(self) -> tuple[int, bytes]:
        """The next message and its number. A number that is not the last one plus 1 is a gap.

        Raises MalformedMessage if the peer is not a feed.
        """
        while True:
            number, body = await self._message()
            if body:
                return number, body

    async def _message(self) -> tuple[int, bytes]:
        message = await self._sock.receive()
        if len(message) != 2 or len(message[0]) != _NUMBER_BYTES:
            raise MalformedMessage("the feed sent something that is not a numbered body")
        return int.from_bytes(message[0], "big"), message[1]


@asynccontextmanager
async def open_feed(endpoint: str) -> AsyncIterator[Feed]:
    """Publish at `endpoint`. Raises EndpointUnavailable if it cannot be bound."""
    with open_socket("xpub") as sock:
        sock.raw.sndhwm = QUEUE_MESSAGES
        sock.raw.setsockopt(zmq.XPUB_VERBOSER, 1)  # report every subscription, not only the first
        feed = Feed(sock)
        async with open_guarded_listener(sock, endpoint), trio.open_nursery() as nursery:
            nursery.start_soon(feed.track_watchers)
            try:
                yield feed
            finally:
                nursery.cancel_scope.cancel()


@asynccontextmanager
async def open_feed_reader(endpoint: str) -> AsyncIterator[FeedReader]:
    """Read the feed at `endpoint`; the publisher may start later."""
    with open_socket("sub") as sock:
        sock.raw.rcvhwm = QUEUE_MESSAGES
        sock.raw.subscribe(b"")
        async with open_guarded_connection(sock, endpoint):
            yield FeedReader(sock)

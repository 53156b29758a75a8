"""A client connection of the proxy: bytes with deadlines, and the tunnel that copies both ways.

Every read has a limit, so a slow client cannot hold a connection for long.
"""

from collections.abc import Awaitable, Callable
from typing import TypeVar

import trio

CHUNK_BYTES = 64 * 1024
HEAD_LIMIT_S = 30.0  # for a complete head, from its first byte or from the start of the connection
IDLE_LIMIT_S = 600.0  # for a tunnel or body without data in either direction
_DROPPING_S, _MOST_DROPPED = 2.0, 1024 * 1024
_T = TypeVar("_T")


class ClientGone(Exception):
    """The client closed the connection, or sent nothing for too long."""


class ClientConnection:
    """The connection of a command, with the bytes that were read ahead."""

    def __init__(self, stream: trio.abc.Stream, *, sock: trio.socket.SocketType) -> None:
        """`sock` is the socket below `stream`."""
        self.stream, self.sock = stream, sock
        self._kept = b""

    async def receive(self) -> bytes:
        """The next bytes; b"" at the end. Raises ClientGone."""
        if self._kept:
            kept, self._kept = self._kept, b""
            return kept
        try:
            return bytes(await self.stream.receive_some(CHUNK_BYTES))
        except trio.BrokenResourceError as error:
            raise ClientGone from error

    def push_back(self, data: bytes) -> None:
        """Put bytes back, so that the next read returns them first."""
        self._kept = data + self._kept

    async def receive_exactly(self, size: int) -> bytes:
        """Read exactly `size` bytes. Raises ClientGone at an early end."""
        data = b""
        while len(data) < size:
            more = await self.receive()
            if not more:
                raise ClientGone
            data += more
        self.push_back(data[size:])
        return data[:size]

    async def drain(self) -> None:
        """Read and discard the rest for a short time. A connection closed with unread data is
        reset, and the answer before it may be lost. Raises ClientGone.
        """
        size = 0
        with trio.move_on_after(_DROPPING_S):
            while size < _MOST_DROPPED and (data := await self.receive()):
                size += len(data)

    async def send(self, data: bytes) -> None:
        """Raises ClientGone, also if the client accepts nothing for ten minutes."""
        with trio.move_on_after(IDLE_LIMIT_S):
            try:
                await self.stream.send_all(data)
            except trio.BrokenResourceError as error:
                raise ClientGone from error
            return
        raise ClientGone

    async def run_while_connected(self, work: Callable[[], Awaitable[_T]]) -> _T:
        """Run `work`; cancel it if the client closes the connection.

        Raises ClientGone, and what `work` raises.
        """
        done: list[_T] = []
        failed: Exception | None = None
        async with trio.open_nursery() as nursery:

            async def watch() -> None:
                await self._wait_hang_up()
                nursery.cancel_scope.cancel()

            nursery.start_soon(watch)
            try:
                done.append(await work())
            except Exception as error:  # raised again below, outside the nursery's group
                failed = error
            nursery.cancel_scope.cancel()
        if failed is not None:
            raise failed
        if not done:
            raise ClientGone
        return done[0]

    async def _wait_hang_up(self) -> None:
        """Returns when the client closes the connection; waits for ever if data arrives first."""
        try:
            await trio.lowlevel.wait_readable(self.sock)
            if await self.sock.recv(1, trio.socket.MSG_PEEK):
                await trio.sleep_forever()
        except OSError:
            return


async def tunnel(client: ClientConnection, server: trio.SocketStream) -> None:
    """Copy both ways until both have ended, one failed, or no data moved for ten minutes."""
    moved = trio.current_time()

    def note() -> None:
        nonlocal moved
        moved = trio.current_time()

    async def up() -> None:
        while data := await client.receive():
            note()
            await server.send_all(data)
        await server.send_eof()

    async def down() -> None:
        while data := await server.receive_some(CHUNK_BYTES):
            note()
            await client.stream.send_all(data)
            note()
        client.sock.shutdown(trio.socket.SHUT_WR)

    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_watch_idleness, lambda: moved, nursery.cancel_scope)
            async with trio.open_nursery() as both:
                both.start_soon(up)
                both.start_soon(down)
            nursery.cancel_scope.cancel()
    except* (ClientGone, OSError, trio.BrokenResourceError, trio.ClosedResourceError):
        pass  # one side has gone: the tunnel ends


async def _watch_idleness(moved: Callable[[], float], scope: trio.CancelScope) -> None:
    while True:
        silent_s = trio.current_time() - moved()
        if silent_s >= IDLE_LIMIT_S:
            scope.cancel()
            return
        await trio.sleep(IDLE_LIMIT_S - silent_s)

"""One client connection: bytes with deadlines, and the copying both ways that a tunnel is.

Guards: every read has a limit, so a client that says a byte a minute holds nothing for long.
"""

from collections.abc import Awaitable, Callable
from typing import TypeVar

import trio

CHUNK_BYTES = 64 * 1024
HEAD_LIMIT_S = 30.0  # for a whole head, from its first byte or the connection's beginning
IDLE_LIMIT_S = 600.0  # for a tunnel or body without a byte in either direction
_DROPPING_S, _MOST_DROPPED = 2.0, 1024 * 1024
_T = TypeVar("_T")


class ClientGone(Exception):
    """It hung up, or was silent for too long."""


class ClientConnection:
    """What a command's connection says, with what was read too much kept."""

    def __init__(self, stream: trio.abc.Stream, *, sock: trio.socket.SocketType) -> None:
        """`sock` is what carries `stream`."""
        self.stream, self.sock = stream, sock
        self._kept = b""

    async def receive(self) -> bytes:
        """Some bytes; b"" at the end. Raises ClientGone."""
        if self._kept:
            kept, self._kept = self._kept, b""
            return kept
        try:
            return bytes(await self.stream.receive_some(CHUNK_BYTES))
        except trio.BrokenResourceError as error:
            raise ClientGone from error

    def push_back(self, data: bytes) -> None:
        """To be read again first."""
        self._kept = data + self._kept

    async def receive_exactly(self, size: int) -> bytes:
        """Raises ClientGone at an early end."""
        data = b""
        while len(data) < size:
            more = await self.receive()
            if not more:
                raise ClientGone
            data += more
        self.push_back(data[size:])
        return data[:size]

    async def drain(self) -> None:
        """Read what it still says and forget it, for a moment: a connection that is closed with
        words unread is reset, and the answer before it may be lost. Raises ClientGone.
        """
        size = 0
        with trio.move_on_after(_DROPPING_S):
            while size < _MOST_DROPPED and (data := await self.receive()):
                size += len(data)

    async def send(self, data: bytes) -> None:
        """Raises ClientGone; also when it takes nothing for ten minutes."""
        with trio.move_on_after(IDLE_LIMIT_S):
            try:
                await self.stream.send_all(data)
            except trio.BrokenResourceError as error:
                raise ClientGone from error
            return
        raise ClientGone

    async def run_while_connected(self, work: Callable[[], Awaitable[_T]]) -> _T:
        """Do `work` for it; if it hangs up meanwhile, the work is cancelled.

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
            except Exception as error:  # raised again below, out of the nursery's group
                failed = error
            nursery.cancel_scope.cancel()
        if failed is not None:
            raise failed
        if not done:
            raise ClientGone
        return done[0]

    async def _wait_hang_up(self) -> None:
        """Returns at the end of its words; waits for ever if it says more first."""
        try:
            await trio.lowlevel.wait_readable(self.sock)
            if await self.sock.recv(1, trio.socket.MSG_PEEK):
                await trio.sleep_forever()
        except OSError:
            return


async def tunnel(client: ClientConnection, server: trio.SocketStream) -> None:
    """Copy both ways until both have ended, one broke, or nothing moved for ten minutes."""
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
        pass  # one side is gone, and with it what the two had to say


async def _watch_idleness(moved: Callable[[], float], scope: trio.CancelScope) -> None:
    while True:
        silent_s = trio.current_time() - moved()
        if silent_s >= IDLE_LIMIT_S:
            scope.cancel()
            return
        await trio.sleep(IDLE_LIMIT_S - silent_s)

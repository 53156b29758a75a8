"""What servers write to their standard error and as log messages, gathered and sent in pieces.

A server that writes more than a piece holds loses the middle: neither the hub's memory nor the
mailbox grows with what a server writes.
"""

from collections.abc import Awaitable, Callable

import trio

from swarm.mailbox.protocol.hub import ServerLogged

PIECE_BYTES = 32 << 10  # of one server
_PAUSE_S = 0.5


class ServerLogs:
    """Text by server that was not sent yet."""

    def __init__(self) -> None:
        self._pending: dict[str, bytearray] = {}
        self._left_out: dict[str, int] = {}
        self._arrived = trio.Event()

    def add(self, server: str, data: bytes) -> None:
        """Keep what a server wrote; never waits."""
        kept = self._pending.setdefault(server, bytearray())
        room = PIECE_BYTES - len(kept)
        kept += data[:room]
        if len(data) > room:
            self._left_out[server] = self._left_out.get(server, 0) + len(data) - room
        self._arrived.set()

    def take(self) -> list[ServerLogged]:
        """What has gathered, one piece for each server."""
        pending, self._pending = self._pending, {}
        left_out, self._left_out = self._left_out, {}
        self._arrived = trio.Event()
        return [
            ServerLogged(server=name, text=_text(bytes(data), left_out.get(name, 0)))
            for name, data in pending.items()
        ]

    async def send_all(self, send: Callable[[ServerLogged], Awaitable[None]]) -> None:
        """Send pieces as they gather; loops for ever."""
        while True:
            await self._arrived.wait()
            for piece in self.take():
                await send(piece)
            await trio.sleep(_PAUSE_S)


def _text(data: bytes, left_out: int) -> str:
    text = data.decode("utf-8", "replace")
    return f"{text}\n[… {left_out:,} bytes are left out …]\n" if left_out else text

"""How a session begins: the newest revision of the protocol, or the older handshake.

Servers of older revisions answer an unknown first request with an error, with silence, or by
ending. None of the three may make them unusable, and none may cost more than a moment.
"""

from collections.abc import Awaitable, Callable

import httpx2
import mcp_types
import trio
from mcp.client.session import ClientSession
from mcp.shared.exceptions import MCPError

PROBE_S = 2.0  # a server that has said nothing by then is asked in the older way, too
_REFUSALS = (MCPError, RuntimeError, ValueError)


class Handshakes:
    """Which servers of a hub began with the older handshake, and which cannot be probed."""

    def __init__(self) -> None:
        self._unprobed: set[str] = set()

    def may_probe(self, server: str) -> bool:
        """Whether the server may get a request before `initialize`."""
        return server not in self._unprobed

    def note_older(self, server: str) -> None:
        """The server knows only the older handshake, or ended at the newer one."""
        self._unprobed.add(server)

    def forget(self, server: str) -> None:
        """Its end may have had another reason: the next start may probe it again."""
        self._unprobed.discard(server)


async def negotiate(session: ClientSession, *, probe: bool) -> bool:
    """Agree on a revision; True if that was by the newer way.

    Raises what the SDK raises: MCPError, RuntimeError, ValueError, httpx2.HTTPError.

    Args:
        probe: Ask `server/discover` first; otherwise only `initialize`.
    """
    if not probe:
        await session.initialize()
        return False
    newer, older = _Attempt(session.discover), _Attempt(session.initialize)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(newer.run)
        with trio.move_on_after(PROBE_S):
            await newer.ended.wait()
        if not newer.succeeded and not _ends_all(newer.error):
            nursery.start_soon(older.run)
            await _wait_decided(newer, older)
        nursery.cancel_scope.cancel()
    if newer.succeeded or older.succeeded:
        return newer.succeeded
    error = older.error or newer.error
    assert error is not None
    raise error


def _ends_all(error: Exception | None) -> bool:
    """Whether nothing can be asked any more after this failure of the first question."""
    return error is not None and (is_closed(error) or not isinstance(error, _REFUSALS))


def is_closed(error: Exception) -> bool:
    """Whether the SDK says that the connection has ended; servers use its code for other errors."""
    if not isinstance(error, MCPError):
        return False
    return (error.code, error.message) == (mcp_types.CONNECTION_CLOSED, "Connection closed")


async def _wait_decided(newer: "_Attempt", older: "_Attempt") -> None:
    """Return when one way has succeeded, or both have failed."""
    async with trio.open_nursery() as nursery:

        async def watch(attempt: _Attempt) -> None:
            await attempt.ended.wait()
            if attempt.succeeded or (newer.ended.is_set() and older.ended.is_set()):
                nursery.cancel_scope.cancel()

        nursery.start_soon(watch, newer)
        nursery.start_soon(watch, older)


class _Attempt:
    """One way to begin, as a task."""

    def __init__(self, begin: Callable[[], Awaitable[object]]) -> None:
        self._begin = begin
        self.ended = trio.Event()
        self.succeeded = False
        self.error: Exception | None = None

    async def run(self) -> None:
        try:
            await self._begin()
            self.succeeded = True
        except (*_REFUSALS, httpx2.HTTPError) as error:
            self.error = error
        finally:
            self.ended.set()

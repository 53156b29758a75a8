"""The HTTP client for one server: it goes where the server may lead it, and reads so much.

The server's own origin is what the person has configured. Every other address comes from the
server (metadata, authorization server), so it is looked up here, judged, and exactly the judged
address is connected to.
"""

from collections.abc import AsyncIterator, Iterable
from typing import cast

import httpcore2
import httpx2
import trio

from swarm.mailbox.base.errors import SwarmError

from .http_refusal import as_message
from .reachable_addresses import Reach, may_lead_to, reach_of

MAX_ANSWER_BYTES = 32 << 20  # of the server's own endpoint; a stream of events has no end
MAX_OTHER_BYTES = 1 << 20  # of metadata, registrations, tokens, refusals
_MAX_CONNECTIONS = 100
_SocketOption = (
    tuple[int, int, int] | tuple[int, int, bytes | bytearray] | tuple[int, int, None, int]
)


class AddressRefused(SwarmError):
    """The server named an address to which it may lead nobody; the text says which."""


class AnswerTooLarge(SwarmError):
    """An answer over its bound, or in a form whose size cannot be known."""


class GuardedBackend(httpcore2.AsyncNetworkBackend):
    """Connects to the server's own host, and to others as `may_lead_to` says."""

    def __init__(self, own: httpx2.URL) -> None:
        self._own = (own.host, own.port or (443 if own.scheme == "https" else 80))
        self._reached: set[Reach] = set()  # where the server itself was
        self._inner = cast("httpcore2.AsyncNetworkBackend", httpcore2.TrioBackend())

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109 (the library's signature)
        local_address: str | None = None,
        socket_options: Iterable[_SocketOption] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        is_own = (host, port) == self._own
        failed: httpcore2.ConnectError | None = None
        for address in await _look_up(host, port):
            reach = reach_of(address)
            if not is_own and not may_lead_to(await self._own_reach(), reach):
                raise AddressRefused(
                    f"it led to {host}:{port}, an address that is not public ({reach.name.lower()}"
                    "); a server may only do that if it is in such a network itself"
                )
            try:
                stream = await self._inner.connect_tcp(
                    address, port, timeout, local_address, socket_options
                )
            except httpcore2.ConnectError as error:
                failed = error
                continue
            if is_own:
                self._reached.add(reach)
            return stream
        raise failed or httpcore2.ConnectError(f"{host} has no address")

    async def _own_reach(self) -> set[Reach]:
        """Where the server was reached, or where its name leads if it was not yet."""
        if not self._reached:
            return {reach_of(one) for one in await _look_up(*self._own)}
        return self._reached

    async def sleep(self, seconds: float) -> None:
        await trio.sleep(seconds)


async def _look_up(host: str, port: int) -> list[str]:
    try:
        found = await trio.socket.getaddrinfo(host, port, type=trio.socket.SOCK_STREAM)
    except OSError as error:
        raise httpcore2.ConnectError(f"{host}: {error.strerror or error}") from error
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


class GuardedTransport(httpx2.AsyncHTTPTransport):
    """Every request of a server's client, and those that its login makes."""

    def __init__(self, url: str) -> None:
        context = httpx2.create_ssl_context(trust_env=False)
        super().__init__(verify=context, trust_env=False)
        self._own = httpx2.URL(url)
        self._pool = httpcore2.AsyncConnectionPool(
            ssl_context=context,
            max_connections=_MAX_CONNECTIONS,
            network_backend=GuardedBackend(self._own),
        )

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        if request.url.scheme != "https" and self._own.scheme == "https":
            raise AddressRefused(f"it led from https to {_short(request.url)}")
        request.headers["Accept-Encoding"] = "identity"  # a packed answer has no known size
        response = await super().handle_async_request(request)
        kind = response.headers.get("content-type", "").lower()
        coding = response.headers.get("content-encoding", "identity").lower()
        if coding != "identity":
            await response.aclose()
            raise AnswerTooLarge(
                f"{_short(request.url)} answered in the unasked coding {coding!r:.40}"
            )
        is_own = self._is_of_protocol(request)
        is_answer = is_own and response.status_code < 400
        if is_answer and kind.startswith("text/event-stream"):
            return response
        stream = response.stream
        assert isinstance(stream, httpx2.AsyncByteStream)
        most = MAX_ANSWER_BYTES if is_answer else MAX_OTHER_BYTES
        bounded = httpx2.Response(
            response.status_code,
            headers=response.headers,
            stream=_BoundedStream(stream, most, _short(request.url)),
            extensions=response.extensions,
        )
        if is_own and request.method == "POST" and not is_answer:
            return await as_message(request, bounded)
        return bounded

    def _is_of_protocol(self, request: httpx2.Request) -> bool:
        """Whether it is a request of MCP, not of a login; the server may have led it elsewhere."""
        is_there = _origin(request.url) == _origin(self._own)
        return is_there and "text/event-stream" in request.headers.get("accept", "")


class _BoundedStream(httpx2.AsyncByteStream):
    def __init__(self, inner: httpx2.AsyncByteStream, most: int, name: str) -> None:
        self._inner, self._most, self._name = inner, most, name

    async def __aiter__(self) -> AsyncIterator[bytes]:
        room = self._most
        async for chunk in self._inner:
            room -= len(chunk)
            if room < 0:
                raise AnswerTooLarge(f"{self._name} answered with over {self._most >> 20} MiB")
            yield chunk

    async def aclose(self) -> None:
        await self._inner.aclose()


def _origin(url: httpx2.URL) -> tuple[str, str, int | None]:
    return url.scheme, url.host, url.port


def _short(url: httpx2.URL) -> str:
    """An address for people: no query, which may hold a secret."""
    return str(url.copy_with(query=None, fragment=None, userinfo=b""))[:200]

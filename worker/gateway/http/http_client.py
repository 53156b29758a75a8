"""HTTP client of the gateway: one POST whose response body is read in pieces.

Only this module and `http_route` import httpcore. Every read has the idle timeout, because a
stalled stream is the worst hang of such tools. Errors of httpcore become `TransportFailed` here and
nowhere else. Redirects are reported, never followed.
"""

from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Literal
from urllib.parse import urlsplit

import httpcore
import msgspec
import trio

from swarm.mailbox.base.errors import SwarmError

from .content_decoding import ContentDecoder, UndecodableContent
from .http_route import address_of, certificates, find_proxy

CONNECT_TIMEOUT_S = 15.0
WRITE_TIMEOUT_S = 60.0
KEEPALIVE_IDLE_FACTOR = 6  # idle timeouts for which a server may send data without any content
MAX_ERROR_BODY_BYTES = 64 * 1024
_KEEPALIVE_S = 5.0  # servers close idle connections too; a short time rarely collides with that
_MOST_IDLE = 64
_TIMEOUT = {"connect": CONNECT_TIMEOUT_S, "write": WRITE_TIMEOUT_S, "read": None, "pool": None}
_UNREACHED = (httpcore.ConnectError, httpcore.ConnectTimeout, httpcore.ProxyError)
_BROKEN = (
    *_UNREACHED,
    httpcore.NetworkError,
    httpcore.ProtocolError,
    httpcore.TimeoutException,
    httpcore.UnsupportedProtocol,
    httpcore.ConnectionNotAvailable,
)

TransportPhase = Literal["connect", "send", "stream", "idle", "packed"]


class TransportFailed(SwarmError):
    """The transport failed. `phase` says when: nothing was sent, no response began, or in the
    middle of it; "packed": the response has an encoding that cannot be read.
    """

    def __init__(self, message: str, *, phase: TransportPhase) -> None:
        super().__init__(message)
        self.phase: TransportPhase = phase


class HttpRequest(msgspec.Struct, frozen=True):
    """One request."""

    url: str
    headers: dict[str, str]
    body: bytes
    idle_s: float  # limit between two reads, and until the response begins


class HttpReply:
    """A response whose head has arrived. `read_some` or `read_bounded` read its body."""

    def __init__(self, response: httpcore.Response, idle_s: float) -> None:
        self.status = response.status
        self.headers: dict[str, str] = {}
        for name, value in response.headers:
            key, text = name.decode("latin-1").lower(), value.decode("latin-1")
            self.headers[key] = f"{self.headers[key]}, {text}" if key in self.headers else text
        self._response, self._chunks = response, aiter(response.aiter_stream())
        self._idle_s = idle_s
        self._decoder: ContentDecoder | None = None
        self._decoded: Iterator[bytes] = iter(())

    async def read_some(self) -> bytes:
        """The next piece, decompressed; b"" at the end.

        Raises TransportFailed ("idle", "stream" or "packed").
        """
        try:
            if self._decoder is None:
                self._decoder = ContentDecoder(self.headers.get("content-encoding", ""))
            while True:
                if piece := next(self._decoded, b""):
                    await trio.lowlevel.checkpoint()  # one read may decompress to many pieces
                    return piece
                if not (packed := await self._read_encoded()):
                    self._decoder.finish()
                    return b""
                self._decoded = self._decoder.feed(packed)
        except UndecodableContent as error:
            raise TransportFailed(str(error), phase="packed") from error

    async def _read_encoded(self) -> bytes:
        try:
            with trio.fail_after(self._idle_s):
                return await anext(self._chunks, b"")
        except trio.TooSlowError as error:
            text = f"no data for {self._idle_s:g} s; the stream was cut"
            raise TransportFailed(text, phase="idle") from error
        except _BROKEN as error:
            raise TransportFailed(_describe_error(error), phase="stream") from error

    async def read_bounded(self, limit_bytes: int = MAX_ERROR_BODY_BYTES) -> bytes:
        """The start of the body, as far as it can be read. Does not raise: the status is known
        anyway.
        """
        pieces: list[bytes] = []
        size_bytes = 0
        with trio.move_on_after(KEEPALIVE_IDLE_FACTOR * self._idle_s), suppress(TransportFailed):
            while size_bytes < limit_bytes and (piece := await self.read_some()):
                pieces.append(piece)
                size_bytes += len(piece)
        return b"".join(pieces)[:limit_bytes]

    async def drain(self, limit_s: float) -> None:
        """Read to the end if it is near, so that the connection can be reused."""
        with trio.move_on_after(limit_s):
            try:
                while await self.read_some():
                    pass
            except TransportFailed:
                return

    async def close(self) -> None:
        """End the response at once; closes the connection if the body was not read to its end."""
        await self._response.aclose()
        # httpcore reads through nested generators. Closing the outer one leaves the inner ones to
        # the garbage collector; on a closed connection they run to their end.
        with suppress(*_BROKEN):
            async for _ in self._chunks:
                pass


class HttpClient:
    """The connections to one server. `open_http` makes it."""

    def __init__(self, pool: httpcore.AsyncConnectionPool) -> None:
        self._pool = pool

    @asynccontextmanager
    async def post(self, post: HttpRequest) -> AsyncIterator[HttpReply]:
        """Send, and yield the response when its head has arrived. Leaving the block closes it at
        once.

        Raises:
            TransportFailed: "connect", "send" or "idle".
        """
        headers = {**post.headers, "content-length": str(len(post.body))}
        reply = await self._begin("POST", post.url, headers, post.body, post.idle_s)
        try:
            yield reply
        finally:
            await reply.close()

    async def get_text(
        self, url: str, headers: dict[str, str], *, limit_s: float, body: bytes = b""
    ) -> str | None:
        """A small body of a quick server; None if it does not answer 200 in time. A `body` is
        posted.
        """
        try:
            with trio.fail_after(limit_s):
                sized = headers | {"content-length": str(len(body))} if body else headers
                reply = await self._begin("POST" if body else "GET", url, sized, body, limit_s)
                try:
                    text = await reply.read_bounded(4 * MAX_ERROR_BODY_BYTES)
                finally:
                    await reply.close()
        except (trio.TooSlowError, TransportFailed):
            return None
        return text.decode("utf-8", "replace") if reply.status == 200 else None

    async def _begin(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes, idle_s: float
    ) -> HttpReply:
        try:
            request = _request(method, url, headers, body)
            with trio.fail_after(idle_s):
                return HttpReply(await self._pool.handle_async_request(request), idle_s)
        except trio.TooSlowError as error:
            text = f"no answer within {idle_s:g} s"
            raise TransportFailed(text, phase="idle") from error
        except _UNREACHED as error:
            raise TransportFailed(_describe_error(error), phase="connect") from error
        except (*_BROKEN, ValueError) as error:  # ValueError: an invalid address or header
            raise TransportFailed(_describe_error(error), phase="send") from error


def _request(method: str, url: str, headers: Mapping[str, str], body: bytes) -> httpcore.Request:
    """Raises ValueError."""
    address = address_of(url)
    ours = [(name.encode(), value.encode()) for name, value in headers.items()]
    more = [one for one in address.headers if one[0].decode() not in headers]
    fixed = (b"accept-encoding", b"identity")
    return httpcore.Request(
        method,
        address.url,
        headers=[*more, fixed, *ours],
        content=body,
        extensions={"timeout": _TIMEOUT},
    )


@asynccontextmanager
async def open_http(base_url: str) -> AsyncIterator[HttpClient]:
    """A client for one server. Respects the proxies and CA files of the environment.

    It never uses a proxy for servers on this machine. If neither the server nor a proxy uses TLS,
    it loads no certificates: that saves 15 ms before the first request.

    Raises TransportFailed for an invalid proxy, and for certificates that cannot be read.
    """
    async with _make_pool(base_url) as pool:
        yield HttpClient(pool)


def _make_pool(base_url: str) -> httpcore.AsyncConnectionPool:
    try:
        proxy = find_proxy(base_url)
        is_over_tls = proxy is not None and proxy.url.scheme == b"https"
        is_secure = is_over_tls or urlsplit(base_url).scheme == "https"
        tls = certificates() if is_secure else None
    except ValueError as error:
        raise TransportFailed(str(error), phase="connect") from error
    if proxy is None:
        return httpcore.AsyncConnectionPool(
            ssl_context=tls,
            max_connections=None,
            max_keepalive_connections=_MOST_IDLE,
            keepalive_expiry=_KEEPALIVE_S,
        )
    return httpcore.AsyncHTTPProxy(
        proxy.url,
        proxy_auth=proxy.login,
        proxy_ssl_context=tls if is_over_tls else None,
        ssl_context=tls,
        max_connections=None,
        max_keepalive_connections=_MOST_IDLE,
        keepalive_expiry=_KEEPALIVE_S,
    )


def _describe_error(error: BaseException) -> str:
    """The error in one line. Where httpcore's own text is empty, the text of its cause is used."""
    name = type(error).__name__
    behind: BaseException | None = error
    while behind is not None and not str(behind).strip():
        behind = behind.__cause__ or behind.__context__
    text = "" if behind is None else " ".join(str(behind).split())[:300]
    return f"{name}: {text}" if text else name

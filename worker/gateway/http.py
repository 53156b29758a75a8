"""HTTP as the gateway needs it: one POST whose answer is read piece by piece. Only httpx is here.

Every read stands under the idle timeout, since a stalled stream is the worst hang of such tools; a
foreign error becomes one of ours here and nowhere else. Redirects are reported, never followed.
"""

import importlib
import os
import ssl
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Literal
from urllib.parse import urlsplit

import msgspec
import trio

from swarm.mailbox.errors import SwarmError

# httpx imports its command line if it can: rich, click and pygments, 20 ms and 8 MB for nothing.
sys.modules.setdefault("httpx._main", None)  # type: ignore[arg-type]

import httpx  # noqa: E402

importlib.import_module("httpcore")  # httpx does so at the first request; here, before the fork

CONNECT_TIMEOUT_S = 15.0
WRITE_TIMEOUT_S = 60.0
MAX_ERROR_BODY_BYTES = 64 * 1024
_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})

Phase = Literal["connect", "send", "stream", "idle"]


class TransportFailed(SwarmError):
    """The wire broke. `phase` says when: nothing was sent, no answer began, or in its middle."""

    def __init__(self, message: str, *, phase: Phase) -> None:
        super().__init__(message)
        self.phase: Phase = phase


class Post(msgspec.Struct, frozen=True):
    """One request."""

    url: str
    headers: dict[str, str]
    body: bytes
    idle_s: float  # between two reads, and until the answer begins


class Reply:
    """An answer whose head has arrived. Its body is read by `read_some` or `read_bounded`."""

    def __init__(self, response: httpx.Response, idle_s: float) -> None:
        self.status = response.status_code
        self.headers = {name.lower(): value for name, value in response.headers.items()}
        self._response, self._chunks = response, response.aiter_raw()
        self._idle_s = idle_s

    async def read_some(self) -> bytes:
        """The next piece; b"" at the end. Raises TransportFailed ("idle" or "stream")."""
        try:
            with trio.fail_after(self._idle_s):
                return await anext(self._chunks, b"")
        except trio.TooSlowError as error:
            text = f"no data for {self._idle_s:g} s; the stream was cut"
            raise TransportFailed(text, phase="idle") from error
        except (httpx.HTTPError, httpx.StreamError) as error:
            raise TransportFailed(_say(error), phase="stream") from error

    async def read_bounded(self, limit_bytes: int = MAX_ERROR_BODY_BYTES) -> bytes:
        """The beginning of the body, as far as it can be read."""
        pieces: list[bytes] = []
        size_bytes = 0
        try:
            while size_bytes < limit_bytes and (piece := await self.read_some()):
                pieces.append(piece)
                size_bytes += len(piece)
        except TransportFailed:
            pass  # what arrived says enough: the status is known
        return b"".join(pieces)[:limit_bytes]

    async def drain(self, limit_s: float) -> None:
        """Read to the end if it is near, so that the connection can be used again."""
        with trio.move_on_after(limit_s):
            try:
                while await self.read_some():
                    pass
            except TransportFailed:
                return

    async def close(self) -> None:
        """End the answer at once; a connection whose answer was not read to its end is closed."""
        await self._response.aclose()
        # httpx reads through generators within generators, of which closing the outer one leaves
        # the inner ones to the garbage collector. On a closed connection they run to their end.
        with suppress(httpx.HTTPError, httpx.StreamError):
            async for _ in self._chunks:
                pass


class HttpClient:
    """The connections to one server. Get one from `open_http`."""

    def __init__(self, client: httpx.AsyncClient) -> None:
        self._client = client

    @asynccontextmanager
    async def post(self, post: Post) -> AsyncIterator[Reply]:
        """Send, and hand over the answer when its head is there. Leaving closes it at once.

        Raises:
            TransportFailed: "connect", "send" or "idle".
        """
        request = self._client.build_request(
            "POST", post.url, headers=post.headers, content=post.body
        )
        response = await self._begin(request, post.idle_s)
        reply = Reply(response, post.idle_s)
        try:
            yield reply
        finally:
            await reply.close()

    async def get_text(self, url: str, headers: dict[str, str], *, limit_s: float) -> str | None:
        """A small body of a quick server; None if it does not answer 200 in time."""
        try:
            with trio.fail_after(limit_s):
                request = self._client.build_request("GET", url, headers=headers)
                reply = Reply(await self._client.send(request, stream=True), limit_s)
                try:
                    body = await reply.read_bounded(4 * MAX_ERROR_BODY_BYTES)
                finally:
                    await reply.close()
        except (trio.TooSlowError, httpx.HTTPError, httpx.InvalidURL):
            return None
        return body.decode("utf-8", "replace") if reply.status == 200 else None

    async def _begin(self, request: httpx.Request, idle_s: float) -> httpx.Response:
        try:
            with trio.fail_after(idle_s):
                return await self._client.send(request, stream=True)
        except trio.TooSlowError as error:
            text = f"no answer within {idle_s:g} s"
            raise TransportFailed(text, phase="idle") from error
        except (httpx.ConnectError, httpx.ConnectTimeout, httpx.ProxyError) as error:
            raise TransportFailed(_say(error), phase="connect") from error
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise TransportFailed(_say(error), phase="send") from error


@asynccontextmanager
async def open_http(base_url: str) -> AsyncIterator[HttpClient]:
    """A client for one server. Proxies and CA files of the environment are honoured.

    Servers on this machine are never reached through a proxy. Where neither the server nor a proxy
    speaks TLS, no certificates are loaded: that is 15 ms of the way to the first request.
    """
    parts = urlsplit(base_url)
    is_local = parts.hostname in _LOOPBACK
    async with httpx.AsyncClient(
        verify=_certificates() if parts.scheme == "https" else not is_local and _has_tls_proxy(),
        trust_env=not is_local,
        follow_redirects=False,
        timeout=httpx.Timeout(None, connect=CONNECT_TIMEOUT_S, write=WRITE_TIMEOUT_S),
        limits=httpx.Limits(max_connections=None, max_keepalive_connections=64),
        headers={"accept-encoding": "identity"},
    ) as client:
        yield HttpClient(client)


def _certificates() -> ssl.SSLContext:
    """The public ones, or those that SSL_CERT_FILE or SSL_CERT_DIR name. Raises TransportFailed."""
    try:
        return httpx.create_ssl_context()
    except OSError as error:
        named = os.environ.get("SSL_CERT_FILE") or os.environ.get("SSL_CERT_DIR")
        why = f"the certificates of {named} cannot be read: {_say(error)}"
        raise TransportFailed(why, phase="connect") from error


def _has_tls_proxy() -> bool:
    names = ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY")
    return any(os.environ.get(name, "").startswith("https:") for name in names)


def _say(error: BaseException) -> str:
    """One line. httpx's texts are sometimes empty: then what lies behind it says more."""
    name = type(error).__name__
    behind: BaseException | None = error
    while behind is not None and not str(behind).strip():
        behind = behind.__cause__ or behind.__context__
    text = "" if behind is None else " ".join(str(behind).split())[:300]
    return f"{name}: {text}" if text else name

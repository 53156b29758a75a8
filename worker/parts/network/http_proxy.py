"""HTTP proxy for one client: requests with an absolute URL, and CONNECT.

h11 parses and writes every head on both sides, and nothing passes unparsed, so the checked request
is the one that is sent. A message with two conflicting lengths is refused. Each request has its own
server connection. Inside an inspected tunnel the same code runs, limited to the tunnel's server.
"""

from functools import partial
from http import HTTPStatus

import h11
import trio

from swarm.mailbox.protocol.proxy import BlockReason, NetworkTarget

from .access_decision import PROTOCOLS, READING_METHODS, NetworkRequest
from .blocked_texts import BLOCKED_RESPONSES
from .client_connection import HEAD_LIMIT_S, ClientConnection, tunnel
from .connector import ClientAccess, NetworkDenied, Unreachable
from .http_exchange import HEAD_BYTES, exchange
from .http_targets import BadTarget, HttpTarget, read_absolute, read_authority, read_inside

_KEEP_ALIVE_S = 60.0
_METHOD_FIELDS = frozenset(
    {b"x-http-method-override", b"x-http-method", b"x-method-override", b"x-method"}
)


class HttpProxyConnection:
    """All requests of one client, one after the other."""

    def __init__(
        self, client: ClientConnection, access: ClientAccess, *, inside: HttpTarget | None = None
    ) -> None:
        """`inside`: the client is in a tunnel to this target."""
        self._client, self._access, self._tunnel_target = client, access, inside
        self._conn = h11.Connection(h11.SERVER, max_incomplete_event_size=HEAD_BYTES)

    async def serve(self) -> None:
        """Serve until the client or the protocol ends the connection. Raises ClientGone."""
        limit_s = HEAD_LIMIT_S
        while True:
            request = None
            with trio.move_on_after(limit_s):
                request = await self._next_request()
            if request is None or not await self._handle_request(request):
                return
            if self._conn.our_state is not h11.DONE or self._conn.their_state is not h11.DONE:
                return
            self._conn.start_next_cycle()
            limit_s = _KEEP_ALIVE_S

    async def _next_request(self) -> h11.Request | None:
        """The next request; None at the end, or after an unreadable request was answered."""
        fed = len(self._conn.trailing_data[0])  # bytes that came with the previous request
        while True:
            try:
                event = self._conn.next_event()
            except h11.RemoteProtocolError as error:
                await self._respond(error.error_status_hint, f"cannot be read: {error}")
                return None
            match event:
                case h11.Request():
                    return event
                case h11.NEED_DATA if fed >= HEAD_BYTES:
                    await self._respond(431, f"its head is over {HEAD_BYTES >> 10} KiB")
                    await self._client.drain()
                    return None
                case h11.NEED_DATA:
                    # Feed no more than the limit of a head: h11 limits only what is still
                    # incomplete.
                    data = await self._client.receive()
                    self._client.push_back(data[HEAD_BYTES - fed :])
                    data = data[: HEAD_BYTES - fed]
                    fed += len(data)
                    self._conn.receive_data(data)
                case _:
                    return None

    async def _handle_request(self, request: h11.Request) -> bool:
        """Returns False if the connection can carry no further request."""
        method = request.method.decode("ascii")
        try:
            if method == "CONNECT":
                return await self._connect(request)
            place = self._read_target(request, method)
            _check_framing(request)
            return await self._forward(request, place, method)
        except BadTarget as error:
            return await self._respond(400, str(error))
        except NetworkDenied as refused:
            return await self._respond_blocked(refused.reason)
        except Unreachable as error:
            return await self._respond(502, str(error))

    def _read_target(self, request: h11.Request, method: str) -> HttpTarget:
        target = request.target.decode("ascii")
        if self._tunnel_target is None:
            return read_absolute(target, method=method)
        host = b"".join(value for name, value in request.headers if name == b"host")
        return read_inside(
            target, method=method, host=host.decode("ascii", "replace"), tunnel=self._tunnel_target
        )

    async def _connect(self, request: h11.Request) -> bool:
        if self._tunnel_target is not None:
            raise BadTarget("there is no tunnel within a tunnel")
        place = read_authority(request.target.decode("ascii"), default_port=None)
        wanted = NetworkRequest(
            target=NetworkTarget(host=place.host, port=place.port, protocol=PROTOCOLS["tunnel"]),
            kind="tunnel",
            method="CONNECT",
        )
        if not isinstance(self._conn.next_event(), h11.EndOfMessage):
            raise BadTarget("CONNECT has no body")
        if (interceptor := self._access.interceptor) is not None:
            await self._client.run_while_connected(partial(self._access.authorize, wanted))
            await self._begin_tunnel()
            inner = await interceptor.open(self._client, place.host)
            async with inner.stream:
                await HttpProxyConnection(inner, self._access, inside=place).serve()
            return False
        connection = await self._client.run_while_connected(partial(self._access.connect, wanted))
        async with (server := connection.stream):
            await self._begin_tunnel()
            await tunnel(self._client, server)
        return False

    async def _begin_tunnel(self) -> None:
        await self._send(
            h11.Response(status_code=200, headers=[], reason=b"Connection established")
        )
        self._client.push_back(self._conn.trailing_data[0])

    async def _forward(self, request: h11.Request, place: HttpTarget, method: str) -> bool:
        wanted = NetworkRequest(
            target=NetworkTarget(
                host=place.host,
                port=place.port,
                protocol=PROTOCOLS["request" if self._tunnel_target is None else "tunnel"],
            ),
            kind="request",
            method=_effective_method(request, method),
            has_body=_has_body(request),
        )
        found = await self._client.run_while_connected(partial(self._access.connect, wanted))
        async with found.stream:
            server: trio.abc.Stream = found.stream
            if self._tunnel_target is not None and self._access.interceptor is not None:
                server = await self._access.interceptor.secure(found.stream, place.host)
            return await exchange(
                self._client, self._conn, request, place, server, upstream=found.upstream
            )

    async def _respond_blocked(self, reason: BlockReason) -> bool:
        header, body = BLOCKED_RESPONSES[reason]
        return await self._respond(403, body, ("x-proxy-error", header))

    async def _respond(self, status: int, body: str, *headers: tuple[str, str]) -> bool:
        if self._conn.our_state not in {h11.IDLE, h11.SEND_RESPONSE}:
            return False
        data = body.encode("utf-8", "replace")
        fields = [("content-type", "text/plain"), ("content-length", str(len(data))), *headers]
        reason = HTTPStatus(status).phrase.encode()
        await self._send(h11.Response(status_code=status, headers=fields, reason=reason))
        await self._send(h11.Data(data=data))
        await self._send(h11.EndOfMessage())
        return self._drop_rest()

    def _drop_rest(self) -> bool:
        """Discard the buffered rest of the request's body; False if more will come."""
        while self._conn.their_state is h11.SEND_BODY:
            try:
                event = self._conn.next_event()
            except h11.RemoteProtocolError:
                return False
            if not isinstance(event, h11.Data | h11.EndOfMessage):
                return False
        return True

    async def _send(self, event: h11.Event) -> None:
        data = self._conn.send(event)
        if data:
            await self._client.send(data)


def _has_body(request: h11.Request) -> bool:
    return any(
        name == b"transfer-encoding" or (name == b"content-length" and value.strip(b"0 ") != b"")
        for name, value in request.headers
    )


def _effective_method(request: h11.Request, method: str) -> str:
    """The method to judge: some servers accept header fields that override the request line's.

    Every one of them must be a reading method, so the first that is not stands for all.
    """
    overrides = [
        value.decode("ascii", "replace").strip()[:40].upper()
        for name, value in request.headers
        if name in _METHOD_FIELDS
    ]
    return next((one for one in (method, *overrides) if one not in READING_METHODS), method)


def _check_framing(request: h11.Request) -> None:
    names = [name for name, _ in request.headers]
    if b"transfer-encoding" in names and b"content-length" in names:
        raise BadTarget("its length is told twice")
    if request.http_version == b"1.0" and b"transfer-encoding" in names:
        raise BadTarget("HTTP/1.0 has no transfer encodings")

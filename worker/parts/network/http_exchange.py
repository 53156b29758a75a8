"""Relay one HTTP request to its server and the response back, both streamed.

Hop-by-hop header fields and informational responses (1xx) of the server are not passed on. A
response is either complete or ends with the connection: a cut response never looks complete.
"""

from collections.abc import Iterable

import h11
import trio

from .client_connection import CHUNK_BYTES, IDLE_LIMIT_S, ClientConnection, ClientGone
from .http_targets import HttpTarget
from .upstream_proxy import UpstreamProxy, refusal_text

HEAD_BYTES = 64 * 1024  # limit of the head of a request or response
_ONE_HOP = frozenset(
    {
        b"connection", b"keep-alive", b"proxy-authenticate", b"proxy-authorization",
        b"proxy-connection", b"te", b"trailer", b"upgrade", b"expect", b"host", b"x-unix-socket",
    }
)  # fmt: skip
_Fields = list[tuple[bytes, bytes]]


async def exchange(
    client: ClientConnection,
    conn: h11.Connection,
    request: h11.Request,
    place: HttpTarget,
    server: trio.abc.Stream,
    *,
    upstream: UpstreamProxy | None = None,
) -> bool:
    """Relay one request. Returns False if the client's connection cannot be used again.

    Args:
        conn: The client's side; its request head was read, its body was not.
        server: Connected; the caller closes it.
        upstream: The connection leads to this proxy, not to the server itself.

    Raises ClientGone.
    """
    theirs = h11.Connection(h11.CLIENT, max_incomplete_event_size=HEAD_BYTES)
    target, login = place.path, list[tuple[bytes, bytes]]()
    if upstream is not None:
        target = f"http://{place.authority}{'' if target == '*' else target}"
        if upstream.authorization:
            login.append((b"proxy-authorization", upstream.authorization))
    head = h11.Request(
        method=request.method,
        target=target,
        headers=[
            (b"host", place.authority.encode("ascii")),
            *_passing(request.headers),
            *login,
            (b"connection", b"close"),
        ],
    )
    work = _Exchange(client, conn, server, theirs, is_upstream=upstream is not None)
    gone = False
    try:
        async with trio.open_nursery() as nursery:
            await work.send_up(head)
            nursery.start_soon(work.carry_body)
            await work.carry_response()
            nursery.cancel_scope.cancel()
    except* ClientGone:
        gone = True
    if gone:
        raise ClientGone
    return work.is_whole and conn.their_state is h11.DONE


class _Exchange:
    def __init__(
        self,
        client: ClientConnection,
        conn: h11.Connection,
        server: trio.abc.Stream,
        theirs: h11.Connection,
        *,
        is_upstream: bool,
    ) -> None:
        self._client, self._conn, self._server, self._theirs = client, conn, server, theirs
        self._is_upstream = is_upstream
        self._began = False
        self.is_whole = False

    async def send_up(self, event: h11.Event) -> bool:
        """Returns False if the server accepts no more data; it may have answered nevertheless."""
        data = self._theirs.send(event)
        if data:
            try:
                await self._server.send_all(data)
            except trio.BrokenResourceError:
                return False
        return True

    async def carry_body(self) -> None:
        """From the client to the server."""
        while True:
            if self._conn.they_are_waiting_for_100_continue:
                proceed = self._conn.send(h11.InformationalResponse(status_code=100, headers=[]))
                await self._client.send(proceed or b"")
            try:
                event = self._conn.next_event()
            except h11.RemoteProtocolError as error:
                raise ClientGone from error
            match event:
                case h11.Data():
                    if not await self.send_up(h11.Data(data=event.data)):
                        return
                case h11.EndOfMessage():
                    await self.send_up(h11.EndOfMessage())
                    return
                case h11.NEED_DATA:
                    data = b""
                    with trio.move_on_after(IDLE_LIMIT_S):
                        data = await self._client.receive()
                    if not data:
                        raise ClientGone
                    self._conn.receive_data(data)
                case _:
                    return

    async def carry_response(self) -> None:
        """From the server to the client."""
        while True:
            try:
                event = self._theirs.next_event()
            except h11.RemoteProtocolError:
                return await self._give_up("the server's answer cannot be read")
            match event:
                case h11.Response(status_code=407) if self._is_upstream:
                    return await self._give_up(refusal_text(407))
                case h11.Response():
                    self._began = True
                    await self._send_down(
                        h11.Response(
                            status_code=event.status_code,
                            reason=event.reason,
                            headers=_passing(event.headers, whole=True),
                        )
                    )
                case h11.Data():
                    await self._send_down(h11.Data(data=event.data))
                case h11.EndOfMessage():
                    await self._send_down(h11.EndOfMessage())
                    self.is_whole = True
                    return None
                case h11.InformationalResponse():
                    continue
                case h11.NEED_DATA:
                    self._theirs.receive_data(await self._receive_down())
                case _:
                    return await self._give_up("the server hung up without an answer")

    async def _receive_down(self) -> bytes:
        with trio.move_on_after(IDLE_LIMIT_S):
            try:
                return bytes(await self._server.receive_some(CHUNK_BYTES))
            except trio.BrokenResourceError:
                return b""
        return b""

    async def _send_down(self, event: h11.Event) -> None:
        data = self._conn.send(event)
        if data:
            await self._client.send(data)

    async def _give_up(self, why: str) -> None:
        """Answer 502 if no response has begun; otherwise only the end of the connection shows
        it.
        """
        if self._began:
            return
        body = why.encode()
        fields = [("content-type", "text/plain"), ("content-length", str(len(body)))]
        await self._send_down(
            h11.Response(status_code=502, headers=[*fields, ("connection", "close")])
        )
        await self._send_down(h11.Data(data=body))
        await self._send_down(h11.EndOfMessage())


def _passing(fields: Iterable[tuple[bytes, bytes]], *, whole: bool = False) -> _Fields:
    """The fields to pass on. `whole`: h11 frames the message itself where necessary."""
    found = [(bytes(name), bytes(value)) for name, value in fields]
    listed = b",".join(value for name, value in found if name == b"connection").lower()
    drop = _ONE_HOP | {word.strip() for word in listed.split(b",")}
    if whole and any(name == b"transfer-encoding" for name, _ in found):
        drop |= {b"transfer-encoding", b"content-length"}
    elif not whole:
        drop -= {b"transfer-encoding", b"content-length"}  # `Connection` must not unframe a body
    return [(name, value) for name, value in found if name not in drop]

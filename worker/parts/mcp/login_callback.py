"""Receives the end of a login: the browser's visit on loopback, or the address that was pasted.

Only an answer with this login's own state counts; anything else is turned away, and the wait goes
on. What is shown in the browser repeats nothing of the request.
"""

import errno
import os
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import NamedTuple
from urllib.parse import parse_qs, urlsplit

import h11
import trio
from mcp.shared.auth import AuthorizationCodeResult

from swarm.mailbox.base.errors import SwarmError


class Redirect(NamedTuple):
    """The host and path of the address at which a login ends."""

    host: str = "127.0.0.1"
    path: str = "/callback"


MCP_REDIRECT = Redirect()
_REQUEST_LIMIT_S = 10.0
_MAX_VISITORS = 8
_MAX_LINE_BYTES = 16 << 10
_CHUNK_BYTES = 4 << 10
_DONE = b"<!doctype html><title>swarm</title><p>The login is done. You can close this window.</p>"
_REFUSED = b"<!doctype html><title>swarm</title><p>The login was refused; swarm says why.</p>"
_STRANGE = b"<!doctype html><title>swarm</title><p>This is not an answer to the login.</p>"


class LoginRefused(SwarmError):
    """The person or the authorization server said no, or nobody answered."""


class LoginCallback:
    """One login's answer. Made by `open_callback`.

    Args:
        listener: On loopback; whoever opened the callback closes it.
        redirect: What the authorization server knows of it.
    """

    def __init__(self, listener: trio.SocketListener, redirect: Redirect = MCP_REDIRECT) -> None:
        self.port = int(listener.socket.getsockname()[1])
        self._redirect = redirect
        self.redirect_uri = f"http://{redirect.host}:{self.port}{redirect.path}"
        self._state = ""
        self._answered = trio.Event()
        self._result: AuthorizationCodeResult | str = ""
        self._visitors = trio.Semaphore(_MAX_VISITORS)

    def expect(self, authorization_url: str) -> None:
        """Count only answers to this address from now on."""
        self._state = _one(parse_qs(urlsplit(authorization_url).query), "state")

    async def wait(self) -> AuthorizationCodeResult:
        """The answer. Raises LoginRefused if it is a refusal."""
        await self._answered.wait()
        if isinstance(self._result, str):
            raise LoginRefused(f"the authorization server refused: {self._result}")
        return self._result

    def take(self, query: str) -> bool:
        """Take the answer in an address's query; False if it answers another login."""
        fields = parse_qs(query, max_num_fields=50)
        state = _one(fields, "state")
        if not self._state or not secrets.compare_digest(state.encode(), self._state.encode()):
            return False
        code, error = _one(fields, "code"), _one(fields, "error")
        if not code and not error:
            return False
        if not self._answered.is_set():
            told = f"{error} {_one(fields, 'error_description')}".strip()
            issuer = _one(fields, "iss") or None
            self._result = (
                told[:300] if error else AuthorizationCodeResult(code=code, state=state, iss=issuer)
            )
            self._answered.set()
        return True

    async def serve(self, stream: trio.SocketStream) -> None:
        """Answer one visitor; another user's is not listened to, and takes no visitor's place."""
        if not is_own_visitor(stream):
            await stream.aclose()
            return
        with trio.move_on_after(_REQUEST_LIMIT_S):
            async with self._visitors, stream:
                connection = h11.Connection(h11.SERVER, max_incomplete_event_size=_MAX_LINE_BYTES)
                try:
                    request = await _read_request(connection, stream)
                    status, page = self._page_for(request)
                    await _answer(connection, stream, status, page)
                except (
                    h11.ProtocolError,
                    trio.BrokenResourceError,
                    UnicodeDecodeError,
                    ValueError,
                ):
                    return

    def _page_for(self, request: h11.Request) -> tuple[int, bytes]:
        target = urlsplit(request.target.decode("ascii"))
        if (
            request.method != b"GET"
            or target.path != self._redirect.path
            or not self.take(target.query)
        ):
            return 400, _STRANGE
        return 200, _REFUSED if isinstance(self._result, str) else _DONE

    async def read_pasted(self, descriptor: int) -> None:
        """Take the address that the person pastes, line by line, until the input ends."""
        rest = bytearray()
        while len(rest) <= _MAX_LINE_BYTES:
            try:
                await trio.lowlevel.wait_readable(descriptor)
                data = os.read(descriptor, _CHUNK_BYTES)
            except OSError:
                return  # a file, or nothing at all: there is no person
            if not data:
                return
            *lines, last = bytes(rest + data).split(b"\n")
            rest = bytearray(last)
            for line in lines:
                if line.strip() and not self._take_line(line.decode("utf-8", "replace").strip()):
                    os.write(2, b"swarm: that is not the address that this login ends at\n")

    def _take_line(self, text: str) -> bool:
        try:
            return self.take(urlsplit(text).query)
        except ValueError:
            return False


async def _read_request(connection: h11.Connection, stream: trio.SocketStream) -> h11.Request:
    while True:
        event = connection.next_event()
        if isinstance(event, h11.Request):
            return event
        if event is not h11.NEED_DATA:
            raise ValueError("no request")
        connection.receive_data(await stream.receive_some(_CHUNK_BYTES))


async def _answer(
    connection: h11.Connection, stream: trio.SocketStream, status: int, page: bytes
) -> None:
    headers = [
        ("Content-Type", "text/html; charset=utf-8"), ("Content-Length", str(len(page))),
        ("Connection", "close"), ("Cache-Control", "no-store"),
        ("Content-Security-Policy", "default-src 'none'"), ("Referrer-Policy", "no-referrer"),
    ]  # fmt: skip
    head = connection.send(h11.Response(status_code=status, headers=headers))
    body = connection.send(h11.Data(data=page))
    await stream.send_all((head or b"") + (body or b""))


def _one(fields: dict[str, list[str]], name: str) -> str:
    """The field, if it is there exactly once."""
    values = fields.get(name, [])
    return values[0] if len(values) == 1 else ""


@asynccontextmanager
async def open_callback(
    ports: tuple[int, ...], paste_from: int, redirect: Redirect = MCP_REDIRECT
) -> AsyncIterator[LoginCallback]:
    """Listen on loopback within the block, on the first of these ports that is free.

    Args:
        ports: 0: any.
        paste_from: The descriptor that a person's lines come from; -1: nobody types.
        redirect: What the authorization server knows of it.

    Raises:
        LoginRefused: No port is free.
    """
    listeners = await _listen(ports, is_named=redirect.host == "localhost")
    callback = LoginCallback(listeners[0], redirect)
    async with trio.open_nursery() as nursery:
        serve = partial(trio.serve_listeners, callback.serve, listeners)
        nursery.start_soon(serve)
        if paste_from >= 0:
            nursery.start_soon(callback.read_pasted, paste_from)
        try:
            yield callback
        finally:
            nursery.cancel_scope.cancel()


async def _listen(ports: tuple[int, ...], *, is_named: bool) -> list[trio.SocketListener]:
    """`is_named`: a browser may take the name for `::1`, where nobody else may listen then."""
    why = ""
    for port in ports:
        try:
            listeners = await trio.open_tcp_listeners(port, host="127.0.0.1")
        except OSError as error:
            why = f"port {port}: {error.strerror or error}"
            continue
        if not is_named:
            return listeners
        found = int(listeners[0].socket.getsockname()[1])
        try:
            return [*listeners, *await trio.open_tcp_listeners(found, host="::1")]
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                return listeners  # this machine has no IPv6
            why = f"port {found} on ::1: {error.strerror or error}"
            for one in listeners:
                await one.aclose()
    raise LoginRefused(f"no port on 127.0.0.1 can be listened on ({why})")


def is_own_visitor(stream: trio.SocketStream) -> bool:
    """False if the connection is another user's: he may have read the state in a list of processes.

    The kernel's tables of connections say whose it is. Where they cannot be read, the state alone
    decides.
    """
    theirs, ours = stream.socket.getpeername(), stream.socket.getsockname()
    wanted = {(theirs[1], ours[1])}
    readable = False
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        try:
            with open(table, encoding="ascii") as lines:  # noqa: PTH123 (a kernel's table)
                next(lines, "")
                readable = True
                for line in lines:
                    words = line.split()
                    if _ports(words) in wanted and _is_loopback(words):
                        return int(words[7]) in {0, os.geteuid()}
        except (OSError, ValueError, IndexError):
            continue
    return not readable


def _ports(words: list[str]) -> tuple[int, int]:
    return int(words[1].rpartition(":")[2], 16), int(words[2].rpartition(":")[2], 16)


def _is_loopback(words: list[str]) -> bool:
    """127.0.0.1, ::1 and ::ffff:127.0.0.1, as the tables write them."""
    return all(
        word.rpartition(":")[0].endswith(("0100007F", "01000000")) for word in (words[1], words[2])
    )

"""Accepts the listeners that agents open for their commands, and serves each one's connections.

A listener is served only with a ticket that the supervisor sealed, and only if it is a listening
TCP socket. Connections are limited per agent and in total. A failure of one connection ends only
that connection. A route ends when its agent closes the link.
"""

import array
import logging
import os
import socket
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import msgspec
import trio

from swarm.mailbox.base.private_files import close_to_others
from swarm.mailbox.contents.credentials import open_ticket
from swarm.mailbox.protocol.proxy import (
    BlockReason,
    NetworkBlocked,
    OpenRoute,
    RouteBlocked,
    decode_route,
    encode_route,
)

from .access_decision import NetworkRequest
from .client_connection import HEAD_LIMIT_S, ClientConnection, ClientGone
from .connector import ClientAccess, CommandOrigin, Connector
from .http_proxy import HttpProxyConnection
from .socks import VERSION, serve_socks

MOST_OF_AGENT, MOST_IN_ALL = 128, 1000
_MOST_ROUTES = 2_000
_MOST_BYTES = 1024 * 1024
_MOST_BLOCKED_KEPT = 200
_INTRODUCTION_LIMIT_S = 5.0
_PAUSE_S = 0.5
_CUT = socket.MSG_TRUNC | socket.MSG_CTRUNC
_log = logging.getLogger("swarm.proxy")


class RouteServer:
    """All routes of the run. `serve` owns every connection."""

    def __init__(
        self,
        connector: Connector,
        key: bytes,
        report: Callable[[NetworkBlocked], None],
    ) -> None:
        """`report` notifies the supervisor of a refusal; it never waits."""
        self.connector, self._key, self._report = connector, key, report
        self._connections = Counter[str]()  # by agent
        self._routes = 0
        self._reported: set[NetworkBlocked] = set()
        self.progress = 0

    @property
    def is_busy(self) -> bool:
        """True while any command is connected."""
        return self._connections.total() > 0

    async def serve(
        self, path: str, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> None:
        """Listen at `path` until cancelled; reports started once it listens. Raises OSError."""
        with suppress(FileNotFoundError):
            Path(path).unlink()  # noqa: ASYNC240 - left by an earlier proxy; in memory
        with trio.socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as server:
            await server.bind(path)
            close_to_others(path)
            server.listen(512)
            async with trio.open_nursery() as nursery:
                task_status.started()
                while True:
                    link = await _accepted(server)
                    if self._routes >= _MOST_ROUTES:
                        link.close()
                    else:
                        nursery.start_soon(self._serve_agent, link)

    async def _serve_agent(self, link: trio.socket.SocketType) -> None:
        self._routes += 1
        try:
            with link:
                opened = None
                with trio.move_on_after(_INTRODUCTION_LIMIT_S):
                    opened = await self._receive_route(link)
                if opened is not None:
                    caller, listener = opened
                    with listener:
                        await ServedRoute(self, caller, link).serve(listener)
        except* OSError as group:
            _log.warning("a route of a command broke: %s", group.exceptions)
        finally:
            self._routes -= 1

    async def _receive_route(
        self, link: trio.socket.SocketType
    ) -> tuple[CommandOrigin, trio.socket.SocketType] | None:
        """The caller and its listener; None if the ticket or the listener is invalid."""
        fds = array.array("i")
        room = socket.CMSG_SPACE(fds.itemsize)
        body, extra, flags, _ = await link.recvmsg(_MOST_BYTES, room, socket.MSG_CMSG_CLOEXEC)
        for level, kind, data in extra:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                fds.frombytes(data[: len(data) - len(data) % fds.itemsize])
        for fd in fds[1:]:
            os.close(fd)
        if not fds:
            return None
        try:
            listener = socket.socket(fileno=fds[0])
        except OSError:
            os.close(fds[0])
            return None
        opened = None
        with suppress(msgspec.DecodeError, UnicodeDecodeError):
            opened = decode_route(body)
        opened = opened if isinstance(opened, OpenRoute) else None
        ticket = open_ticket(opened.ticket, self._key) if opened is not None else None
        if opened is None or ticket is None or flags & _CUT or not _is_listener(listener):
            listener.close()
            return None
        listener.setblocking(False)
        caller = CommandOrigin(ticket=ticket, command=_one_line(opened))
        return caller, trio.socket.from_stdlib_socket(listener)

    def acquire_connection(self, agent: str) -> bool:
        """Count one more connection of this agent; False if there are too many."""
        full = self._connections[agent] >= MOST_OF_AGENT
        if full or self._connections.total() >= MOST_IN_ALL:
            return False
        self._connections[agent] += 1
        self.progress += 1
        return True

    def release_connection(self, agent: str) -> None:
        """Uncount a connection that `acquire_connection` counted."""
        self._connections[agent] -= 1
        if not self._connections[agent]:
            del self._connections[agent]

    def report_blocked(self, blocked: NetworkBlocked) -> None:
        """Report a refusal once."""
        if blocked not in self._reported and len(self._reported) < _MOST_BLOCKED_KEPT:
            self._reported.add(blocked)
            self._report(blocked)


class ServedRoute:
    """The route of one command."""

    def __init__(
        self, routes: RouteServer, caller: CommandOrigin, link: trio.socket.SocketType
    ) -> None:
        self._routes, self._caller, self._link = routes, caller, link
        self._reported: set[RouteBlocked] = set()

    async def serve(self, listener: trio.socket.SocketType) -> None:
        """Serve until the agent closes the link."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._accept, listener, nursery)
            with suppress(OSError):
                await self._link.recv(1)  # the agent sends nothing more: the end or an error
            nursery.cancel_scope.cancel()

    async def _accept(self, listener: trio.socket.SocketType, nursery: trio.Nursery) -> None:
        agent = self._caller.ticket.agent
        while True:
            sock = await _accepted(listener)
            if self._routes.acquire_connection(agent):
                nursery.start_soon(self._serve_one, sock)
            else:
                sock.close()

    async def _serve_one(self, sock: trio.socket.SocketType) -> None:
        try:
            with sock:
                stream = trio.SocketStream(sock)
                await self._serve_client(ClientConnection(stream, sock=sock))
        except ClientGone:
            return
        except Exception:  # a failure of one connection ends only that connection
            _log.warning("a connection through the proxy broke", exc_info=True)
        finally:
            self._routes.release_connection(self._caller.ticket.agent)

    async def _serve_client(self, client: ClientConnection) -> None:
        first = b""
        with trio.move_on_after(HEAD_LIMIT_S):
            first = await client.receive()
        if not first:
            return
        client.push_back(first)
        access = ClientAccess(self._routes.connector, self._caller, self._report_blocked)
        if first[0] == VERSION:
            await serve_socks(client, access)
        else:
            await HttpProxyConnection(client, access).serve()

    def _report_blocked(self, request: NetworkRequest, reason: BlockReason) -> None:
        """Notify the agent, for its model, and the supervisor, for people."""
        blocked = RouteBlocked(target=request.target, reason=reason)
        if blocked not in self._reported and len(self._reported) < _MOST_BLOCKED_KEPT:
            self._reported.add(blocked)
            with suppress(OSError):  # the agent is slow or has gone
                os.write(self._link.fileno(), encode_route(blocked))
        agent = self._caller.ticket.agent
        self._routes.report_blocked(
            NetworkBlocked(agent=agent, target=request.target, reason=reason, method=request.method)
        )


async def _accepted(listener: trio.socket.SocketType) -> trio.socket.SocketType:
    """The next connection. Waits and retries after an error: file descriptors may be exhausted,
    and the listener may be hostile.
    """
    while True:
        try:
            sock, _ = await listener.accept()
        except OSError as error:
            _log.warning("a connection could not be taken: %s", error)
            await trio.sleep(_PAUSE_S)
        else:
            return sock


def _is_listener(sock: socket.socket) -> bool:
    """True for a listening TCP socket."""
    if sock.family not in {socket.AF_INET, socket.AF_INET6} or sock.type != socket.SOCK_STREAM:
        return False
    return bool(sock.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN))


def _one_line(opened: OpenRoute) -> str:
    words = " ".join(opened.command[:2000].split())
    return "".join(sign if sign.isprintable() else "?" for sign in words)[:300]

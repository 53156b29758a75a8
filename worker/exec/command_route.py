"""The agent's side of a command's route to the network proxy.

The entrypoint inside the sandbox sends its listener to the agent, which passes it on to the proxy
together with the agent's sealed ticket. The route lasts as long as the socket to the proxy: when it
closes, the proxy drops the listener and all connections.

Without a proxy the command still runs, and its connections are refused. From inside the sandbox the
agent accepts one listener and nothing else.
"""

import array
import contextlib
import os
import socket

import msgspec
import trio

from swarm.mailbox.protocol.proxy import OpenRoute, RouteBlocked, decode_route, encode_route
from swarm.mailbox.protocol.values.base import Value

_ENTRYPOINT_LIMIT_S = 5.0
_PROXY_LIMIT_S = 2.0  # long enough for the proxy to restart
_TRY_AGAIN_S = 0.05
_MOST_BLOCKED = 200
_MOST_BYTES = 64 * 1024


class RouteRequest(Value):
    """Where the proxy is, and what identifies the command to it."""

    endpoint: str  # path of the proxy's socket
    ticket: bytes
    command: str = ""


class CommandRoute:
    """The route of one command. Make it before the command starts; always `close` it."""

    def __init__(self, request: RouteRequest) -> None:
        """Raises OSError if no socket could be made."""
        self._request = request
        self._our_end, self._entrypoint_end = socket.socketpair(
            socket.AF_UNIX, socket.SOCK_SEQPACKET
        )
        self._our_end.setblocking(False)
        self._proxy: socket.socket | None = None
        self._blocked: dict[RouteBlocked, None] = {}

    @property
    def entrypoint_fd(self) -> int:
        """The fd for the child's `bwrap.ROUTE_FD`."""
        return self._entrypoint_end.fileno()

    async def send_listener(self) -> None:
        """Pass the command's listener on, once the command is launched. Bounded; never fails."""
        self._entrypoint_end.close()
        listener: int | None = None
        try:
            with trio.move_on_after(_ENTRYPOINT_LIMIT_S):
                listener = await self._receive_listener()
            if listener is not None and self._request.endpoint:
                with trio.move_on_after(_PROXY_LIMIT_S):
                    await self._send_to_proxy(listener)
        finally:
            if listener is not None:
                os.close(listener)
            self._our_end.close()

    async def _receive_listener(self) -> int | None:
        """The listener; None if the entrypoint ended before it had one."""
        while True:
            try:
                fds = array.array("i")
                room = socket.CMSG_SPACE(fds.itemsize)
                _, extra, _, _ = self._our_end.recvmsg(1, room, socket.MSG_CMSG_CLOEXEC)
            except BlockingIOError:
                await trio.lowlevel.wait_readable(self._our_end)
                continue
            except OSError:
                return None
            for level, kind, data in extra:
                if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                    fds.frombytes(data[: fds.itemsize])
            return fds[0] if fds else None

    async def _send_to_proxy(self, listener: int) -> None:
        command = self._request.command[:2000]
        body = encode_route(OpenRoute(ticket=self._request.ticket, command=command))
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [listener]))]
        while True:
            link = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_NONBLOCK)
            try:
                link.connect(self._request.endpoint)
                link.sendmsg([body], rights, socket.MSG_NOSIGNAL)
            except OSError:  # the proxy is down; the supervisor restarts it
                link.close()
                await trio.sleep(_TRY_AGAIN_S)
            else:
                self._proxy = link
                return

    def blocked_requests(self) -> tuple[RouteBlocked, ...]:
        """What the proxy refused this command so far, each once; at most 200."""
        if self._proxy is not None:
            with contextlib.suppress(OSError):
                while said := self._proxy.recv(_MOST_BYTES):
                    with contextlib.suppress(msgspec.DecodeError, UnicodeDecodeError):
                        message = decode_route(said)
                        if isinstance(message, RouteBlocked) and len(self._blocked) < _MOST_BLOCKED:
                            self._blocked[message] = None
        return tuple(self._blocked)

    def close(self) -> None:
        """Close the route: the proxy drops the listener and every connection of the command."""
        self.blocked_requests()
        for one in (self._our_end, self._entrypoint_end, self._proxy):
            if one is not None:
                one.close()
        self._proxy = None

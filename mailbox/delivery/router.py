"""Server end of a mailbox: a ROUTER socket with a reliable endpoint; and a ROUTER for requests.

Messages to an admitted peer that is not connected are kept, and sent when its first frame arrives.
"""

from collections import OrderedDict
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import NamedTuple

import msgspec
import trio
import zmq

from .endpoint import ReliableEndpoint
from .fault_injection import with_injected_faults
from .guarded_listener import open_guarded_listener
from .interfaces import MailboxStatistics
from .polled import PolledSocket, open_socket

_MAX_DISMISSED = 1024  # dismissed peers remembered, so that a late frame does not admit one again

Accept = Callable[[bytes], int | None]
"""Called with a peer that is not admitted: returns the epoch to expect, or None to drop its frames.
"""


class Admission:
    """Calls `accept` for unknown peers, but never for a peer that was dismissed."""

    def __init__(self, accept: Accept | None) -> None:
        self._accept = accept
        self._dismissed = OrderedDict[bytes, None]()

    def epoch_for(self, stranger: bytes) -> int | None:
        """The epoch to expect from a peer that is not admitted; None to keep it out."""
        if self._accept is None or stranger in self._dismissed:
            return None
        return self._accept(stranger)

    def mark_dismissed(self, peer: bytes) -> None:
        """Remember that `peer` was dismissed (the last 1024 are remembered)."""
        if self._accept is not None:
            self._dismissed[peer] = None
            if len(self._dismissed) > _MAX_DISMISSED:
                self._dismissed.popitem(last=False)


class RouterServer(ReliableEndpoint):
    """MailboxServer over a ROUTER socket."""

    def __init__(
        self,
        sock: PolledSocket,
        monitor: zmq.Socket[bytes],
        nursery: trio.Nursery,
        *,
        epoch: int,
        accept: Accept | None = None,
    ) -> None:
        carry = with_injected_faults(lambda peer, frame: sock.send(peer, frame), nursery)
        super().__init__(carry, epoch=epoch)
        self._monitor, self._admission = monitor, Admission(accept)
        self._disconnects = self._expected_disconnects = 0

    def admit(self, peer: bytes, *, epoch: int) -> None:
        super().admit(peer, epoch=epoch)
        self._drain_monitor()

    def receive_frame(self, peer: bytes, frame: bytes) -> None:
        if peer not in self._peers and (epoch := self._admission.epoch_for(peer)) is not None:
            self.admit(peer, epoch=epoch)
        super().receive_frame(peer, frame)

    def dismiss(self, peer: bytes) -> tuple[bytes, ...]:
        self._expected_disconnects += self.has_received_from(peer)
        self._admission.mark_dismissed(peer)
        return super().dismiss(peer)

    def statistics(self) -> MailboxStatistics:
        """As MailboxServer.statistics; `disconnects` are ended connections minus dismissals.

        The number is exact once every ended peer has been dismissed.
        """
        self._drain_monitor()
        unexpected = max(0, self._disconnects - self._expected_disconnects)
        return msgspec.structs.replace(super().statistics(), disconnects=unexpected)

    def _drain_monitor(self) -> None:
        while int(self._monitor.getsockopt(zmq.EVENTS)) & zmq.POLLIN:
            self._monitor.recv_multipart(zmq.NOBLOCK)
            self._disconnects += 1


@asynccontextmanager
async def open_router(
    endpoint: str, *, epoch: int = 1, accept: Accept | None = None
) -> AsyncIterator[RouterServer]:
    """Listen at `endpoint` for peers, each admitted by name, or by `accept`.

    Args:
        endpoint: As `ipc:///run/…/mail` in a folder of mode 0700; the path has at most 107 bytes.
        epoch: Number of this start of the process; children adopt the first one that they receive.
        accept: Called when a frame of a peer arrives that is not admitted. A peer that it accepts
            has proved nothing yet: its first message must do that. It is not called for a dismissed
            peer, because an identity is never reused.

    Raises:
        EndpointUnavailable: It cannot be bound.
    """
    with open_socket("router") as sock:
        sock.raw.router_mandatory = 1
        sock.raw.router_handover = 0
        monitor = sock.raw.get_monitor_socket(zmq.Event.DISCONNECTED)
        monitor.linger = monitor.rcvhwm = 0
        try:
            async with open_guarded_listener(sock, endpoint), trio.open_nursery() as nursery:
                server = RouterServer(sock, monitor, nursery, epoch=epoch, accept=accept)
                sock.start_pump(nursery, partial(_receive_message, server))
                nursery.start_soon(server.run_acks)
                nursery.start_soon(server.run_probes)
                try:
                    yield server
                finally:
                    server.disconnect()
                    nursery.cancel_scope.cancel()
        finally:
            sock.raw.disable_monitor()
            monitor.close(linger=0)


def _receive_message(server: RouterServer, message: list[bytes]) -> None:
    if len(message) == 2:
        server.receive_frame(message[0], message[1])
    else:
        server.count_drop("malformed")


class RequestSender(NamedTuple):
    """The sender of a frame, and the process behind its connection if known."""

    identity: bytes
    pid: int | None


class RequestServerSocket:
    """A ROUTER that any process may call; one frame per message. Used by control_channel.py."""

    def __init__(self, sock: PolledSocket) -> None:
        self._sock = sock

    async def receive(self) -> tuple[RequestSender, bytes] | None:
        """The next frame and its sender; None for a message without exactly one frame."""
        await self._sock.wait_message()
        frames = self._sock.raw.recv_multipart(zmq.NOBLOCK, copy=False)
        if len(frames) != 2:
            return None
        return RequestSender(frames[0].bytes, _peer_pid(frames[1])), frames[1].bytes

    def reply(self, caller: RequestSender, frame: bytes) -> bool:
        """False if the caller has gone."""
        return self._sock.send(caller.identity, frame)


@asynccontextmanager
async def open_request_server(endpoint: str) -> AsyncIterator[RequestServerSocket]:
    """Listen for requests at `endpoint`. Raises EndpointUnavailable."""
    with open_socket("router") as sock:
        sock.raw.router_mandatory = 1
        async with open_guarded_listener(sock, endpoint):
            yield RequestServerSocket(sock)


def _peer_pid(frame: zmq.Frame) -> int | None:
    """The pid in libzmq's `localhost:uid:gid:pid` for ipc (SO_PEERCRED at connect time)."""
    try:
        address = frame.get("Peer-Address")
    except zmq.ZMQError:
        return None
    fields = str(address).rsplit(":", 3)
    return int(fields[3]) if len(fields) == 4 and fields[3].isdecimal() else None

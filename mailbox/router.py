"""The many-peer end: a ROUTER socket under a desk, and the plain one that callers use.

Mail to an admitted peer that is not connected is kept, and goes out when its first frame arrives.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import NamedTuple

import msgspec
import trio
import zmq

from .desk import Desk
from .doorway import Accept, Doorway
from .gate import open_gate
from .polled import PolledSocket, open_socket
from .post import PostStatistics
from .wire import over_wire


class RouterOffice(Desk):
    """PostOffice over a ROUTER socket."""

    def __init__(
        self,
        sock: PolledSocket,
        monitor: zmq.Socket[bytes],
        nursery: trio.Nursery,
        *,
        epoch: int,
        accept: Accept | None = None,
    ) -> None:
        carry = over_wire(lambda peer, frame: sock.send(peer, frame), nursery)
        super().__init__(carry, epoch=epoch)
        self._monitor, self._doorway = monitor, Doorway(accept)
        self._hung_up = self._farewells = 0

    def admit(self, peer: bytes, *, epoch: int) -> None:
        super().admit(peer, epoch=epoch)
        self._drain_monitor()

    def arrive(self, peer: bytes, frame: bytes) -> None:
        if peer not in self._talks and (epoch := self._doorway.epoch_of(peer)) is not None:
            self.admit(peer, epoch=epoch)
        super().arrive(peer, frame)

    def dismiss(self, peer: bytes) -> tuple[bytes, ...]:
        self._farewells += self.is_heard(peer)
        self._doorway.close_behind(peer)
        return super().dismiss(peer)

    def statistics(self) -> PostStatistics:
        """As PostOffice.statistics; `disconnects` are connections that ended, less dismissals.

        So it is exact when every peer that ended has been dismissed.
        """
        self._drain_monitor()
        unexpected = max(0, self._hung_up - self._farewells)
        return msgspec.structs.replace(super().statistics(), disconnects=unexpected)

    def _drain_monitor(self) -> None:
        while int(self._monitor.getsockopt(zmq.EVENTS)) & zmq.POLLIN:
            self._monitor.recv_multipart(zmq.NOBLOCK)
            self._hung_up += 1


@asynccontextmanager
async def open_router(
    endpoint: str, *, epoch: int = 1, accept: Accept | None = None
) -> AsyncIterator[RouterOffice]:
    """Listen at `endpoint` for peers, each admitted by name first, or by `accept`.

    Args:
        endpoint: As `ipc:///run/…/mail` in a folder of mode 0700; the path at most 107 bytes.
        epoch: The life of this process; children take the first one they hear.
        accept: Asked about each peer that is not admitted when a frame of it arrives. Who it lets
            in has proved nothing yet: that is for the first letter to do. One that was dismissed
            is not asked about again: an identity has one life.

    Raises:
        NoEndpoint: It cannot be bound.
    """
    with open_socket("router") as sock:
        sock.raw.router_mandatory = 1
        sock.raw.router_handover = 0
        monitor = sock.raw.get_monitor_socket(zmq.Event.DISCONNECTED)
        monitor.linger = monitor.rcvhwm = 0
        try:
            async with open_gate(sock, endpoint), trio.open_nursery() as nursery:
                office = RouterOffice(sock, monitor, nursery, epoch=epoch, accept=accept)
                sock.begin_pump(nursery, partial(_take, office))
                nursery.start_soon(office.tend_acknowledgements)
                nursery.start_soon(office.tend_silence)
                try:
                    yield office
                finally:
                    office.hang_up()
                    nursery.cancel_scope.cancel()
        finally:
            sock.raw.disable_monitor()
            monitor.close(linger=0)


def _take(office: RouterOffice, message: list[bytes]) -> None:
    if len(message) == 2:
        office.arrive(message[0], message[1])
    else:
        office.refuse("malformed")


class Caller(NamedTuple):
    """Who sent a frame on a plain router, and the process behind the connection if known."""

    identity: bytes
    pid: int | None


class CallerSocket:
    """A ROUTER that anyone may call; one frame a message. control.py gives it meaning."""

    def __init__(self, sock: PolledSocket) -> None:
        self._sock = sock

    async def receive(self) -> tuple[Caller, bytes] | None:
        """The next frame and its sender; None for a message that is not of one frame."""
        await self._sock.wait_mail()
        frames = self._sock.raw.recv_multipart(zmq.NOBLOCK, copy=False)
        if len(frames) != 2:
            return None
        return Caller(frames[0].bytes, _peer_pid(frames[1])), frames[1].bytes

    def reply(self, caller: Caller, frame: bytes) -> bool:
        """False if the caller has gone."""
        return self._sock.send(caller.identity, frame)


@asynccontextmanager
async def open_callers(endpoint: str) -> AsyncIterator[CallerSocket]:
    """Listen for callers at `endpoint`. Raises NoEndpoint."""
    with open_socket("router") as sock:
        sock.raw.router_mandatory = 1
        async with open_gate(sock, endpoint):
            yield CallerSocket(sock)


def _peer_pid(frame: zmq.Frame) -> int | None:
    """libzmq gives `localhost:uid:gid:pid` for ipc, from SO_PEERCRED at the time of connect."""
    try:
        address = frame.get("Peer-Address")
    except zmq.ZMQError:
        return None
    fields = str(address).rsplit(":", 3)
    return int(fields[3]) if len(fields) == 4 and fields[3].isdecimal() else None

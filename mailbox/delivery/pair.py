"""In-memory mailbox server and clients for tests: the real endpoint, no socket, virtual time.

Frames arrive in order, one scheduler tick later, unless `faults` says otherwise. The only clock is
Trio's, so `autojump_clock` works.
"""

from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import NamedTuple

import trio

from .dealer import SinglePeerMailbox
from .endpoint import SOLE_PEER, ReliableEndpoint
from .router import Accept, Admission


class FrameInTransit(NamedTuple):
    """One frame in transit, as a fault hook sees it."""

    peer: bytes  # the child's identity
    to_server: bool  # True: from the child to the server
    frame: bytes


Faults = Callable[[FrameInTransit], tuple[float, ...]]
"""Returns for each frame the delays in seconds of its copies: (0.0,) delivers it, () drops it,
(0.0, 0.0) duplicates it, (0.5,) delays it so that later frames overtake it.
"""


def no_faults(_passage: FrameInTransit) -> tuple[float, ...]:
    """Deliver every frame once, at once."""
    return (0.0,)


class PairServer(ReliableEndpoint):
    """In-memory MailboxServer, made by `open_pair_server`."""

    def __init__(
        self, nursery: trio.Nursery, *, epoch: int, faults: Faults, accept: Accept | None = None
    ) -> None:
        super().__init__(partial(self._transmit_frame, inward=False), epoch=epoch)
        self._admission = Admission(accept)
        self._nursery, self.faults = nursery, faults
        self._children: dict[bytes, ReliableEndpoint] = {}
        self._scopes: dict[bytes, trio.CancelScope] = {}  # of the tasks of a child's endpoint
        self._wire = deque[FrameInTransit]()
        self._traffic = trio.lowlevel.ParkingLot()

    def connect(self, identity: bytes, *, epoch: int) -> SinglePeerMailbox:
        """A child's end. It may connect before it is admitted; until then frames are dropped."""
        carry = partial(self._transmit_from_child, identity)
        reliable = self._children[identity] = ReliableEndpoint(carry, epoch=epoch)
        mailbox = SinglePeerMailbox(reliable)
        scope = self._scopes[identity] = trio.CancelScope()
        self._nursery.start_soon(self._run_child, reliable, scope)
        reliable.announce(SOLE_PEER)
        return mailbox

    async def _run_child(self, reliable: ReliableEndpoint, scope: trio.CancelScope) -> None:
        with scope:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(reliable.run_acks)
                nursery.start_soon(reliable.run_probes)

    def receive_frame(self, peer: bytes, frame: bytes) -> None:
        if peer not in self._peers and (epoch := self._admission.epoch_for(peer)) is not None:
            self.admit(peer, epoch=epoch)
        super().receive_frame(peer, frame)

    def dismiss(self, peer: bytes) -> tuple[bytes, ...]:
        self._admission.mark_dismissed(peer)
        return super().dismiss(peer)

    def disconnect_child(self, identity: bytes) -> None:
        """Simulate the death of the child's process: no frame reaches it or comes from it."""
        del self._children[identity]
        self._scopes.pop(identity).cancel()

    def inject(self, identity: bytes, frame: bytes) -> None:
        """Send raw bytes to the server, as a hostile child would."""
        self._transmit_frame(identity, frame, inward=True)

    def _transmit_from_child(self, identity: bytes, _other_side: bytes, frame: bytes) -> bool:
        return identity in self._children and self._transmit_frame(identity, frame, inward=True)

    def _transmit_frame(self, peer: bytes, frame: bytes, *, inward: bool) -> bool:
        if peer not in self._children and not inward:
            return False  # as ROUTER_MANDATORY reports a peer that is not connected
        passage = FrameInTransit(peer, inward, frame)
        for delay_s in self.faults(passage):
            if delay_s:
                self._nursery.start_soon(self._put_later, passage, delay_s)
            else:
                self._put_on_wire(passage)
        return True

    def _put_on_wire(self, passage: FrameInTransit) -> None:
        self._wire.append(passage)
        self._traffic.unpark()

    async def _put_later(self, passage: FrameInTransit, delay_s: float) -> None:
        await trio.sleep(delay_s)
        self._put_on_wire(passage)

    async def run_wire(self) -> None:
        """Deliver frames, each one tick after it was sent."""
        while True:
            if not self._wire:
                await self._traffic.park()
            for _ in range(len(self._wire)):
                passage = self._wire.popleft()
                child = self._children.get(passage.peer)
                if passage.to_server:
                    self.receive_frame(passage.peer, passage.frame)
                elif child is not None:
                    child.receive_frame(SOLE_PEER, passage.frame)
            await trio.lowlevel.checkpoint()


@asynccontextmanager
async def open_pair_server(
    *, epoch: int = 1, faults: Faults = no_faults, accept: Accept | None = None
) -> AsyncIterator[PairServer]:
    """A server whose children connect in memory; their mailboxes end with the block."""
    async with trio.open_nursery() as nursery:
        server = PairServer(nursery, epoch=epoch, faults=faults, accept=accept)
        nursery.start_soon(server.run_wire)
        nursery.start_soon(server.run_acks)
        nursery.start_soon(server.run_probes)
        try:
            yield server
        finally:
            nursery.cancel_scope.cancel()

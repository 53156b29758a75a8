"""The in-memory twin of router and dealers, for tests: same desk, no socket, virtual time.

Frames cross in order, one scheduler tick later, unless `faults` says otherwise. Nothing here reads
a clock but Trio's, so `autojump_clock` works.
"""

from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import NamedTuple

import trio

from .desk import OTHER_SIDE, Desk, SoleMailbox
from .doorway import Accept, Doorway


class Passage(NamedTuple):
    """One frame on its way, as a fault hook sees it."""

    peer: bytes  # the child's identity
    inward: bool  # True: from the child to the office
    frame: bytes


Faults = Callable[[Passage], tuple[float, ...]]
"""For each frame the delays in seconds of its copies: (0.0,) is a sound wire, () drops it,
(0.0, 0.0) doubles it, (0.5,) delays it, so that later ones overtake it."""


def no_faults(_passage: Passage) -> tuple[float, ...]:
    """A sound wire."""
    return (0.0,)


class PairOffice(Desk):
    """PostOffice in memory. Made by `open_pair_office`."""

    def __init__(
        self, nursery: trio.Nursery, *, epoch: int, faults: Faults, accept: Accept | None = None
    ) -> None:
        super().__init__(partial(self._carry_frame, inward=False), epoch=epoch)
        self._doorway = Doorway(accept)
        self._nursery, self.faults = nursery, faults
        self._children: dict[bytes, Desk] = {}
        self._scopes: dict[bytes, trio.CancelScope] = {}  # of what runs beside a child's desk
        self._wire = deque[Passage]()
        self._traffic = trio.lowlevel.ParkingLot()

    def connect(self, identity: bytes, *, epoch: int) -> SoleMailbox:
        """A child's end. It need not be admitted yet, but until then its frames are dropped."""
        carry = partial(self._from_child, identity)
        desk = self._children[identity] = Desk(carry, epoch=epoch)
        mailbox = SoleMailbox(desk)
        scope = self._scopes[identity] = trio.CancelScope()
        self._nursery.start_soon(self._tend, desk, scope)
        desk.greet(OTHER_SIDE)
        return mailbox

    async def _tend(self, desk: Desk, scope: trio.CancelScope) -> None:
        with scope:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(desk.tend_acknowledgements)
                nursery.start_soon(desk.tend_silence)

    def arrive(self, peer: bytes, frame: bytes) -> None:
        if peer not in self._talks and (epoch := self._doorway.epoch_of(peer)) is not None:
            self.admit(peer, epoch=epoch)
        super().arrive(peer, frame)

    def dismiss(self, peer: bytes) -> tuple[bytes, ...]:
        self._doorway.close_behind(peer)
        return super().dismiss(peer)

    def sever(self, identity: bytes) -> None:
        """The child's process has died: nothing reaches it, nothing comes from it."""
        del self._children[identity]
        self._scopes.pop(identity).cancel()

    def inject(self, identity: bytes, frame: bytes) -> None:
        """Put raw bytes on the wire to the office, as a hostile child would."""
        self._carry_frame(identity, frame, inward=True)

    def _from_child(self, identity: bytes, _other_side: bytes, frame: bytes) -> bool:
        return identity in self._children and self._carry_frame(identity, frame, inward=True)

    def _carry_frame(self, peer: bytes, frame: bytes, *, inward: bool) -> bool:
        if peer not in self._children and not inward:
            return False  # what ROUTER_MANDATORY says of a peer that is not connected
        passage = Passage(peer, inward, frame)
        for delay_s in self.faults(passage):
            if delay_s:
                self._nursery.start_soon(self._delay, passage, delay_s)
            else:
                self._put(passage)
        return True

    def _put(self, passage: Passage) -> None:
        self._wire.append(passage)
        self._traffic.unpark()

    async def _delay(self, passage: Passage, delay_s: float) -> None:
        await trio.sleep(delay_s)
        self._put(passage)

    async def tend_wire(self) -> None:
        """Carry frames, each a tick after it was given."""
        while True:
            if not self._wire:
                await self._traffic.park()
            for _ in range(len(self._wire)):
                passage = self._wire.popleft()
                child = self._children.get(passage.peer)
                if passage.inward:
                    self.arrive(passage.peer, passage.frame)
                elif child is not None:
                    child.arrive(OTHER_SIDE, passage.frame)
            await trio.lowlevel.checkpoint()


@asynccontextmanager
async def open_pair_office(
    *, epoch: int = 1, faults: Faults = no_faults, accept: Accept | None = None
) -> AsyncIterator[PairOffice]:
    """An office whose children connect in memory; when the block ends, so do their mailboxes."""
    async with trio.open_nursery() as nursery:
        office = PairOffice(nursery, epoch=epoch, faults=faults, accept=accept)
        nursery.start_soon(office.tend_wire)
        nursery.start_soon(office.tend_acknowledgements)
        nursery.start_soon(office.tend_silence)
        try:
            yield office
        finally:
            nursery.cancel_scope.cancel()

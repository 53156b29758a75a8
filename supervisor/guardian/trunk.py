"""Which process judges: the trunk if it is free, else a fork of what it had last completed.

Rules guarded: one trunk a run, so that its prompt cache holds and it knows what it has read; it
judges one action at a time; parallel reviews never see each other; whatever cannot be trusted any
more (it failed, it did not stop, it grew too long) is not asked again.
"""

import trio

from swarm.mailbox.protocol.items import AnyItem

from ..control import Control
from ..running import Running
from .policy import Seat
from .session import Session

TRUNK_PATH = "/guardian"
MOST_FORKS = 4
MOST_REVIEWS = 20  # of one trunk; then another one begins with the whole transcript
FULLEST = 0.7  # share of its window


class Lease:
    """A session for one review. `fork`: it ends with it."""

    def __init__(self, session: Session, *, fork: bool) -> None:
        self.session, self.fork = session, fork


class Bench:
    """Owns the reviewing processes of a run.

    Args:
        running: The run.
        control: Starts and ends processes.
        nursery: For the ends that nobody waits for.
        alone: Every review gets a process of its own that has read nothing (for measuring).
    """

    def __init__(
        self, running: Running, control: Control, nursery: trio.Nursery, *, alone: bool = False
    ) -> None:
        self._run, self._control, self._nursery = running, control, nursery
        self._alone = alone
        self._trunk: Session | None = None
        self._forks = self._stopping = 0
        self.places = trio.CapacityLimiter(1 + MOST_FORKS)

    async def lease(self, seat: Seat) -> Lease:
        """A process that is ready to be asked; the caller holds one of `places`.

        Raises SpawnError. Give it back with `done`, `broken` or `cut_off`.
        """
        trunk = self._trunk
        if trunk is not None and not trunk.is_alive:
            trunk = self._trunk = None
        if self._alone or (trunk is not None and trunk.busy):
            return await self._fork(seat)
        if trunk is not None and trunk.seat != seat:
            self._drop(trunk)
            trunk = None
        if trunk is None:
            return await self._plant(seat)
        trunk.busy = True
        return Lease(trunk, fork=False)

    async def _plant(self, seat: Seat) -> Lease:
        """A trunk that is not there yet is busy from now on: whoever comes meanwhile forks."""
        path = TRUNK_PATH if TRUNK_PATH not in self._control.agents else self._fork_path()
        trunk = self._trunk = Session(self._run, self._control, seat=seat, path=path)
        trunk.busy = True
        try:
            await trunk.start()
        except BaseException:
            self._trunk = None
            raise
        return Lease(trunk, fork=False)

    async def _fork(self, seat: Seat) -> Lease:
        trunk, history = self._trunk, tuple[AnyItem, ...]()
        fork = Session(self._run, self._control, seat=seat, path=self._fork_path())
        if trunk is not None and trunk.seat == seat and not self._alone:
            fork.cursors, fork.reviews = dict(trunk.cursors), trunk.reviews
            history = await trunk.committed_items()
            if not history:
                fork.cursors, fork.reviews = {}, 0
        await fork.start(history)
        return Lease(fork, fork=True)

    def _fork_path(self) -> str:
        self._forks += 1
        return f"{TRUNK_PATH}/{self._forks}"

    @property
    def is_stopping(self) -> bool:
        """True while a review that was given up is being stopped."""
        return self._stopping > 0

    # --- giving back ---------------------------------------------------------------------------

    def done(self, lease: Lease) -> None:
        """The review is complete."""
        session = lease.session
        worn = session.reviews >= MOST_REVIEWS or session.context_share > FULLEST
        if lease.fork or worn:
            self._drop(session)
        session.busy = False

    def broken(self, lease: Lease) -> None:
        """The review failed: what is in this process's mind is not gone on with."""
        self._drop(lease.session)

    def cut_off(self, lease: Lease) -> None:
        """The review was given up in the middle: stopped in the background, or ended."""
        if lease.fork:
            self._drop(lease.session)
        else:
            self._stopping += 1
            self._nursery.start_soon(self._drain, lease.session)

    async def _drain(self, session: Session) -> None:
        try:
            if await session.halt():
                session.busy = False
            else:
                self._drop(session)
        finally:
            self._stopping -= 1

    def _drop(self, session: Session) -> None:
        if self._trunk is session:
            self._trunk = None
        self._nursery.start_soon(session.end)

"""How many commands of one agent may be open at once, and the line of calls that wait for a slot.

Guards: a session whose call still waits is never ended for another's sake. One in the background
(answered, and nobody waits for it) may be; where there is none, the next call waits in line, and
the line has an end.
"""

from collections.abc import Callable, Iterable
from typing import Protocol, TypeVar

import trio

from .exec_outcome import MAX_SESSIONS, PROTECTED_RECENT, SessionQueueFull

MAX_QUEUED_CALLS = 256


class SlotHolder(Protocol):
    """What is known of a session that holds a slot."""

    last_used: int
    awaited: int

    @property
    def has_ended(self) -> bool: ...


OccupantT = TypeVar("OccupantT", bound=SlotHolder)


def choose_session_to_close(sessions: Iterable[OccupantT]) -> OccupantT | None:
    """Not one that is awaited, nor of the last used ones; an ended one if there is any, else the
    one used longest ago. None: every call waits.
    """
    by_use = sorted(sessions, key=lambda one: one.last_used)
    spare = [one for one in by_use[:-PROTECTED_RECENT] if not one.awaited]
    return next((one for one in spare if one.has_ended), spare[0] if spare else None)


class SessionSlots:
    """Hands out slots in the order of asking."""

    def __init__(self, make_room: Callable[[], bool], *, most: int = MAX_SESSIONS) -> None:
        """`make_room` closes a session whose slot is then the asker's; False: none may be."""
        self._make_room, self._most = make_room, most
        self._held = 0
        self._queue: dict[trio.Event, None] = {}  # in order

    async def acquire(self) -> float:
        """Wait for a slot; returns for how many seconds. Raises LineFull; nothing is held then."""
        if not self._queue and self._try_acquire():
            return 0.0
        if len(self._queue) >= MAX_QUEUED_CALLS:
            raise SessionQueueFull(running=self._held, waiting=len(self._queue))
        asked, turn = trio.current_time(), trio.Event()
        self._queue[turn] = None
        try:
            await turn.wait()
        except trio.Cancelled:
            if self._queue.pop(turn, 0) == 0:  # it had just been handed one
                self.release()
            raise
        return trio.current_time() - asked

    def release(self) -> None:
        """The session is closed, or never began."""
        self._held -= 1
        self.wake_waiting()

    def wake_waiting(self) -> None:
        """A slot came free, or a session is awaited no more: whose turn it is may go on."""
        while self._queue and self._try_acquire():
            turn = next(iter(self._queue))
            del self._queue[turn]
            turn.set()

    def _try_acquire(self) -> bool:
        if self._held >= self._most:
            return self._make_room()  # that session's slot is handed on
        self._held += 1
        return True

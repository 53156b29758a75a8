"""Slots for the open commands of one agent, and the queue of calls that wait for a slot.

A session is never closed for another while a call waits for it. A session in the background
(answered, and no call waits for it) may be closed. If there is none, the next call queues; the
queue is bounded.
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
    """The session to close: an ended one if there is any, otherwise the least recently used.

    Never one that a call waits for, nor one of the most recently used. None if none qualifies.
    """
    by_use = sorted(sessions, key=lambda one: one.last_used)
    spare = [one for one in by_use[:-PROTECTED_RECENT] if not one.awaited]
    return next((one for one in spare if one.has_ended), spare[0] if spare else None)


class SessionSlots:
    """Hands out slots in the order of the calls."""

    def __init__(self, make_room: Callable[[], bool], *, most: int = MAX_SESSIONS) -> None:
        """`make_room` closes a session and leaves its slot to the caller; False: it closed none."""
        self._make_room, self._most = make_room, most
        self._held = 0
        self._queue: dict[trio.Event, None] = {}  # in order

    async def acquire(self) -> float:
        """Wait for a slot; return the seconds waited. Raises SessionQueueFull: it holds no slot."""
        if not self._queue and self._try_acquire():
            return 0.0
        if len(self._queue) >= MAX_QUEUED_CALLS:
            raise SessionQueueFull(running=self._held, waiting=len(self._queue))
        asked, turn = trio.current_time(), trio.Event()
        self._queue[turn] = None
        try:
            await turn.wait()
        except trio.Cancelled:
            if self._queue.pop(turn, 0) == 0:  # it had just received a slot
                self.release()
            raise
        return trio.current_time() - asked

    def release(self) -> None:
        """Give back the slot of a session that was closed or never began."""
        self._held -= 1
        self.wake_waiting()

    def wake_waiting(self) -> None:
        """Let queued calls try again: a slot is free, or no call waits for some session."""
        while self._queue and self._try_acquire():
            turn = next(iter(self._queue))
            del self._queue[turn]
            turn.set()

    def _try_acquire(self) -> bool:
        if self._held >= self._most:
            return self._make_room()  # the caller takes over that session's slot
        self._held += 1
        return True

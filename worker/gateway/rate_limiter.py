"""Rate limiter of one server: tasks wait here until rate_limit_state.py admits them.

Agents are notified why they wait (`RequestWaiting`), and the supervisor is notified that requests
are held back (`Throttled`), so that the console can show it.
"""

from collections.abc import AsyncGenerator, Callable, Sequence
from time import time

import trio

from swarm.mailbox.protocol.gateway import LimitWindow, RateLimits, Throttled

from .backend import Failure, RequestWaiting
from .rate_limit_state import Admitted, RateLimitState, WaitForSlot, WaitUntil
from .reached_limits import ReachedLimits

REPEAT_NOTICE_S = 60.0  # a longer wait is reported again after this time
MOVED_PERCENT = 1.0  # a window that changed by this much counts as changed
Announce = Callable[[Throttled | RateLimits], None]
Noise = Callable[[], float]  # random numbers in [0, 1)


class RateLimiter:
    """The limiter of one server. Call `note_answered` or `note_unanswered` after each admission."""

    def __init__(
        self, *, announce: Announce, noise: Noise, unix_s: Callable[[], float] = time
    ) -> None:
        self.unix_s = unix_s  # the wall clock
        self._state = RateLimitState()
        self._limits = ReachedLimits(unix_s)
        self._announce, self._noise = announce, noise
        self._waiters: dict[int, trio.Event] = {}  # ticket → set when something changed
        self._is_announced = False
        self._windows: dict[str, LimitWindow] = {}

    @property
    def ever_answered(self) -> bool:
        """True once the server has accepted a request."""
        return self._state.ever_answered

    def noise(self) -> float:
        """A random number in [0, 1), for jitter."""
        return self._noise()

    async def wait_turn(self) -> AsyncGenerator[RequestWaiting, None]:
        """Ends when this request may be sent; yields a notice when the reason changes, and once
        a minute.
        """
        ticket = self._state.enqueue()
        noticed, notice_again_at = "", 0.0
        try:
            while True:
                now = trio.current_time()
                match self._state.admit(ticket, now):
                    case Admitted():
                        return
                    case WaitUntil(moment=until, reason=reason):
                        news, notice = (
                            f"{until} {reason}",
                            RequestWaiting(reason=reason, delay_s=until - now),
                        )
                    case WaitForSlot(reason=reason):
                        until = float("inf")
                        reason = reason or "other requests go first"
                        news, notice = reason, RequestWaiting(reason=reason, delay_s=0.0)
                if news != noticed or now >= notice_again_at:
                    noticed, notice_again_at = news, now + REPEAT_NOTICE_S
                    yield notice
                await self._wait_change(ticket, min(until, notice_again_at))
        finally:
            self._state.dequeue(ticket)
            self._wake_head()

    def note_answered(self) -> None:
        """The server accepted the request."""
        self._state.answered()
        if self._is_announced:
            self._is_announced = False
            waiting = self._state.waiting
            self._announce(Throttled(reason=self._state.reason, delay_s=None, waiting=waiting))
        self._wake_head()

    def note_unanswered(self) -> None:
        """The request ended without an answer."""
        self._state.ended_unanswered()
        self._wake_head()

    def note_limits(self, windows: Sequence[LimitWindow]) -> None:
        """Store the allowances that the server reported; announce them if one has changed."""
        moved = False
        for window in windows:
            known = self._windows.get(window.name)
            if known is None or abs(window.used_percent - known.used_percent) >= MOVED_PERCENT:
                self._windows[window.name], moved = window, True
        if moved:
            self._announce(RateLimits(windows=tuple(self._windows.values())))

    def note_push_back(self, asked_s: float | None, reason: str) -> float:
        """The server says wait: stop sending. Returns for how many seconds."""
        now = trio.current_time()
        delay_s = self._state.pushed_back(now, asked_s, noise=self._noise(), reason=reason)
        self._announce_closed(reason, delay_s)
        return delay_s

    def note_connection_lost(self, reason: str) -> float:
        """The server cannot be reached: stop sending. Returns for how many seconds."""
        delay_s = self._state.connection_lost(
            trio.current_time(), noise=self._noise(), reason=reason
        )
        if self._state.ever_answered or self._state.losses > 2:
            self._announce_closed(reason, delay_s)
        return delay_s

    def pause(self, delay_s: float, reason: str) -> None:
        """The allowance is used up: stop sending for that long."""
        self._state.pause(trio.current_time(), delay_s, reason=reason)
        self._announce_closed(reason, delay_s)

    def note_limit(self, model: str, failure: Failure) -> None:
        """A final failure: if it is a limit with a known end, nobody asks for this model until
        then; afterwards one request goes first.
        """
        if self._limits.note(model, failure):
            self._state.begin_slowly()

    def find_limit(self, model: str) -> Failure | None:
        """The limit that holds for this model now: its requests are not sent."""
        return self._limits.find(model)

    def try_now(self) -> None:
        """A person wants it tried: no limit and no pause that is known holds any more."""
        self._limits.lift()
        self._state.open_now(trio.current_time())
        for changed in self._waiters.values():
            changed.set()

    def closed_s(self) -> float:
        """Seconds until requests may be sent."""
        return self._state.closed_s(trio.current_time())

    def _announce_closed(self, reason: str, delay_s: float) -> None:
        self._is_announced = True
        waiting = self._state.waiting
        self._announce(Throttled(reason=reason, delay_s=delay_s, waiting=waiting))

    async def _wait_change(self, ticket: int, moment: float) -> None:
        changed = self._waiters[ticket] = trio.Event()
        try:
            with trio.move_on_at(moment):
                await changed.wait()
        finally:
            del self._waiters[ticket]

    def _wake_head(self) -> None:
        head = self._state.head()
        if head is not None and head in self._waiters:
            self._waiters[head].set()

"""One patience for all agents: who may send to a server now, and who waits until when.

A server that says "wait" (429, 503, 529), or that cannot be reached, closes the door for everyone
until the moment it named. Then one request goes first; each one that the server takes opens one
place more among those that have no answer yet (1, 2, 4, …, as TCP starts slowly), so thirty agents
do not run into the same refusal together. When `SLOW_START_SLOTS` were reached, no bound is left.
Waiting requests go in the order in which they came.

Pure: the clock and the noise come in as arguments; gate.py does the waiting.
"""

import msgspec

from .retry_delays import PUSH_BACK_BASE_S, backoff_s, with_jitter

SLOW_START_SLOTS = 64  # places at which the slow start is over


class Admitted(msgspec.Struct, frozen=True):
    """Send now; `answered` or `refused` must follow."""


class WaitUntil(msgspec.Struct, frozen=True):
    """The door is closed until `moment`."""

    moment: float
    reason: str


class WaitForSlot(msgspec.Struct, frozen=True):
    """Others must be answered first, or are before it in the line."""

    reason: str


Admission = Admitted | WaitUntil | WaitForSlot


class RateLimitState:
    """The state of one server's door. All methods are instant; times are any one clock's."""

    def __init__(self) -> None:
        self._closed_until = 0.0
        self._reason = ""
        self._slots: int | None = None  # None: no bound
        self._unanswered = 0
        self._refusals = 0  # push-backs since the last success
        self._losses = 0  # failed connections since the last success
        self._queue: dict[int, None] = {}  # tickets in order of arrival
        self._next_ticket = 0
        self.ever_answered = False

    @property
    def waiting(self) -> int:
        """Requests in the line."""
        return len(self._queue)

    @property
    def reason(self) -> str:
        """Why the door was closed last."""
        return self._reason

    @property
    def losses(self) -> int:
        """Connections that failed since the server last answered."""
        return self._losses

    def enqueue(self) -> int:
        """Take a ticket: a place at the end of the line. `leave` or a `Admitted` gives it back."""
        self._next_ticket += 1
        self._queue[self._next_ticket] = None
        return self._next_ticket

    def dequeue(self, ticket: int) -> None:
        """Step out of the line; unknown tickets are fine."""
        self._queue.pop(ticket, None)

    def head(self) -> int | None:
        """The ticket whose turn it is."""
        return next(iter(self._queue), None)

    def admit(self, ticket: int, now: float) -> Admission:
        """May this ticket send now?"""
        if now < self._closed_until:
            return WaitUntil(self._closed_until, self._reason)
        full = self._slots is not None and self._unanswered >= self._slots
        if full or ticket != self.head():
            return WaitForSlot(self._reason)
        self.dequeue(ticket)
        self._unanswered += 1
        return Admitted()

    def answered(self) -> None:
        """The server took a request: its answer has begun."""
        self._unanswered = max(0, self._unanswered - 1)
        self._refusals = self._losses = 0
        self.ever_answered = True
        if self._slots is not None:
            self._slots += 1
            if self._slots >= SLOW_START_SLOTS:
                self._slots = None

    def ended_unanswered(self) -> None:
        """A request ended with neither: cancelled, or refused for reasons of its own."""
        self._unanswered = max(0, self._unanswered - 1)

    def pushed_back(self, now: float, asked_s: float | None, *, noise: float, reason: str) -> float:
        """The server says wait. Returns the seconds for which the door is closed from `now`.

        Requests that were under way together are refused together: while the door is closed
        already, that is one refusal, and does not lengthen a delay of our own choice.
        """
        if asked_s is not None:
            delay_s = with_jitter(asked_s, noise)
        elif now < self._closed_until:
            delay_s = 0.0
        else:
            delay_s = backoff_s(self._refusals + 1, noise, base_s=PUSH_BACK_BASE_S)
        self._refusals += now >= self._closed_until
        return self._close(now + delay_s, now, reason)

    def connection_lost(self, now: float, *, noise: float, reason: str) -> float:
        """No connection. The pause grows with every loss in a row: 0.2 s … 60 s."""
        if now < self._closed_until:
            return self._close(now, now, reason)  # lost together with the one that closed it
        self._losses += 1
        return self._close(now + backoff_s(self._losses, noise), now, reason)

    def pause(self, now: float, delay_s: float, *, reason: str) -> None:
        """An allowance is spent although nothing was refused: wait, without a slow start."""
        if now + delay_s > self._closed_until:
            self._closed_until, self._reason = now + delay_s, reason

    def closed_s(self, now: float) -> float:
        """Seconds for which the door stays closed; 0.0 if it is open."""
        return max(0.0, self._closed_until - now)

    def _close(self, until: float, now: float, reason: str) -> float:
        self._slots = 1
        if until >= self._closed_until:
            self._closed_until, self._reason = until, reason
        return self._closed_until - now

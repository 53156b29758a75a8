"""Shared rate limit of one server: who may send now, who waits until when. Pure.

If the server says "wait" (429, 503, 529) or cannot be reached, all requests wait until the time it
named, or for a backoff that grows. Then one request goes first. Each request that the server
accepts adds one slot for requests without an answer (slow start, as in TCP), so that thirty agents
are not refused together again. After `SLOW_START_SLOTS` slots there is no limit any more. Waiting
requests go in order of arrival.

The clock and the noise are arguments; rate_limiter.py does the waiting.
"""

import msgspec

BASE_DELAY_S = 0.2  # for an attempt that failed by itself (5xx, transport)
PUSH_BACK_BASE_S = 1.0  # for a 429 or an overload without a delay
MAX_DELAY_S = 60.0  # limit of every delay that we choose
MAX_WAIT_S = 30 * 60.0  # of one request over all its attempts; then it fails
SLOW_START_SLOTS = 64  # number of slots at which the slow start ends


class Admitted(msgspec.Struct, frozen=True):
    """Send now; `answered`, `pushed_back`, `connection_lost` or `ended_unanswered` follows."""


class WaitUntil(msgspec.Struct, frozen=True):
    """Nobody may send until `moment`."""

    moment: float
    reason: str


class WaitForSlot(msgspec.Struct, frozen=True):
    """Other requests must be answered first, or are earlier in the queue."""

    reason: str


Admission = Admitted | WaitUntil | WaitForSlot


class RateLimitState:
    """The state of one server. Methods return at once; all times are of the caller's clock."""

    def __init__(self) -> None:
        self._closed_until = 0.0
        self._reason = ""
        self._slots: int | None = None  # None: no limit
        self._unanswered = 0
        self._refusals = 0  # refusals since the last success
        self._losses = 0  # failed connections since the last success
        self._queue: dict[int, None] = {}  # tickets in order of arrival
        self._next_ticket = 0
        self.ever_answered = False

    @property
    def waiting(self) -> int:
        """Number of requests in the queue."""
        return len(self._queue)

    @property
    def reason(self) -> str:
        """Why sending was last stopped."""
        return self._reason

    @property
    def losses(self) -> int:
        """Connections that failed since the server last answered."""
        return self._losses

    def enqueue(self) -> int:
        """Append a ticket to the queue. `dequeue` or an `Admitted` removes it."""
        self._next_ticket += 1
        self._queue[self._next_ticket] = None
        return self._next_ticket

    def dequeue(self, ticket: int) -> None:
        """Remove a ticket from the queue; unknown tickets are ignored."""
        self._queue.pop(ticket, None)

    def head(self) -> int | None:
        """The first ticket in the queue."""
        return next(iter(self._queue), None)

    def admit(self, ticket: int, now: float) -> Admission:
        """Decide whether this ticket may send now."""
        if now < self._closed_until:
            return WaitUntil(self._closed_until, self._reason)
        full = self._slots is not None and self._unanswered >= self._slots
        if full or ticket != self.head():
            return WaitForSlot(self._reason)
        self.dequeue(ticket)
        self._unanswered += 1
        return Admitted()

    def answered(self) -> None:
        """The server accepted a request: its answer has begun."""
        self._unanswered = max(0, self._unanswered - 1)
        self._refusals = self._losses = 0
        self.ever_answered = True
        if self._slots is not None:
            self._slots += 1
            if self._slots >= SLOW_START_SLOTS:
                self._slots = None

    def ended_unanswered(self) -> None:
        """A request ended without an answer: cancelled, or refused for its own reasons."""
        self._unanswered = max(0, self._unanswered - 1)

    def pushed_back(self, now: float, asked_s: float | None, *, noise: float, reason: str) -> float:
        """The server says wait. Returns the seconds from `now` for which sending stops.

        Requests that were under way together are refused together: while sending is stopped,
        further refusals count as the same one and do not lengthen a delay that we chose.
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
        """No connection. The pause grows with every consecutive loss: 0.2 s … 60 s."""
        if now < self._closed_until:
            return self._close(now, now, reason)  # counts as part of the earlier loss
        self._losses += 1
        return self._close(now + backoff_s(self._losses, noise), now, reason)

    def pause(self, now: float, delay_s: float, *, reason: str) -> None:
        """An allowance is used up although nothing was refused: wait, without a slow start."""
        if now + delay_s > self._closed_until:
            self._closed_until, self._reason = now + delay_s, reason

    def begin_slowly(self) -> None:
        """The next request goes first, and others follow as it is answered."""
        self._slots = 1

    def open_now(self, now: float) -> None:
        """Stop no more, and begin with one request."""
        self._closed_until, self._slots = now, 1

    def closed_s(self, now: float) -> float:
        """Seconds until requests may be sent; 0.0 if they may now."""
        return max(0.0, self._closed_until - now)

    def _close(self, until: float, now: float, reason: str) -> float:
        self._slots = 1
        if until >= self._closed_until:
            self._closed_until, self._reason = until, reason
        return self._closed_until - now


def backoff_s(attempt: int, noise: float, *, base_s: float = BASE_DELAY_S) -> float:
    """The pause after failed attempt number `attempt` (1, 2, …): doubling, capped, ±10 %.

    Args:
        noise: A random number in [0, 1); the jitter.
    """
    return min(MAX_DELAY_S, base_s * 2.0 ** min(attempt - 1, 30)) * (0.9 + 0.2 * noise)


def with_jitter(asked_s: float, noise: float) -> float:
    """A delay that a server named, plus up to 10 % and at most a minute, so that not all requests
    come back at once.
    """
    return asked_s + min(0.1 * asked_s, MAX_DELAY_S) * noise

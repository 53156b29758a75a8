"""Sequence numbers, acks and window of one link, as two halves: inbound and outbound. Pure.

`handled` moves only when the receiver has journaled or applied a message. Until then the sender
keeps the message and can resend it.
"""

import enum
from collections import deque
from typing import Annotated

import msgspec

from .protocol.base import PROTOCOL_VERSION

WINDOW = 64  # unacknowledged envelopes in flight, per direction of each link

Count = Annotated[int, msgspec.Meta(ge=0)]


class EnvelopeKind(enum.IntEnum):
    """The kind of an envelope, which decides what its `seq` means."""

    WHOLE = 0  # numbered: a body, or its last fragment
    FRAGMENT = 1  # numbered: a fragment; more follow under the next numbers
    TRANSIENT = 2  # unnumbered, not resent
    ACK = 3  # carries only `ack`
    RESEND = 4  # "send again what comes after `seq`"
    PROBE = 5  # "my last number is `seq`: do you have it?"; answered by ACK or RESEND


class Envelope(msgspec.Struct, frozen=True, array_like=True):
    """What is sent, as a msgpack array. `version` always stays the first element."""

    version: Count = PROTOCOL_VERSION
    epoch: Count = 0  # one for each start of the sending process
    seq: Count = 0  # 1, 2, 3 … for each (sender, receiver) pair; see EnvelopeKind
    ack: Count = 0  # all from the peer up to this number is *handled*
    kind: EnvelopeKind = EnvelopeKind.ACK
    body: bytes = b""


class EnvelopeVerdict(enum.Enum):
    """What to do with an envelope that arrived."""

    FRESH = "hand it on"
    REPEAT = "drop it, but acknowledge again"
    GAP = "ask for everything after `seen`"
    STALE = "from another life: refuse"
    OUTSIDE_WINDOW = "outside the window: no honest sender does this; refuse"
    UNNUMBERED = "has no number"


class Inbound:
    """The receiving half. Epoch 0 adopts the epoch of the first envelope and keeps it."""

    __slots__ = ("_handled_early", "_resend_requested_at", "epoch", "handled", "seen")

    def __init__(self, *, epoch: int) -> None:
        self.epoch = epoch
        self.seen = 0  # highest number admitted; all below were admitted too
        self.handled = 0  # all up to here are journaled or applied
        self._handled_early = set[int]()  # handled, but a lower number is not
        self._resend_requested_at = -1  # the `seen` of the last resend request

    def accepts_epoch(self, epoch: int) -> bool:
        """True if `epoch` is the expected one; if none was set, the first one is adopted."""
        self.epoch = self.epoch or epoch
        return epoch == self.epoch

    def admit(self, envelope: Envelope) -> EnvelopeVerdict:
        """Judge an envelope. FRESH moves `seen`, so the caller must keep a FRESH envelope."""
        if not self.accepts_epoch(envelope.epoch):
            return EnvelopeVerdict.STALE
        if envelope.kind > EnvelopeKind.FRAGMENT:
            return EnvelopeVerdict.UNNUMBERED
        if envelope.seq <= self.seen:
            return EnvelopeVerdict.REPEAT
        if envelope.seq > self.handled + WINDOW:
            return EnvelopeVerdict.OUTSIDE_WINDOW
        if envelope.seq > self.seen + 1:
            return EnvelopeVerdict.GAP
        self.seen = envelope.seq
        return EnvelopeVerdict.FRESH

    def should_request_resend(self) -> bool:
        """True once for each gap, so that 60 envelopes after a lost one cause one request."""
        if self._resend_requested_at == self.seen:
            return False
        self._resend_requested_at = self.seen
        return True

    def mark_handled(self, first: int, last: int) -> bool:
        """Mark `first` to `last` as handled, in any order of calls. True if `handled` moved."""
        if first <= self.handled or last > self.seen:
            return False
        self._handled_early.update(range(first, last + 1))
        before = self.handled
        while self.handled + 1 in self._handled_early:
            self.handled += 1
            self._handled_early.discard(self.handled)
        return self.handled > before


class Outbound:
    """The sending half: numbers bodies and keeps each until it is acknowledged."""

    __slots__ = ("_unacked", "acked", "last", "sent")

    def __init__(self) -> None:
        self.acked = 0
        self.sent = 0  # highest number sent
        self.last = 0  # highest number assigned; those after `sent` wait for the window
        self._unacked = deque[tuple[EnvelopeKind, bytes]]()  # numbers acked + 1 … last

    @property
    def has_room(self) -> bool:
        """True if another body may be enqueued."""
        return self.last - self.acked < WINDOW

    @property
    def unacknowledged(self) -> int:
        return self.last - self.acked

    def enqueue(self, kind: EnvelopeKind, body: bytes) -> int:
        """Number one envelope and keep it. All fragments of a body are enqueued at once."""
        self._unacked.append((kind, body))
        self.last += 1
        return self.last

    def due(self) -> list[tuple[int, EnvelopeKind, bytes]]:
        """Envelopes that fit the window and were not sent yet; they count as sent after this."""
        upto = min(self.last, self.acked + WINDOW)
        if upto <= self.sent:
            return []
        start, self.sent = self.sent + 1, upto
        return [(seq, *self._unacked[seq - self.acked - 1]) for seq in range(start, upto + 1)]

    def sent_after(self, seen: int) -> list[tuple[int, EnvelopeKind, bytes]]:
        """Envelopes sent after `seen` that are unacknowledged, in order, for a resend."""
        start = max(seen, self.acked) + 1
        return [(seq, *self._unacked[seq - self.acked - 1]) for seq in range(start, self.sent + 1)]

    def acknowledge(self, ack: int) -> bool:
        """The peer has handled all up to `ack`. True if `ack` is new.

        Raises ValueError for a number that was never sent.
        """
        if ack > self.sent:
            raise ValueError(f"acknowledged {ack}, but only {self.sent} were sent")
        if ack <= self.acked:
            return False
        for _ in range(ack - self.acked):
            self._unacked.popleft()
        self.acked = ack
        return True

    def remaining(self) -> list[tuple[EnvelopeKind, bytes]]:
        """Everything never acknowledged, in order."""
        return list(self._unacked)

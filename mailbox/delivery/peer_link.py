"""Reliable delivery for one peer: sequence numbers, acks, window, resend. No I/O.

`PeerLink.receive` decides what an envelope means; the endpoint then carries out the Reaction.
`handled` moves only when the receiver has journaled or applied a message. Until then the sender
keeps the message and can resend it.
"""

import enum
from collections import deque
from typing import NamedTuple

from .envelope import Envelope, EnvelopeKind, FragmentAssembler, split_into_fragments

WINDOW = 64  # unacknowledged envelopes in flight, per direction of each link


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


MAX_DEFERRED_ACKS = WINDOW // 4  # handled messages whose ack may wait for an envelope
PROBE_EVERY = 64  # transient envelopes between two probes of whether the peer still reads
MAX_RESENDS = 8  # answers to RESEND without any progress, per tick of `run_probes`
MAX_TRANSIENT = 256  # sent since the last envelope from the peer; more are dropped


class ReceivedBody(NamedTuple):
    """A whole body; `seq` is its last number, 0 if it was transient."""

    seq: int
    body: bytes


class Reaction(NamedTuple):
    """What the endpoint must do after an envelope."""

    verdict: EnvelopeVerdict
    arrived: ReceivedBody | None = None
    send: tuple[Envelope, ...] = ()
    acknowledge: bool = False  # an ack is due: in the next envelope, or alone soon
    progress: bool = False  # the peer acknowledged something of ours
    overflowed: bool = False  # a body over the total limit was dropped


class PeerLink:
    """Our end of the exchange with one peer, for one process on each side."""

    __slots__ = (
        "_first_seqs",
        "_last_ack_sent",
        "_urgent_ack",
        "assembly",
        "epoch",
        "has_received",
        "inbound",
        "outbound",
        "resends_left",
        "transient_sent",
    )

    def __init__(self, *, epoch: int, peer_epoch: int) -> None:
        self.epoch = epoch
        self.inbound = Inbound(epoch=peer_epoch)
        self.outbound = Outbound()
        self.assembly = FragmentAssembler()
        self.has_received = False  # an envelope of the right epoch has arrived
        self.transient_sent = 0  # transient envelopes sent since the last envelope from the peer
        self.resends_left = MAX_RESENDS  # limits how much a peer can make us send
        self._last_ack_sent = 0  # the `ack` that was sent last
        self._urgent_ack = 0  # the last handled number whose sender may wait for the ack
        self._first_seqs: dict[int, int] = {}  # last → first number of a received body in fragments

    # --- out -------------------------------------------------------------------------------

    def enqueue_body(self, body: bytes) -> int:
        """Number a body with all its fragments; return its last number. `due` then sends it."""
        *parts, last = split_into_fragments(body)
        for part in parts:
            self.outbound.enqueue(EnvelopeKind.FRAGMENT, part)
        return self.outbound.enqueue(EnvelopeKind.WHOLE, last)

    def due(self) -> tuple[Envelope, ...]:
        """Envelopes that now fit the window, for their first send."""
        return self._envelopes(self.outbound.due())

    def resend_after(self, seen: int) -> tuple[Envelope, ...]:
        """Envelopes sent after `seen` that are unacknowledged."""
        return self._envelopes(self.outbound.sent_after(seen))

    def transient(self, body: bytes) -> tuple[Envelope, ...]:
        """An unnumbered envelope; () if the peer lags. Every 64th comes with a probe."""
        if self.transient_sent >= MAX_TRANSIENT or self.outbound.unacknowledged > WINDOW // 2:
            return ()
        self.transient_sent += 1
        envelope = self._envelope(EnvelopeKind.TRANSIENT, body=body)
        if self.transient_sent % PROBE_EVERY:
            return (envelope,)
        return (envelope, self.probe())

    def acknowledgement(self) -> Envelope:
        return self._envelope(EnvelopeKind.ACK)

    def probe(self) -> Envelope:
        return self._envelope(EnvelopeKind.PROBE, seq=self.outbound.sent)

    # --- in --------------------------------------------------------------------------------

    def receive(self, envelope: Envelope) -> Reaction:
        """Judge an envelope and update both halves. Raises ValueError for an impossible ack."""
        if not self.inbound.accepts_epoch(envelope.epoch):
            return Reaction(EnvelopeVerdict.STALE)
        progress = self.outbound.acknowledge(envelope.ack)
        if progress:
            self.resends_left = MAX_RESENDS
        self.has_received, self.transient_sent = True, 0
        send = self.due() if progress else ()
        verdict = self.inbound.admit(envelope)
        match verdict:
            case EnvelopeVerdict.FRESH:
                return self._fresh(envelope, send, progress=progress)
            case EnvelopeVerdict.REPEAT:
                return Reaction(verdict, send=send, acknowledge=True, progress=progress)
            case EnvelopeVerdict.GAP if self.inbound.should_request_resend():
                send += (self._envelope(EnvelopeKind.RESEND, seq=self.inbound.seen),)
            case EnvelopeVerdict.UNNUMBERED:
                return self._unnumbered(envelope, send, progress=progress)
            case _:
                pass
        return Reaction(verdict, send=send, progress=progress)

    def _fresh(self, envelope: Envelope, send: tuple[Envelope, ...], *, progress: bool) -> Reaction:
        if envelope.kind is EnvelopeKind.FRAGMENT:
            self.assembly.add(envelope.body)
            return Reaction(EnvelopeVerdict.FRESH, send=send, progress=progress)
        first = envelope.seq - self.assembly.count
        body = self.assembly.finish(envelope.body)
        if body is None:
            self.inbound.mark_handled(first, envelope.seq)
            return Reaction(
                EnvelopeVerdict.FRESH,
                send=send,
                acknowledge=True,
                progress=progress,
                overflowed=True,
            )
        if first != envelope.seq:
            self._first_seqs[envelope.seq] = first
        return Reaction(
            EnvelopeVerdict.FRESH, ReceivedBody(envelope.seq, body), send, progress=progress
        )

    def _unnumbered(
        self, envelope: Envelope, send: tuple[Envelope, ...], *, progress: bool
    ) -> Reaction:
        arrived, acknowledge = None, False
        match envelope.kind:
            case EnvelopeKind.TRANSIENT:
                arrived = ReceivedBody(0, envelope.body)
            case EnvelopeKind.RESEND if self.resends_left:
                self.resends_left -= 1
                send = self.resend_after(envelope.seq)
            case EnvelopeKind.PROBE if envelope.seq > self.inbound.seen:
                send += (self._envelope(EnvelopeKind.RESEND, seq=self.inbound.seen),)
            case EnvelopeKind.PROBE:
                acknowledge = True
            case _:
                pass
        return Reaction(EnvelopeVerdict.UNNUMBERED, arrived, send, acknowledge, progress)

    def mark_handled(self, seq: int, *, soon: bool = True) -> bool:
        """Mark the body with this last number as handled. True if an acknowledgement is due.

        Pass `soon` if the sender may wait for it; see `ack_is_urgent`.
        """
        if soon:
            self._urgent_ack = max(self._urgent_ack, seq)
        return self.inbound.mark_handled(self._first_seqs.pop(seq, seq), seq)

    @property
    def ack_is_urgent(self) -> bool:
        """True if the due acknowledgement must not wait for an envelope to carry it."""
        return (
            self._last_ack_sent < self._urgent_ack
            or self.inbound.handled - self._last_ack_sent >= MAX_DEFERRED_ACKS
        )

    def unacknowledged_bodies(self) -> tuple[bytes, ...]:
        """Whole bodies that were never acknowledged, in order."""
        bodies: list[bytes] = []
        assembly = FragmentAssembler()
        for kind, part in self.outbound.remaining():
            if kind is EnvelopeKind.FRAGMENT:
                assembly.add(part)
            elif (body := assembly.finish(part)) is not None:
                bodies.append(body)
        return tuple(bodies)

    def _envelope(self, kind: EnvelopeKind, *, seq: int = 0, body: bytes = b"") -> Envelope:
        self._last_ack_sent = self.inbound.handled
        return Envelope(epoch=self.epoch, seq=seq, ack=self.inbound.handled, kind=kind, body=body)

    def _envelopes(self, rows: list[tuple[int, EnvelopeKind, bytes]]) -> tuple[Envelope, ...]:
        return tuple(self._envelope(kind, seq=seq, body=body) for seq, kind, body in rows)

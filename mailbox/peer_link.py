"""Reliable delivery for one peer: sequence numbers, acks, resend, fragments. No I/O.

`receive` decides what an envelope means; the endpoint then carries out the Reaction.
"""

from typing import NamedTuple

from .fragments import FragmentAssembler, split_into_fragments
from .sequencer import WINDOW, Envelope, EnvelopeKind, EnvelopeVerdict, Inbound, Outbound

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

"""One numbered conversation with one peer: both halves and the parts, still without any I/O.

`take` decides what an envelope means; whoever holds the wire then obeys the Reaction.
"""

from typing import NamedTuple

from .parts import Assembly, split_body
from .sequencer import WINDOW, Envelope, Inbound, Kind, Outbound, Verdict

MOST_UNTOLD = WINDOW // 4  # handled letters whose acknowledgement may wait for an envelope
PROBE_EVERY = 64  # passing envelopes between two questions whether the other side still reads
MOST_RESENDS = 8  # answers to AGAIN without any progress, for each tick of the one who keeps time
MOST_PASSING = 256  # sent since the other side was last heard; more are dropped


class Arrived(NamedTuple):
    """A whole body; `seq` is its last number, 0 if it was passing."""

    seq: int
    body: bytes


class Reaction(NamedTuple):
    """What an envelope asks of the one who holds the wire."""

    verdict: Verdict
    arrived: Arrived | None = None
    send: tuple[Envelope, ...] = ()
    acknowledge: bool = False  # an ack is due: by the next envelope, or by a bare one soon
    progress: bool = False  # the other side acknowledged something of ours
    overflowed: bool = False  # a body over the total limit was dropped


class Conversation:
    """Our end of the exchange with one peer, in one life of each."""

    __slots__ = (
        "_first",
        "_told",
        "_waited_for",
        "assembly",
        "epoch",
        "heard",
        "inbound",
        "outbound",
        "passed",
        "resends_left",
    )

    def __init__(self, *, epoch: int, peer_epoch: int) -> None:
        self.epoch = epoch
        self.inbound = Inbound(epoch=peer_epoch)
        self.outbound = Outbound()
        self.assembly = Assembly()
        self.heard = False  # an envelope of the right epoch has arrived
        self.passed = 0  # passing envelopes sent since the peer was last heard
        self.resends_left = MOST_RESENDS  # a peer cannot make us send without bound
        self._told = 0  # the `ack` that was sent last
        self._waited_for = 0  # the last handled number whose sender may wait for it
        self._first: dict[int, int] = {}  # last → first number of an admitted body in parts

    # --- out -------------------------------------------------------------------------------

    def take_body(self, body: bytes) -> int:
        """Number a body, all its parts at once; its last number. `due` then sends it."""
        *parts, last = split_body(body)
        for part in parts:
            self.outbound.take(Kind.PART, part)
        return self.outbound.take(Kind.WHOLE, last)

    def due(self) -> tuple[Envelope, ...]:
        """Envelopes which the window lets out now, for the first time."""
        return self._envelopes(self.outbound.due())

    def again(self, seen: int) -> tuple[Envelope, ...]:
        """What was sent after `seen` and is unacknowledged."""
        return self._envelopes(self.outbound.after(seen))

    def passing(self, body: bytes) -> tuple[Envelope, ...]:
        """An unnumbered envelope; () if the other side lags, now and then with a probe."""
        if self.passed >= MOST_PASSING or self.outbound.unacknowledged > WINDOW // 2:
            return ()
        self.passed += 1
        envelope = self._bare(Kind.PASSING, body=body)
        if self.passed % PROBE_EVERY:
            return (envelope,)
        return (envelope, self.probe())

    def acknowledgement(self) -> Envelope:
        return self._bare(Kind.ACK)

    def probe(self) -> Envelope:
        return self._bare(Kind.PROBE, seq=self.outbound.sent)

    # --- in --------------------------------------------------------------------------------

    def take(self, envelope: Envelope) -> Reaction:
        """Judge an envelope and change the halves; raises ValueError for an impossible ack."""
        if not self.inbound.recognises(envelope.epoch):
            return Reaction(Verdict.STALE)
        progress = self.outbound.forget(envelope.ack)
        if progress:
            self.resends_left = MOST_RESENDS
        self.heard, self.passed = True, 0
        send = self.due() if progress else ()
        verdict = self.inbound.admit(envelope)
        match verdict:
            case Verdict.FRESH:
                return self._fresh(envelope, send, progress=progress)
            case Verdict.REPEAT:
                return Reaction(verdict, send=send, acknowledge=True, progress=progress)
            case Verdict.GAP if self.inbound.should_ask():
                send += (self._bare(Kind.AGAIN, seq=self.inbound.seen),)
            case Verdict.PLAIN:
                return self._plain(envelope, send, progress=progress)
            case _:
                pass
        return Reaction(verdict, send=send, progress=progress)

    def _fresh(self, envelope: Envelope, send: tuple[Envelope, ...], *, progress: bool) -> Reaction:
        if envelope.kind is Kind.PART:
            self.assembly.add(envelope.body)
            return Reaction(Verdict.FRESH, send=send, progress=progress)
        first = envelope.seq - self.assembly.count
        body = self.assembly.finish(envelope.body)
        if body is None:
            self.inbound.mark_handled(first, envelope.seq)
            return Reaction(
                Verdict.FRESH, send=send, acknowledge=True, progress=progress, overflowed=True
            )
        if first != envelope.seq:
            self._first[envelope.seq] = first
        return Reaction(Verdict.FRESH, Arrived(envelope.seq, body), send, progress=progress)

    def _plain(self, envelope: Envelope, send: tuple[Envelope, ...], *, progress: bool) -> Reaction:
        arrived, acknowledge = None, False
        match envelope.kind:
            case Kind.PASSING:
                arrived = Arrived(0, envelope.body)
            case Kind.AGAIN if self.resends_left:
                self.resends_left -= 1
                send = self.again(envelope.seq)
            case Kind.PROBE if envelope.seq > self.inbound.seen:
                send += (self._bare(Kind.AGAIN, seq=self.inbound.seen),)
            case Kind.PROBE:
                acknowledge = True
            case _:
                pass
        return Reaction(Verdict.PLAIN, arrived, send, acknowledge, progress)

    def mark_handled(self, seq: int, *, soon: bool = True) -> bool:
        """The body with this last number is handled. True if an acknowledgement is due.

        It is due `soon` if the sender may wait for it; see `presses`.
        """
        if soon:
            self._waited_for = max(self._waited_for, seq)
        return self.inbound.mark_handled(self._first.pop(seq, seq), seq)

    @property
    def presses(self) -> bool:
        """True if the acknowledgement that is due may not wait for an envelope to ride in."""
        return self._told < self._waited_for or self.inbound.handled - self._told >= MOST_UNTOLD

    def unacknowledged_bodies(self) -> tuple[bytes, ...]:
        """Whole bodies that were never acknowledged, in order."""
        bodies: list[bytes] = []
        assembly = Assembly()
        for kind, part in self.outbound.remaining():
            if kind is Kind.PART:
                assembly.add(part)
            elif (body := assembly.finish(part)) is not None:
                bodies.append(body)
        return tuple(bodies)

    def _bare(self, kind: Kind, *, seq: int = 0, body: bytes = b"") -> Envelope:
        self._told = self.inbound.handled
        return Envelope(epoch=self.epoch, seq=seq, ack=self.inbound.handled, kind=kind, body=body)

    def _envelopes(self, rows: list[tuple[int, Kind, bytes]]) -> tuple[Envelope, ...]:
        return tuple(self._bare(kind, seq=seq, body=body) for seq, kind, body in rows)

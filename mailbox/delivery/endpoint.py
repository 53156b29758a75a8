"""Reliable endpoint of one process: a numbered link to each peer over any frame transport.

router.py, dealer.py and pair.py supply the transport. This module keeps all guarantees of a
mailbox, so they are the same over sockets and in memory. Invalid frames are counted, logged once
per cause (never their contents) and dropped: nothing that a peer sends ends the receiver.
"""

import logging
import math
from collections import Counter, deque
from collections.abc import Callable

import trio

from ..base.errors import MalformedMessage, PeerGone
from .envelope import (
    FRAME_BYTES,
    Envelope,
    OversizedFrame,
    UnknownVersion,
    decode_envelope,
    encode_envelope,
)
from .interfaces import MailboxStatistics, ReceivedMessage
from .peer_link import MAX_RESENDS, EnvelopeVerdict, PeerLink, Reaction

PROBE_INTERVAL_S = 1.0  # after this time without an ack the sender probes, at PROBE_TICKS
ACK_DELAY_S = 0.1  # how long an ack that no sender waits for may wait for an envelope to carry it
PROBE_TICKS = frozenset({1, 2, 3, 4, 6, 8, 12})  # probe at these ticks, and from 16 on at every 8th
MAX_TRANSIENT_BYTES = FRAME_BYTES - 1024  # larger ones are dropped: they must fit one frame
MAX_TRANSIENT_QUEUED = 4096  # transient messages that wait for a slow reader; more are dropped

SOLE_PEER = b""  # a client's name for its only peer
Transmit = Callable[[bytes, bytes], bool]
"""Give a frame for a peer to the transport, without waiting. False: the peer is unreachable now."""

_log = logging.getLogger("swarm.mailbox")
_VERDICT_COUNTERS = {
    EnvelopeVerdict.REPEAT: "repeats",
    EnvelopeVerdict.GAP: "gaps",
    EnvelopeVerdict.STALE: "stale",
}
_CAUSE_TEXTS = {
    "unknown_peer": "a frame of a peer that is not admitted",
    "unknown_version": "a frame of another protocol version",
    "oversized": "a frame or a message over the size limit",
    "malformed": "a frame that is not an envelope, or an impossible one",
    "stale": "an envelope of another epoch",
}


def _transmit_nowhere(_peer: bytes, _frame: bytes) -> bool:
    return False


class PeerState:
    """The link to one peer, and the tasks that wait on it."""

    __slots__ = (
        "ack_waiters",
        "is_dismissed",
        "is_unreachable",
        "link",
        "silent_ticks",
        "window_waiters",
    )

    def __init__(self, conversation: PeerLink) -> None:
        self.link = conversation
        self.is_dismissed = False
        self.is_unreachable = False  # a send failed: resend when the peer sends something
        self.silent_ticks = 0  # ticks of PROBE_INTERVAL_S since the last progress
        self.window_waiters = trio.lowlevel.ParkingLot()  # tasks that wait in `post`
        self.ack_waiters: dict[int, trio.Event] = {}  # seq → set when acknowledged or dismissed


class _Consumer:
    """The callback that takes messages as they arrive, and how it ended."""

    __slots__ = ("done", "error", "handle")

    def __init__(self, take: Callable[[ReceivedMessage], bool]) -> None:
        self.handle = take
        self.done = trio.Event()
        self.error: BaseException | None = None


class ReliableEndpoint:
    """Numbers, keeps, orders and acknowledges messages. Needs `run_acks` and `run_probes`."""

    def __init__(self, carry: Transmit, *, epoch: int) -> None:
        self._transmit, self._epoch = carry, epoch
        self._peers: dict[bytes, PeerState] = {}
        self._received_queue = deque[ReceivedMessage]()
        self._message_arrived = trio.lowlevel.ParkingLot()
        self._consumer: _Consumer | None = None
        self._transient_queued = 0
        self._acks_due: dict[bytes, None] = {}  # peers to which an ack must be sent
        self._acks_deferred: dict[bytes, None] = {}  # likewise, but an envelope may carry it first
        self._deferred_until = math.inf  # when deferred acks become due
        self._ack_wakeup = trio.lowlevel.ParkingLot()
        self._ack_wait_scope = trio.CancelScope()  # the wait in `run_acks`
        self._unacked_wakeup = trio.lowlevel.ParkingLot()
        self._sent = self._received = 0
        self._drop_counts = Counter[str]()  # by field name of MailboxStatistics
        self._logged_causes = set[str]()

    def admit(self, peer: bytes, *, epoch: int) -> None:
        """Accept `peer`; epoch 0 adopts its first one. Raises ValueError if it is admitted."""
        if peer in self._peers:
            raise ValueError(f"{peer!r} is admitted already")
        self._peers[peer] = PeerState(PeerLink(epoch=self._epoch, peer_epoch=epoch))

    def dismiss(self, peer: bytes) -> tuple[bytes, ...]:
        """Forget `peer`, wake the tasks waiting for it; return its unacknowledged bodies."""
        state = self._peers.pop(peer, None)
        if state is None:
            return ()
        self._clear_ack_due(peer)
        state.is_dismissed = True
        state.window_waiters.unpark_all()
        for event in state.ack_waiters.values():
            event.set()
        return state.link.unacknowledged_bodies()

    def has_received_from(self, peer: bytes) -> bool:
        """True once an envelope of this admitted peer has arrived."""
        state = self._peers.get(peer)
        return state is not None and state.link.has_received

    def _peer_state(self, peer: bytes) -> PeerState:
        state = self._peers.get(peer)
        if state is None:
            raise PeerGone(peer)
        return state

    async def post(self, peer: bytes, body: bytes) -> int:
        state = self._peer_state(peer)
        await trio.lowlevel.checkpoint_if_cancelled()
        outbound = state.link.outbound
        while not outbound.has_room and not state.is_dismissed:
            await state.window_waiters.park()
        if state.is_dismissed:
            raise PeerGone(peer)
        return self._post(peer, state, body)

    def post_nowait(self, peer: bytes, body: bytes) -> int:
        state = self._peer_state(peer)
        return self._post(peer, state, body) if state.link.outbound.has_room else 0

    def _post(self, peer: bytes, state: PeerState, body: bytes) -> int:
        if not state.link.outbound.unacknowledged:
            state.silent_ticks = 0
            self._unacked_wakeup.unpark()
        seq = state.link.enqueue_body(body)
        self._send(peer, state, state.link.due())
        return seq

    def send_transient(self, peer: bytes, body: bytes) -> None:
        state = self._peers.get(peer)
        if state is None or state.is_unreachable:
            return
        if len(body) > MAX_TRANSIENT_BYTES:
            self.count_drop("oversized")
            return
        self._send(peer, state, state.link.transient(body))

    async def wait_acknowledged(self, peer: bytes, seq: int) -> None:
        state = self._peer_state(peer)
        await trio.lowlevel.checkpoint_if_cancelled()
        if seq > state.link.outbound.acked:
            await state.ack_waiters.setdefault(seq, trio.Event()).wait()
            if seq > state.link.outbound.acked:
                raise PeerGone(peer)

    async def flush(self, peer: bytes) -> None:
        self._flush_deferred_acks()
        self.send_due_acks()
        state = self._peer_state(peer)
        await self.wait_acknowledged(peer, state.link.outbound.last)

    def disconnect(self) -> None:
        """Stop transmitting: the socket is gone. Messages posted from now on are only kept."""
        self._transmit = _transmit_nowhere

    def announce(self, peer: bytes) -> None:
        """Send an ack, so that the peer knows it can reach us and sends what it has kept."""
        state = self._peer_state(peer)
        self._send(peer, state, (state.link.acknowledgement(),))

    def _send(self, peer: bytes, state: PeerState, envelopes: tuple[Envelope, ...]) -> None:
        for envelope in envelopes:
            if not self._transmit(peer, encode_envelope(envelope)):
                state.is_unreachable = True
                return
            self._sent += 1
            self._clear_ack_due(peer)  # every envelope carries the ack

    async def receive(self) -> ReceivedMessage:
        await trio.lowlevel.checkpoint_if_cancelled()
        while not self._received_queue:
            await self._message_arrived.park()
        return self._pop_received()

    def _pop_received(self) -> ReceivedMessage:
        message = self._received_queue.popleft()
        self._transient_queued -= not message.seq
        return message

    async def consume(self, take: Callable[[ReceivedMessage], bool]) -> None:
        await trio.lowlevel.checkpoint_if_cancelled()
        consumer = self._consumer = _Consumer(take)
        try:
            while self._received_queue and not consumer.done.is_set():
                self._deliver(consumer, self._pop_received())
            await consumer.done.wait()
        finally:
            self._consumer = None
        if consumer.error is not None:
            raise consumer.error

    def _deliver(self, consumer: _Consumer, message: ReceivedMessage) -> None:
        try:
            if not consumer.handle(message):
                return
        except BaseException as error:
            consumer.error = error
        self._consumer = None
        consumer.done.set()

    def acknowledge(self, message: ReceivedMessage, *, soon: bool = True) -> None:
        state = self._peers.get(message.peer)
        if state is None or not message.seq:
            return
        if state.link.mark_handled(message.seq, soon=soon):
            if state.link.ack_is_urgent:
                self._ack_soon(message.peer)
            else:
                self._ack_later(message.peer)

    def receive_frame(self, peer: bytes, frame: bytes) -> None:
        """Handle one frame from the transport. Never raises because of what a peer sent."""
        state = self._peers.get(peer)
        if state is None:
            return self.count_drop("unknown_peer")
        try:
            reaction = state.link.receive(decode_envelope(frame))
        except UnknownVersion:
            return self.count_drop("unknown_version")
        except OversizedFrame:
            return self.count_drop("oversized")
        except (MalformedMessage, ValueError):
            return self.count_drop("malformed")
        return self._apply_reaction(peer, state, reaction)

    def count_drop(self, cause: str) -> None:
        """Count a drop, and log the first one of each cause."""
        self._drop_counts[cause] += 1
        if cause in _CAUSE_TEXTS and cause not in self._logged_causes:
            self._logged_causes.add(cause)
            _log.warning("dropped %s; more of these are only counted", _CAUSE_TEXTS[cause])

    def _apply_reaction(self, peer: bytes, state: PeerState, reaction: Reaction) -> None:
        verdict = reaction.verdict
        if verdict in _VERDICT_COUNTERS:
            self.count_drop(_VERDICT_COUNTERS[verdict])
            if verdict is EnvelopeVerdict.STALE:
                return
        elif verdict is EnvelopeVerdict.OUTSIDE_WINDOW:
            self.count_drop("malformed")
        self._received += 1
        if reaction.overflowed:
            self.count_drop("oversized")
        if state.is_unreachable:
            state.is_unreachable = False
            self._ack_soon(peer)
            self._send(peer, state, state.link.resend_after(0))
        if reaction.send:
            self._send(peer, state, reaction.send)
        if reaction.progress:
            self._wake_waiters(state)
        if reaction.acknowledge:
            self._ack_soon(peer)
        if reaction.arrived is not None:  # last: the consumer may dismiss the peer
            self._queue_received(ReceivedMessage(peer, reaction.arrived.seq, reaction.arrived.body))

    def _queue_received(self, message: ReceivedMessage) -> None:
        if self._consumer is not None:
            self._deliver(self._consumer, message)
            return
        if not message.seq:
            if self._transient_queued >= MAX_TRANSIENT_QUEUED:
                return
            self._transient_queued += 1
        self._received_queue.append(message)
        self._message_arrived.unpark()

    def _wake_waiters(self, state: PeerState) -> None:
        state.silent_ticks = 0
        state.window_waiters.unpark_all()
        acked = state.link.outbound.acked
        for seq in [seq for seq in state.ack_waiters if seq <= acked]:
            state.ack_waiters.pop(seq).set()

    def _ack_soon(self, peer: bytes) -> None:
        self._acks_due[peer] = None
        self._ack_wakeup.unpark()

    def _ack_later(self, peer: bytes) -> None:
        if not self._acks_deferred:
            self._defer_acks_until(trio.current_time() + ACK_DELAY_S)
        self._acks_deferred[peer] = None

    def _defer_acks_until(self, deadline: float) -> None:
        self._deferred_until = self._ack_wait_scope.deadline = deadline

    def _clear_ack_due(self, peer: bytes) -> None:
        self._acks_due.pop(peer, None)
        if peer in self._acks_deferred:
            del self._acks_deferred[peer]
            if not self._acks_deferred:
                self._defer_acks_until(math.inf)

    def _flush_deferred_acks(self) -> None:
        """Make the deferred acks due now."""
        self._acks_due |= self._acks_deferred
        self._acks_deferred.clear()
        self._defer_acks_until(math.inf)

    def send_due_acks(self) -> None:
        """Send the acks that no envelope has carried yet."""
        for peer in list(self._acks_due):
            state = self._peers[peer]
            self._send(peer, state, (state.link.acknowledgement(),))
        self._acks_due.clear()

    async def run_acks(self) -> None:
        """Send acks one scheduler tick after messages were handled: many messages cost one frame.

        Deferred acks are sent ACK_DELAY_S after the first, unless an envelope carried them.
        """
        while True:
            with trio.CancelScope(deadline=self._deferred_until) as self._ack_wait_scope:
                if not self._acks_due:
                    await self._ack_wakeup.park()
            if trio.current_time() >= self._deferred_until:
                self._flush_deferred_acks()
            self.send_due_acks()

    async def run_probes(self) -> None:
        """Probe peers whose messages stay unacknowledged. Sleeps while there are none."""
        while True:
            if not any(t.link.outbound.unacknowledged for t in self._peers.values()):
                await self._unacked_wakeup.park()
            await trio.sleep(PROBE_INTERVAL_S)
            for peer, state in self._peers.items():
                conversation = state.link
                if not conversation.outbound.unacknowledged:
                    continue
                state.silent_ticks += 1
                conversation.resends_left = MAX_RESENDS
                if state.silent_ticks in PROBE_TICKS or not state.silent_ticks % 8:
                    self._send(peer, state, (conversation.probe(),))

    def statistics(self) -> MailboxStatistics:
        unacknowledged = sum(t.link.outbound.unacknowledged for t in self._peers.values())
        return MailboxStatistics(
            received=self._received,
            sent=self._sent,
            unacknowledged=unacknowledged,
            **self._drop_counts,
        )

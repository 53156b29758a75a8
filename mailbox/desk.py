"""The post of one process: a numbered conversation per peer, over any carrier of frames.

router.py, dealer.py and pair.py give it a wire; all that a mailbox promises is kept here, so it is
the same over sockets and in memory. Frames that are no good are counted, logged once per cause
(never their contents) and dropped: nothing a peer sends ends the receiver.
"""

import logging
import math
from collections import Counter, deque
from collections.abc import Callable

import trio

from .codec import FRAME_BYTES, OversizedFrame, UnknownVersion, decode_envelope, encode_envelope
from .conversation import MOST_RESENDS, Conversation, Reaction
from .errors import MalformedMessage, PeerGone
from .post import Letter, PostStatistics
from .sequencer import Envelope, Verdict

SILENCE_S = 1.0  # unacknowledged mail older than this is asked about, and then by ASKING
LATER_S = 0.1  # so long an acknowledgement that nobody waits for may wait for an envelope
ASKING = frozenset({1, 2, 3, 4, 6, 8, 12})  # after so many ticks, and every 8 from 16 on
MOST_PASSING_BYTES = FRAME_BYTES - 1024  # a passing letter is one frame: larger ones are dropped
MOST_PASSING_KEPT = 4096  # passing letters that wait for a slow reader; more are dropped

OTHER_SIDE = b""  # what a child calls the one it talks to
Carry = Callable[[bytes, bytes], bool]
"""Give a frame for a peer to the wire, at once. False: there is no way to this peer now."""

_log = logging.getLogger("swarm.mailbox")
_COUNTED = {Verdict.REPEAT: "repeats", Verdict.GAP: "gaps", Verdict.STALE: "stale"}
_WHY = {
    "unknown_peer": "a frame of a peer that is not admitted",
    "unknown_version": "a frame of another protocol version",
    "oversized": "a frame or a message over the size limit",
    "malformed": "a frame that is no envelope, or an impossible one",
    "stale": "an envelope of another epoch",
}


def _carry_nowhere(_peer: bytes, _frame: bytes) -> bool:
    return False


class Talk:
    """A conversation and the tasks that wait on it."""

    __slots__ = ("conversation", "gone", "lost", "room", "ticks", "waiting")

    def __init__(self, conversation: Conversation) -> None:
        self.conversation = conversation
        self.gone = False
        self.lost = False  # the wire had no way to the peer: send again when it is heard
        self.ticks = 0  # of SILENCE_S, since the last progress
        self.room = trio.lowlevel.ParkingLot()  # posters that wait for the window
        self.waiting: dict[int, trio.Event] = {}  # seq → acknowledged, or gone


class _Taker:
    """Who takes letters as they arrive, and how that ended."""

    __slots__ = ("error", "over", "take")

    def __init__(self, take: Callable[[Letter], bool]) -> None:
        self.take = take
        self.over = trio.Event()
        self.error: BaseException | None = None


class Desk:
    """Numbers, keeps, orders and acknowledges. The two `tend_…` tasks must run beside it."""

    def __init__(self, carry: Carry, *, epoch: int) -> None:
        self._carry, self._epoch = carry, epoch
        self._talks: dict[bytes, Talk] = {}
        self._letters = deque[Letter]()
        self._arrival = trio.lowlevel.ParkingLot()
        self._taker: _Taker | None = None
        self._passing_kept = 0
        self._owed: dict[bytes, None] = {}  # peers to which an acknowledgement is due
        self._owed_later: dict[bytes, None] = {}  # the same, but an envelope may come before
        self._later_at = math.inf  # then these are paid too
        self._owing = trio.lowlevel.ParkingLot()
        self._nap = trio.CancelScope()  # of the one who pays
        self._outstanding = trio.lowlevel.ParkingLot()
        self._sent = self._received = 0
        self._refused = Counter[str]()  # by the names of PostStatistics
        self._told = set[str]()

    # --- peers -----------------------------------------------------------------------------

    def admit(self, peer: bytes, *, epoch: int) -> None:
        """Expect `peer`. Epoch 0 adopts the first one heard. ValueError if admitted already."""
        if peer in self._talks:
            raise ValueError(f"{peer!r} is admitted already")
        self._talks[peer] = Talk(Conversation(epoch=self._epoch, peer_epoch=epoch))

    def dismiss(self, peer: bytes) -> tuple[bytes, ...]:
        """Forget `peer`, wake who waits for it; the bodies it never acknowledged."""
        talk = self._talks.pop(peer, None)
        if talk is None:
            return ()
        self._owe_no_more(peer)
        talk.gone = True
        talk.room.unpark_all()
        for event in talk.waiting.values():
            event.set()
        return talk.conversation.unacknowledged_bodies()

    def is_heard(self, peer: bytes) -> bool:
        """True once an envelope of this admitted peer has arrived."""
        talk = self._talks.get(peer)
        return talk is not None and talk.conversation.heard

    def _talk(self, peer: bytes) -> Talk:
        talk = self._talks.get(peer)
        if talk is None:
            raise PeerGone(peer)
        return talk

    # --- out -------------------------------------------------------------------------------

    async def post(self, peer: bytes, body: bytes) -> int:
        talk = self._talk(peer)
        await trio.lowlevel.checkpoint_if_cancelled()
        outbound = talk.conversation.outbound
        while not outbound.has_room and not talk.gone:
            await talk.room.park()
        if talk.gone:
            raise PeerGone(peer)
        return self._post(peer, talk, body)

    def post_nowait(self, peer: bytes, body: bytes) -> int:
        talk = self._talk(peer)
        return self._post(peer, talk, body) if talk.conversation.outbound.has_room else 0

    def _post(self, peer: bytes, talk: Talk, body: bytes) -> int:
        if not talk.conversation.outbound.unacknowledged:
            talk.ticks = 0
            self._outstanding.unpark()
        seq = talk.conversation.take_body(body)
        self._send(peer, talk, talk.conversation.due())
        return seq

    def pass_on(self, peer: bytes, body: bytes) -> None:
        talk = self._talks.get(peer)
        if talk is None or talk.lost:
            return
        if len(body) > MOST_PASSING_BYTES:
            self.refuse("oversized")
            return
        self._send(peer, talk, talk.conversation.passing(body))

    async def wait_handled(self, peer: bytes, seq: int) -> None:
        talk = self._talk(peer)
        await trio.lowlevel.checkpoint_if_cancelled()
        if seq > talk.conversation.outbound.acked:
            await talk.waiting.setdefault(seq, trio.Event()).wait()
            if seq > talk.conversation.outbound.acked:
                raise PeerGone(peer)

    async def flush(self, peer: bytes) -> None:
        self._press()
        self.pay_owed()
        talk = self._talk(peer)
        await self.wait_handled(peer, talk.conversation.outbound.last)

    def hang_up(self) -> None:
        """The wire is gone: what is said from now on is kept, and harms nobody."""
        self._carry = _carry_nowhere

    def greet(self, peer: bytes) -> None:
        """Let the other side know that we can be reached, so that it sends what it has kept."""
        talk = self._talk(peer)
        self._send(peer, talk, (talk.conversation.acknowledgement(),))

    def _send(self, peer: bytes, talk: Talk, envelopes: tuple[Envelope, ...]) -> None:
        for envelope in envelopes:
            if not self._carry(peer, encode_envelope(envelope)):
                talk.lost = True
                return
            self._sent += 1
            self._owe_no_more(peer)  # every envelope carries the acknowledgement

    # --- in --------------------------------------------------------------------------------

    async def receive(self) -> Letter:
        await trio.lowlevel.checkpoint_if_cancelled()
        while not self._letters:
            await self._arrival.park()
        return self._next_kept()

    def _next_kept(self) -> Letter:
        letter = self._letters.popleft()
        self._passing_kept -= not letter.seq
        return letter

    async def hand_on(self, take: Callable[[Letter], bool]) -> None:
        await trio.lowlevel.checkpoint_if_cancelled()
        taker = self._taker = _Taker(take)
        try:
            while self._letters and not taker.over.is_set():
                self._give(taker, self._next_kept())
            await taker.over.wait()
        finally:
            self._taker = None
        if taker.error is not None:
            raise taker.error

    def _give(self, taker: _Taker, letter: Letter) -> None:
        try:
            if not taker.take(letter):
                return
        except BaseException as error:
            taker.error = error
        self._taker = None
        taker.over.set()

    def handled(self, letter: Letter, *, soon: bool = True) -> None:
        talk = self._talks.get(letter.peer)
        if talk is None or not letter.seq:
            return
        if talk.conversation.mark_handled(letter.seq, soon=soon):
            if talk.conversation.presses:
                self._owe(letter.peer)
            else:
                self._owe_later(letter.peer)

    def arrive(self, peer: bytes, frame: bytes) -> None:
        """Take one frame from the wire. Never raises for what a peer sent."""
        talk = self._talks.get(peer)
        if talk is None:
            return self.refuse("unknown_peer")
        try:
            reaction = talk.conversation.take(decode_envelope(frame))
        except UnknownVersion:
            return self.refuse("unknown_version")
        except OversizedFrame:
            return self.refuse("oversized")
        except (MalformedMessage, ValueError):
            return self.refuse("malformed")
        return self._obey(peer, talk, reaction)

    def refuse(self, cause: str) -> None:
        """Count something that was dropped; the log hears of each cause once."""
        self._refused[cause] += 1
        if cause in _WHY and cause not in self._told:
            self._told.add(cause)
            _log.warning("dropped %s; more of these are only counted", _WHY[cause])

    def _obey(self, peer: bytes, talk: Talk, reaction: Reaction) -> None:
        verdict = reaction.verdict
        if verdict in _COUNTED:
            self.refuse(_COUNTED[verdict])
            if verdict is Verdict.STALE:
                return
        elif verdict is Verdict.BEYOND:
            self.refuse("malformed")
        self._received += 1
        if reaction.overflowed:
            self.refuse("oversized")
        if talk.lost:
            talk.lost = False
            self._owe(peer)
            self._send(peer, talk, talk.conversation.again(0))
        if reaction.send:
            self._send(peer, talk, reaction.send)
        if reaction.progress:
            self._wake(talk)
        if reaction.acknowledge:
            self._owe(peer)
        if reaction.arrived is not None:  # last: who takes it may dismiss the peer
            self._keep(Letter(peer, reaction.arrived.seq, reaction.arrived.body))

    def _keep(self, letter: Letter) -> None:
        if self._taker is not None:
            self._give(self._taker, letter)
            return
        if not letter.seq:
            if self._passing_kept >= MOST_PASSING_KEPT:
                return
            self._passing_kept += 1
        self._letters.append(letter)
        self._arrival.unpark()

    def _wake(self, talk: Talk) -> None:
        talk.ticks = 0
        talk.room.unpark_all()
        acked = talk.conversation.outbound.acked
        for seq in [seq for seq in talk.waiting if seq <= acked]:
            talk.waiting.pop(seq).set()

    # --- what must be done beside ------------------------------------------------------------

    def _owe(self, peer: bytes) -> None:
        self._owed[peer] = None
        self._owing.unpark()

    def _owe_later(self, peer: bytes) -> None:
        if not self._owed_later:
            self._later_at = self._nap.deadline = trio.current_time() + LATER_S
        self._owed_later[peer] = None

    def _owe_no_more(self, peer: bytes) -> None:
        self._owed.pop(peer, None)
        if peer in self._owed_later:
            del self._owed_later[peer]
            if not self._owed_later:
                self._later_at = self._nap.deadline = math.inf

    def _press(self) -> None:
        """What may wait waits no longer."""
        self._owed |= self._owed_later
        self._owed_later.clear()
        self._later_at = self._nap.deadline = math.inf

    def pay_owed(self) -> None:
        """Send the acknowledgements that no envelope has carried."""
        for peer in list(self._owed):
            talk = self._talks[peer]
            self._send(peer, talk, (talk.conversation.acknowledgement(),))
        self._owed.clear()

    async def tend_acknowledgements(self) -> None:
        """Acknowledge one scheduler tick after letters were handled: many cost one frame.

        What nobody waits for is acknowledged LATER_S after the first of it, unless an envelope has
        said so before.
        """
        while True:
            with trio.CancelScope(deadline=self._later_at) as self._nap:
                if not self._owed:
                    await self._owing.park()
            if trio.current_time() >= self._later_at:
                self._press()
            self.pay_owed()

    async def tend_silence(self) -> None:
        """Ask about mail that stays unacknowledged. Costs nothing while there is none."""
        while True:
            if not any(t.conversation.outbound.unacknowledged for t in self._talks.values()):
                await self._outstanding.park()
            await trio.sleep(SILENCE_S)
            for peer, talk in self._talks.items():
                conversation = talk.conversation
                if not conversation.outbound.unacknowledged:
                    continue
                talk.ticks += 1
                conversation.resends_left = MOST_RESENDS
                if talk.ticks in ASKING or not talk.ticks % 8:
                    self._send(peer, talk, (conversation.probe(),))

    def statistics(self) -> PostStatistics:
        unacknowledged = sum(t.conversation.outbound.unacknowledged for t in self._talks.values())
        return PostStatistics(
            received=self._received,
            sent=self._sent,
            unacknowledged=unacknowledged,
            **self._refused,
        )


class SoleMailbox:
    """A child's end: a desk with one peer, whose epoch is that of the first envelope heard."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        desk.admit(OTHER_SIDE, epoch=0)

    async def post(self, body: bytes) -> int:
        return await self._desk.post(OTHER_SIDE, body)

    def post_nowait(self, body: bytes) -> int:
        return self._desk.post_nowait(OTHER_SIDE, body)

    def pass_on(self, body: bytes) -> None:
        self._desk.pass_on(OTHER_SIDE, body)

    async def wait_handled(self, seq: int) -> None:
        await self._desk.wait_handled(OTHER_SIDE, seq)

    async def receive(self) -> Letter:
        return await self._desk.receive()

    async def hand_on(self, take: Callable[[Letter], bool]) -> None:
        await self._desk.hand_on(take)

    def handled(self, letter: Letter, *, soon: bool = True) -> None:
        self._desk.handled(letter, soon=soon)

    async def flush(self) -> None:
        await self._desk.flush(OTHER_SIDE)

    def statistics(self) -> PostStatistics:
        """Numbers of this end."""
        return self._desk.statistics()

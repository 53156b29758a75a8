"""A child that dies and lives again while frames of all its lives are under way: what belongs to
one life never counts in another, and what a life had not handled goes to who dismisses it."""

import hypothesis.strategies as st
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from swarm.mailbox.delivery.envelope import decode_envelope, encode_envelope
from swarm.mailbox.delivery.peer_link import MAX_RESENDS, EnvelopeVerdict, PeerLink

SERVER_EPOCH = 7
ANY = st.integers(min_value=0, max_value=10_000)
INWARD = st.booleans()


class Life:
    """One life of the child, and the server's end of it."""

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch
        self.server = PeerLink(epoch=SERVER_EPOCH, peer_epoch=epoch)
        self.child = PeerLink(epoch=epoch, peer_epoch=0)
        self.outward: list[bytes] = []  # its socket's own: it dies with it
        self.said: list[bytes] = []  # by the child
        self.heard: list[bytes] = []  # by the server
        self.told: list[bytes] = []  # by the server
        self.got: list[tuple[int, bytes]] = []  # by the child, not handled yet
        self.handled: list[bytes] = []  # by the child


class RestartingPeer(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.life = Life(1)
        self.to_server: list[bytes] = []  # frames to the server, of every life there was

    @rule()
    def say(self) -> None:
        if self.life.child.outbound.has_room:
            body = b"%d of %d" % (len(self.life.said), self.life.epoch)
            self.life.said.append(body)
            self.life.child.enqueue_body(body)
            self.to_server += map(encode_envelope, self.life.child.due())

    @rule()
    def tell(self) -> None:
        if self.life.server.outbound.has_room:
            body = b"%d to %d" % (len(self.life.told), self.life.epoch)
            self.life.told.append(body)
            self.life.server.enqueue_body(body)
            self.life.outward += map(encode_envelope, self.life.server.due())

    @rule(where=ANY, twice=st.booleans())
    def deliver_to_server(self, where, twice) -> None:
        if self.to_server:
            place = where % len(self.to_server)
            self.server_takes(self.to_server[place] if twice else self.to_server.pop(place))

    @rule(where=ANY, twice=st.booleans())
    def deliver_to_child(self, where, twice) -> None:
        if wire := self.life.outward:
            place = where % len(wire)
            self.child_takes(wire[place] if twice else wire.pop(place))

    @rule(inward=INWARD, where=ANY, count=st.integers(1, 5))
    def drop(self, inward, where, count) -> None:
        wire = self.to_server if inward else self.life.outward
        if wire:
            del wire[where % len(wire) : where % len(wire) + count]

    @precondition(lambda self: self.life.got)
    @rule(where=ANY)
    def child_handles(self, where) -> None:
        seq, body = self.life.got.pop(0)
        self.life.handled.append(body)
        if self.life.child.mark_handled(seq):
            self.to_server.append(encode_envelope(self.life.child.acknowledgement()))

    @rule()
    def die_and_live_again(self) -> None:
        left = list(self.life.server.unacknowledged_bodies())
        unhandled = self.life.told[len(self.life.handled) :]
        assert left[len(left) - len(unhandled) :] == unhandled, "a body was lost with its reader"
        assert left == self.life.told[len(self.life.told) - len(left) :]
        self.life = Life(self.life.epoch + 1)

    def server_takes(self, frame: bytes) -> None:
        envelope, before = decode_envelope(frame), len(self.life.heard)
        reaction = self.life.server.receive(envelope)
        if envelope.epoch != self.life.epoch:
            assert reaction.verdict is EnvelopeVerdict.STALE
            assert not reaction.send and not reaction.acknowledge
        if reaction.arrived is not None:
            self.life.heard.append(reaction.arrived.body)
            if self.life.server.mark_handled(reaction.arrived.seq):
                self.life.outward.append(encode_envelope(self.life.server.acknowledgement()))
        assert len(self.life.heard) - before <= (envelope.epoch == self.life.epoch)
        self.life.outward += map(encode_envelope, reaction.send)

    def child_takes(self, frame: bytes) -> None:
        reaction = self.life.child.receive(decode_envelope(frame))
        if reaction.arrived is not None:
            self.life.got.append((reaction.arrived.seq, reaction.arrived.body))
        self.to_server += map(encode_envelope, reaction.send)

    @invariant()
    def each_side_has_heard_the_present_life_alone_in_order(self) -> None:
        life = self.life
        assert life.heard == life.said[: len(life.heard)]
        taken = life.handled + [body for _, body in life.got]
        assert taken == life.told[: len(taken)]

    def teardown(self) -> None:
        """From here on nothing is lost: the present life says and hears all."""
        for _ in range(20):
            while self.to_server:
                self.server_takes(self.to_server.pop(0))
            while self.life.outward:
                self.child_takes(self.life.outward.pop(0))
            while self.life.got:
                self.child_handles(0)
            for end in (self.life.server, self.life.child):
                end.resends_left = MAX_RESENDS
            self.to_server.append(encode_envelope(self.life.child.probe()))
            self.life.outward.append(encode_envelope(self.life.server.probe()))
        assert self.life.heard == self.life.said
        assert self.life.handled == self.life.told
        assert self.life.server.unacknowledged_bodies() == ()


RestartingPeer.TestCase.settings = settings(max_examples=80, stateful_step_count=40, deadline=None)
TestRestartingPeer = RestartingPeer.TestCase

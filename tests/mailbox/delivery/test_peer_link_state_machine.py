"""Between two conversations frames are dropped, doubled, delayed and reordered: nothing is lost,
nothing arrives twice, the order holds."""

import hypothesis.strategies as st
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from swarm.mailbox.delivery import envelope
from swarm.mailbox.delivery.envelope import decode_envelope, encode_envelope
from swarm.mailbox.delivery.peer_link import MAX_RESENDS, WINDOW, PeerLink

SIDES = st.sampled_from([0, 1])
ANY = st.integers(min_value=0, max_value=10_000)


class LossyWire(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.whole_part_bytes, envelope.FRAGMENT_BYTES = envelope.FRAGMENT_BYTES, 4
        self.ends = [PeerLink(epoch=3, peer_epoch=5), PeerLink(epoch=5, peer_epoch=3)]
        self.wires: list[list[bytes]] = [[], []]  # frames on their way to end 0, to end 1
        self.posted: list[list[bytes]] = [[], []]  # by end 0, by end 1
        self.received: list[list[bytes]] = [[], []]
        self.open: list[list[int]] = [[], []]  # received, not yet handled

    def teardown(self) -> None:
        self.heal()
        envelope.FRAGMENT_BYTES = self.whole_part_bytes

    def send(self, side, envelopes) -> None:
        self.wires[1 - side] += [encode_envelope(envelope) for envelope in envelopes]

    @rule(side=SIDES, sizes=st.lists(st.integers(0, 14), min_size=1, max_size=40))
    def post(self, side, sizes):
        end = self.ends[side]
        for size in sizes:
            if end.outbound.has_room:
                body = b"%d " % len(self.posted[side]) + b"x" * size
                self.posted[side].append(body)
                end.enqueue_body(body)
                self.send(side, end.due())

    @rule(side=SIDES)
    def pass_on(self, side):
        self.send(side, self.ends[side].transient(b"passing"))

    @precondition(lambda self: any(self.wires))
    @rule(side=SIDES, where=ANY, twice=st.booleans())
    def deliver_out_of_order(self, side, where, twice):
        if wire := self.wires[side]:
            frame = wire[where % len(wire)] if twice else wire.pop(where % len(wire))
            self.arrive(side, frame)

    @rule(side=SIDES, count=st.integers(1, 80))
    def deliver_in_order(self, side, count):
        for _ in range(min(count, len(self.wires[side]))):
            self.arrive(side, self.wires[side].pop(0))

    @precondition(lambda self: any(self.wires))
    @rule(side=SIDES, where=ANY, count=st.integers(1, 10))
    def drop(self, side, where, count):
        if wire := self.wires[side]:
            start = where % len(wire)
            del wire[start : start + count]

    @rule(side=SIDES, where=ANY)
    def handle(self, side, where):
        if waiting := self.open[side]:
            end = self.ends[side]
            if end.mark_handled(waiting.pop(where % len(waiting))):
                self.send(side, [end.acknowledgement()])

    @rule(side=SIDES)
    def ask_about_silence(self, side):
        end = self.ends[side]
        end.resends_left = MAX_RESENDS
        if end.outbound.unacknowledged:
            self.send(side, [end.probe()])

    def arrive(self, side, frame):
        reaction = self.ends[side].receive(decode_envelope(frame))
        if reaction.arrived is not None and reaction.arrived.seq:
            self.received[side].append(reaction.arrived.body)
            self.open[side].append(reaction.arrived.seq)
        self.send(side, reaction.send)
        if reaction.acknowledge:
            self.send(side, [self.ends[side].acknowledgement()])

    @invariant()
    def order_holds(self):
        for side in (0, 1):
            got = self.received[side]
            assert got == self.posted[1 - side][: len(got)]

    @invariant()
    def the_window_bounds_what_is_on_its_way(self):
        for end in self.ends:
            assert end.outbound.sent - end.outbound.acked <= WINDOW

    def heal(self):
        """The wire is sound from here on: everything arrives and is acknowledged, in few rounds."""
        for _ in range(20):
            for side in (0, 1):
                self.deliver_in_order(side, len(self.wires[side]))
                while self.open[side]:
                    self.handle(side, 0)
                self.ask_about_silence(side)
        assert self.received == [self.posted[1], self.posted[0]]
        assert [end.outbound.unacknowledged for end in self.ends] == [0, 0]


LossyWire.TestCase.settings = settings(max_examples=100, stateful_step_count=40, deadline=None)
TestLossyWire = LossyWire.TestCase

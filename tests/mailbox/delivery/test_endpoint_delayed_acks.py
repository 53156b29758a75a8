"""Acknowledgements that nobody waits for: they ride in an envelope, or come a little later."""

from contextlib import asynccontextmanager

import pytest
import trio
import trio.testing
from hypothesis import given
from hypothesis import strategies as st

from swarm.mailbox.delivery.endpoint import ACK_DELAY_S
from swarm.mailbox.delivery.envelope import Envelope, EnvelopeKind, decode_envelope
from swarm.mailbox.delivery.pair import Faults, FrameInTransit, no_faults, open_pair_server
from swarm.mailbox.delivery.peer_link import MAX_DEFERRED_ACKS, PeerLink

SCOUT = b"scout.1"


class Watched:
    """A sound wire that notes what the server sends, by kind and `ack`."""

    def __init__(self) -> None:
        self.seen: list[tuple[EnvelopeKind, int]] = []

    def __call__(self, passage: FrameInTransit) -> tuple[float, ...]:
        if not passage.to_server:
            envelope = decode_envelope(passage.frame)
            self.seen.append((envelope.kind, envelope.ack))
        return (0.0,)


@asynccontextmanager
async def talking(wire: Faults = no_faults):
    """An server that has admitted the scout, and the scout's mailbox."""
    async with open_pair_server(faults=wire) as server:
        server.admit(SCOUT, epoch=4)
        yield server, server.connect(SCOUT, epoch=4)


async def test_an_unhurried_acknowledgement_rides_in_the_next_envelope(autojump_clock):
    wire = Watched()
    async with talking(wire) as (server, mailbox):
        seq = await mailbox.post(b"question")
        server.acknowledge(await server.receive(), soon=False)
        await trio.sleep(ACK_DELAY_S / 2)
        assert wire.seen == []
        await server.post(SCOUT, b"answer")
        await mailbox.wait_acknowledged(seq)
        await trio.sleep(ACK_DELAY_S * 5)
    assert wire.seen == [(EnvelopeKind.WHOLE, 1)]


async def test_without_an_envelope_it_goes_alone_and_for_all_peers_at_once(autojump_clock):
    wire = Watched()
    async with open_pair_server(faults=wire) as server:
        ends = []
        for number in range(3):
            server.admit(b"scout.%d" % number, epoch=4)
            ends.append(server.connect(b"scout.%d" % number, epoch=4))
            await ends[-1].post(b"news")
            server.acknowledge(await server.receive(), soon=False)
        handled_at = trio.current_time()
        for end in ends:
            await end.flush()
        assert trio.current_time() - handled_at == pytest.approx(ACK_DELAY_S)
    assert wire.seen == [(EnvelopeKind.ACK, 1)] * 3


async def test_messages_that_somebody_waits_for_take_the_others_with_them(autojump_clock):
    async with talking() as (server, mailbox):
        for number in range(3):
            await mailbox.post(b"%d" % number)
        messages = [await server.receive() for _ in range(3)]
        server.acknowledge(messages[0], soon=False)
        server.acknowledge(messages[2])  # it cannot be acknowledged before the second is
        server.acknowledge(messages[1], soon=False)
        await mailbox.flush()
        assert trio.current_time() == 0


async def test_so_many_do_not_wait(autojump_clock):
    wire = Watched()
    async with talking(wire) as (server, mailbox):
        for _ in range(MAX_DEFERRED_ACKS):
            await mailbox.post(b"x")
        for _ in range(MAX_DEFERRED_ACKS):
            server.acknowledge(await server.receive(), soon=False)
        await mailbox.flush()
        assert trio.current_time() == 0
    assert wire.seen == [(EnvelopeKind.ACK, MAX_DEFERRED_ACKS)]


async def test_whoever_flushes_pays_what_could_have_waited(autojump_clock):
    async with talking() as (server, mailbox):
        seq = await server.post(SCOUT, b"order")
        mailbox.acknowledge(await mailbox.receive(), soon=False)
        await mailbox.flush()
        await server.wait_acknowledged(SCOUT, seq)
        assert trio.current_time() == 0


async def test_it_is_owed_to_nobody_once_the_peer_is_dismissed(autojump_clock):
    wire = Watched()
    async with talking(wire) as (server, mailbox):
        await mailbox.post(b"last words")
        server.acknowledge(await server.receive(), soon=False)
        server.dismiss(SCOUT)
        await trio.sleep(ACK_DELAY_S * 2)
    assert wire.seen == []


async def test_a_peer_that_cannot_be_reached_is_told_when_it_is_heard_again(autojump_clock):
    async with talking() as (server, mailbox):
        await mailbox.post(b"news")
        server.acknowledge(await server.receive(), soon=False)
        server.disconnect_child(SCOUT)
        await trio.sleep(ACK_DELAY_S * 2)  # it is tried once, not for ever
        assert server.statistics().sent == 0
        again = server.connect(SCOUT, epoch=4)
        await trio.testing.wait_all_tasks_blocked()
        assert server.statistics().sent == 1
        again.send_transient(b"beat")
        await trio.sleep(ACK_DELAY_S * 2)
        assert server.statistics().sent == 1


@given(st.permutations(range(1, 9)), st.sets(st.integers(1, 8)))
def test_what_is_waited_for_presses_from_its_handling_until_it_is_told(order, waited_for):
    ours = PeerLink(epoch=1, peer_epoch=7)
    for seq in range(1, 9):
        ours.receive(Envelope(epoch=7, seq=seq, kind=EnvelopeKind.WHOLE, body=b"x"))
    told, done = 0, set[int]()
    for seq in order:
        done.add(seq)
        if not ours.mark_handled(seq, soon=seq in waited_for):
            continue
        owed = {one for one in done & waited_for if one > told}
        if not owed:
            assert not ours.ack_is_urgent
        if any(one <= ours.inbound.handled for one in owed):
            assert ours.ack_is_urgent
            told = ours.acknowledgement().ack

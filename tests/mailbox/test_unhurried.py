"""Acknowledgements that nobody waits for: they ride in an envelope, or come a little later."""

from contextlib import asynccontextmanager

import pytest
import trio
import trio.testing
from hypothesis import given
from hypothesis import strategies as st

from swarm.mailbox.codec import decode_envelope
from swarm.mailbox.conversation import MOST_UNTOLD, Conversation
from swarm.mailbox.desk import LATER_S
from swarm.mailbox.pair import Faults, Passage, no_faults, open_pair_office
from swarm.mailbox.sequencer import Envelope, Kind

SCOUT = b"scout.1"


class Watched:
    """A sound wire that notes what the office sends, by kind and `ack`."""

    def __init__(self) -> None:
        self.seen: list[tuple[Kind, int]] = []

    def __call__(self, passage: Passage) -> tuple[float, ...]:
        if not passage.inward:
            envelope = decode_envelope(passage.frame)
            self.seen.append((envelope.kind, envelope.ack))
        return (0.0,)


@asynccontextmanager
async def talking(wire: Faults = no_faults):
    """An office that has admitted the scout, and the scout's mailbox."""
    async with open_pair_office(faults=wire) as office:
        office.admit(SCOUT, epoch=4)
        yield office, office.connect(SCOUT, epoch=4)


async def test_an_unhurried_acknowledgement_rides_in_the_next_envelope(autojump_clock):
    wire = Watched()
    async with talking(wire) as (office, mailbox):
        seq = await mailbox.post(b"question")
        office.handled(await office.receive(), soon=False)
        await trio.sleep(LATER_S / 2)
        assert wire.seen == []
        await office.post(SCOUT, b"answer")
        await mailbox.wait_handled(seq)
        await trio.sleep(LATER_S * 5)
    assert wire.seen == [(Kind.WHOLE, 1)]


async def test_without_an_envelope_it_goes_alone_and_for_all_peers_at_once(autojump_clock):
    wire = Watched()
    async with open_pair_office(faults=wire) as office:
        ends = []
        for number in range(3):
            office.admit(b"scout.%d" % number, epoch=4)
            ends.append(office.connect(b"scout.%d" % number, epoch=4))
            await ends[-1].post(b"news")
            office.handled(await office.receive(), soon=False)
        handled_at = trio.current_time()
        for end in ends:
            await end.flush()
        assert trio.current_time() - handled_at == pytest.approx(LATER_S)
    assert wire.seen == [(Kind.ACK, 1)] * 3


async def test_letters_that_somebody_waits_for_take_the_others_with_them(autojump_clock):
    async with talking() as (office, mailbox):
        for number in range(3):
            await mailbox.post(b"%d" % number)
        letters = [await office.receive() for _ in range(3)]
        office.handled(letters[0], soon=False)
        office.handled(letters[2])  # it cannot be acknowledged before the second is
        office.handled(letters[1], soon=False)
        await mailbox.flush()
        assert trio.current_time() == 0


async def test_so_many_do_not_wait(autojump_clock):
    wire = Watched()
    async with talking(wire) as (office, mailbox):
        for _ in range(MOST_UNTOLD):
            await mailbox.post(b"x")
        for _ in range(MOST_UNTOLD):
            office.handled(await office.receive(), soon=False)
        await mailbox.flush()
        assert trio.current_time() == 0
    assert wire.seen == [(Kind.ACK, MOST_UNTOLD)]


async def test_whoever_flushes_pays_what_could_have_waited(autojump_clock):
    async with talking() as (office, mailbox):
        seq = await office.post(SCOUT, b"order")
        mailbox.handled(await mailbox.receive(), soon=False)
        await mailbox.flush()
        await office.wait_handled(SCOUT, seq)
        assert trio.current_time() == 0


async def test_it_is_owed_to_nobody_once_the_peer_is_dismissed(autojump_clock):
    wire = Watched()
    async with talking(wire) as (office, mailbox):
        await mailbox.post(b"last words")
        office.handled(await office.receive(), soon=False)
        office.dismiss(SCOUT)
        await trio.sleep(LATER_S * 2)
    assert wire.seen == []


async def test_a_peer_that_cannot_be_reached_is_told_when_it_is_heard_again(autojump_clock):
    async with talking() as (office, mailbox):
        await mailbox.post(b"news")
        office.handled(await office.receive(), soon=False)
        office.sever(SCOUT)
        await trio.sleep(LATER_S * 2)  # it is tried once, not for ever
        assert office.statistics().sent == 0
        again = office.connect(SCOUT, epoch=4)
        await trio.testing.wait_all_tasks_blocked()
        assert office.statistics().sent == 1
        again.pass_on(b"beat")
        await trio.sleep(LATER_S * 2)
        assert office.statistics().sent == 1


@given(st.permutations(range(1, 9)), st.sets(st.integers(1, 8)))
def test_what_is_waited_for_presses_from_its_handling_until_it_is_told(order, waited_for):
    ours = Conversation(epoch=1, peer_epoch=7)
    for seq in range(1, 9):
        ours.take(Envelope(epoch=7, seq=seq, kind=Kind.WHOLE, body=b"x"))
    told, done = 0, set[int]()
    for seq in order:
        done.add(seq)
        if not ours.mark_handled(seq, soon=seq in waited_for):
            continue
        owed = {one for one in done & waited_for if one > told}
        if not owed:
            assert not ours.presses
        if any(one <= ours.inbound.handled for one in owed):
            assert ours.presses
            told = ours.acknowledgement().ack

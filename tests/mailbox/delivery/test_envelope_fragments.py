"""Large bodies travel in parts and are one body at the other side; memory is bounded."""

import hypothesis.strategies as st
import pytest
from hypothesis import given

from swarm.mailbox.base.errors import MessageTooLarge
from swarm.mailbox.delivery.envelope import (
    FRAGMENT_BYTES,
    MAX_MESSAGE_BYTES,
    Envelope,
    EnvelopeKind,
    FragmentAssembler,
    split_into_fragments,
)
from swarm.mailbox.delivery.peer_link import WINDOW, PeerLink


@pytest.mark.parametrize(
    ("size", "count"),
    [
        (0, 1),
        (1, 1),
        (FRAGMENT_BYTES, 1),
        (FRAGMENT_BYTES + 1, 2),
        (3 * FRAGMENT_BYTES, 3),
        (MAX_MESSAGE_BYTES, WINDOW),
    ],
)
def test_a_body_is_cut_into_as_few_parts_as_fit(size, count):
    parts = split_into_fragments(b"x" * size)
    assert len(parts) == count
    assert max(map(len, parts)) <= FRAGMENT_BYTES
    assert sum(map(len, parts)) == size


def test_a_body_over_the_limit_is_refused_before_anything_is_numbered():
    talk = PeerLink(epoch=1, peer_epoch=1)
    with pytest.raises(MessageTooLarge) as caught:
        talk.enqueue_body(b"x" * (MAX_MESSAGE_BYTES + 1))
    assert caught.value.limit_bytes == MAX_MESSAGE_BYTES
    assert talk.outbound.last == 0


@given(st.lists(st.lists(st.binary(max_size=5), min_size=1, max_size=6)))
def test_what_is_cut_is_joined(bodies):
    assembly = FragmentAssembler()
    for *parts, last in bodies:
        for part in parts:
            assembly.add(part)
        assert assembly.finish(last) == b"".join(parts) + last


def test_parts_over_the_limit_are_swallowed_whole_and_the_next_body_is_unharmed():
    assembly = FragmentAssembler()
    big = b"x" * (MAX_MESSAGE_BYTES // 4)
    for _ in range(9):
        assembly.add(big)
    assert assembly.overflowed
    assert assembly.finish(b"the end") is None
    assert assembly.finish(b"next") == b"next"


def test_a_message_in_parts_is_acknowledged_as_one():
    ours, theirs = PeerLink(epoch=1, peer_epoch=2), PeerLink(epoch=2, peer_epoch=1)
    body = bytes(range(256)) * 3000
    last = ours.enqueue_body(body)
    reactions = [theirs.receive(envelope) for envelope in ours.due()]
    assert [reaction.arrived for reaction in reactions[:-1]] == [None, None]
    assert reactions[-1].arrived == (last, body) == (3, body)
    assert theirs.inbound.handled == 0
    assert theirs.mark_handled(last)
    assert theirs.inbound.handled == 3
    assert ours.receive(theirs.acknowledgement()).progress
    assert ours.unacknowledged_bodies() == ()


def test_bodies_never_acknowledged_come_back_whole_and_in_order():
    ours = PeerLink(epoch=1, peer_epoch=2)
    bodies = (b"one", b"y" * (2 * FRAGMENT_BYTES + 7), b"three")
    for body in bodies:
        ours.enqueue_body(body)
    assert ours.unacknowledged_bodies() == bodies


def test_a_sender_that_never_ends_its_body_is_held_by_the_window():
    theirs = PeerLink(epoch=2, peer_epoch=1)
    megabyte = b"x" * 1_000_000
    for seq in range(1, 3 * WINDOW):
        theirs.receive(Envelope(epoch=1, seq=seq, kind=EnvelopeKind.FRAGMENT, body=megabyte))
    assert theirs.inbound.seen == WINDOW
    assert theirs.assembly.overflowed

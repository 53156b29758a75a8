"""The two halves as tables: (state, envelope) → verdict."""

import pytest

from swarm.mailbox.delivery.envelope import Envelope, EnvelopeKind
from swarm.mailbox.delivery.peer_link import WINDOW, EnvelopeVerdict, Inbound, Outbound


def inbound(*, seen: int = 0, handled: int = 0, epoch: int = 7) -> Inbound:
    half = Inbound(epoch=epoch)
    for seq in range(1, seen + 1):
        assert (
            half.admit(Envelope(epoch=epoch, seq=seq, kind=EnvelopeKind.WHOLE))
            is EnvelopeVerdict.FRESH
        )
        if seq <= handled:
            half.mark_handled(seq, seq)
    return half


@pytest.mark.parametrize(
    ("seen", "handled", "epoch", "seq", "kind", "verdict"),
    [
        (0, 0, 7, 1, EnvelopeKind.WHOLE, EnvelopeVerdict.FRESH),
        (0, 0, 7, 1, EnvelopeKind.FRAGMENT, EnvelopeVerdict.FRESH),
        (0, 0, 7, 0, EnvelopeKind.WHOLE, EnvelopeVerdict.REPEAT),
        (0, 0, 7, 2, EnvelopeKind.WHOLE, EnvelopeVerdict.GAP),
        (3, 0, 7, 3, EnvelopeKind.WHOLE, EnvelopeVerdict.REPEAT),
        (3, 3, 7, 1, EnvelopeKind.WHOLE, EnvelopeVerdict.REPEAT),
        (3, 3, 7, 4, EnvelopeKind.WHOLE, EnvelopeVerdict.FRESH),
        (3, 0, 7, 5, EnvelopeKind.FRAGMENT, EnvelopeVerdict.GAP),
        (0, 0, 7, WINDOW, EnvelopeKind.WHOLE, EnvelopeVerdict.GAP),
        (0, 0, 7, WINDOW + 1, EnvelopeKind.WHOLE, EnvelopeVerdict.OUTSIDE_WINDOW),
        (WINDOW, 0, 7, WINDOW + 1, EnvelopeKind.WHOLE, EnvelopeVerdict.OUTSIDE_WINDOW),
        (WINDOW, 1, 7, WINDOW + 1, EnvelopeKind.WHOLE, EnvelopeVerdict.FRESH),
        (0, 0, 6, 1, EnvelopeKind.WHOLE, EnvelopeVerdict.STALE),
        (0, 0, 8, 1, EnvelopeKind.WHOLE, EnvelopeVerdict.STALE),
        (0, 0, 8, 0, EnvelopeKind.ACK, EnvelopeVerdict.STALE),
        (0, 0, 7, 99, EnvelopeKind.TRANSIENT, EnvelopeVerdict.UNNUMBERED),
        (0, 0, 7, 99, EnvelopeKind.PROBE, EnvelopeVerdict.UNNUMBERED),
    ],
)
def test_an_envelope_is_judged_by_its_epoch_its_number_and_the_window(
    seen, handled, epoch, seq, kind, verdict
):
    half = inbound(seen=seen, handled=handled)
    assert half.admit(Envelope(epoch=epoch, seq=seq, kind=kind)) is verdict
    assert half.seen == seen + (verdict is EnvelopeVerdict.FRESH)


def test_an_unnamed_epoch_is_the_first_one_heard():
    half = Inbound(epoch=0)
    assert half.admit(Envelope(epoch=4, seq=1, kind=EnvelopeKind.WHOLE)) is EnvelopeVerdict.FRESH
    assert half.admit(Envelope(epoch=5, seq=2, kind=EnvelopeKind.WHOLE)) is EnvelopeVerdict.STALE


@pytest.mark.parametrize(
    ("order", "after_each"),
    [
        ([1, 2, 3, 4], [1, 2, 3, 4]),
        ([4, 3, 2, 1], [0, 0, 0, 4]),
        ([2, 1, 4, 3], [0, 2, 2, 4]),
        ([1, 1, 2, 2], [1, 1, 2, 2]),
        ([9, 0, 1], [0, 0, 1]),
    ],
)
def test_the_acknowledgement_is_the_highest_number_below_which_all_is_handled(order, after_each):
    half = inbound(seen=4)
    moves = []
    for seq in order:
        half.mark_handled(seq, seq)
        moves.append(half.handled)
    assert moves == after_each


def test_a_gap_is_asked_about_once_until_something_arrives():
    half = inbound(seen=2)
    assert [half.should_request_resend(), half.should_request_resend()] == [True, False]
    half.admit(Envelope(epoch=7, seq=3, kind=EnvelopeKind.WHOLE))
    assert half.should_request_resend()


def test_what_is_sent_is_kept_until_it_is_acknowledged_and_the_window_bounds_it():
    half = Outbound()
    for number in range(WINDOW + 3):
        half.enqueue(EnvelopeKind.WHOLE, b"%d" % number)
    assert [row[0] for row in half.due()] == list(range(1, WINDOW + 1))
    assert half.due() == []
    assert not half.has_room
    assert half.acknowledge(2)
    assert half.due() == [
        (WINDOW + 1, EnvelopeKind.WHOLE, b"64"),
        (WINDOW + 2, EnvelopeKind.WHOLE, b"65"),
    ]
    assert half.sent_after(WINDOW) == [
        (WINDOW + 1, EnvelopeKind.WHOLE, b"64"),
        (WINDOW + 2, EnvelopeKind.WHOLE, b"65"),
    ]
    assert half.sent_after(0)[0] == (3, EnvelopeKind.WHOLE, b"2")
    assert half.unacknowledged == len(half.remaining()) == WINDOW + 1


def test_an_old_acknowledgement_changes_nothing_and_an_impossible_one_is_an_error():
    half = Outbound()
    half.enqueue(EnvelopeKind.WHOLE, b"a")
    with pytest.raises(ValueError, match="acknowledged 1, but only 0 were sent"):
        half.acknowledge(1)
    half.due()
    assert [half.acknowledge(1), half.acknowledge(1), half.acknowledge(0)] == [True, False, False]

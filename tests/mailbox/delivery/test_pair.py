"""What a mailbox promises, shown over the in-memory wire in virtual time."""

import random

import pytest
import trio
import trio.testing

from swarm.mailbox.base.errors import MessageTooLarge, PeerGone
from swarm.mailbox.delivery.envelope import (
    MAX_MESSAGE_BYTES,
    Envelope,
    EnvelopeKind,
    encode_envelope,
)
from swarm.mailbox.delivery.pair import open_pair_server
from swarm.mailbox.delivery.peer_link import MAX_TRANSIENT, WINDOW

SCOUT = b"scout.1"


async def test_a_message_is_acknowledged_when_it_is_handled_and_not_before():
    async with open_pair_server() as server:
        server.admit(SCOUT, epoch=4)
        mailbox = server.connect(SCOUT, epoch=4)
        seq = await mailbox.post(b"hello")
        message = await server.receive()
        assert message == (SCOUT, 1, b"hello")
        with trio.move_on_after(0):
            await mailbox.wait_acknowledged(seq)
            pytest.fail("acknowledged before it was handled")
        server.acknowledge(message)
        await mailbox.wait_acknowledged(seq)
        await mailbox.flush()


async def test_many_messages_handled_in_one_tick_cost_one_acknowledgement():
    seen = []
    async with open_pair_server(faults=lambda p: seen.append(p.to_server) or (0.0,)) as server:
        server.admit(SCOUT, epoch=4)
        mailbox = server.connect(SCOUT, epoch=4)
        for _ in range(20):
            await mailbox.post(b"x")
        await trio.testing.wait_all_tasks_blocked()
        for _ in range(20):
            server.acknowledge(await server.receive())
        await mailbox.flush()
    assert seen.count(False) == 1


async def test_an_answer_carries_the_acknowledgement():
    async with open_pair_server() as server:
        server.admit(SCOUT, epoch=4)
        mailbox = server.connect(SCOUT, epoch=4)
        seq = await mailbox.post(b"question")
        server.acknowledge(await server.receive())
        await server.post(SCOUT, b"answer")
        await mailbox.wait_acknowledged(seq)
        assert server.statistics().sent == 1


async def test_messages_are_handed_on_as_they_arrive_until_the_taker_has_enough():
    taken = []
    async with open_pair_server() as server:
        server.admit(SCOUT, epoch=4)
        mailbox = server.connect(SCOUT, epoch=4)
        for number in range(2):  # before anybody takes them
            await mailbox.post(b"%d" % number)
        await trio.testing.wait_all_tasks_blocked()

        def take(message):
            taken.append(message.body)
            server.acknowledge(message)
            return message.body == b"3"

        async with trio.open_nursery() as nursery:
            nursery.start_soon(server.consume, take)
            await mailbox.flush()
            assert taken == [b"0", b"1"]
            for number in range(2, 6):
                await mailbox.post(b"%d" % number)
        assert taken == [b"0", b"1", b"2", b"3"]
        assert [(await server.receive()).body for _ in range(2)] == [b"4", b"5"]


async def test_what_a_taker_raises_comes_out_where_messages_are_handed_on():
    async with open_pair_server() as server:
        server.admit(SCOUT, epoch=4)
        mailbox = server.connect(SCOUT, epoch=4)

        def take(message):
            raise LookupError(message.body)

        async def hand_on():
            with pytest.raises(LookupError, match="one"):
                await server.consume(take)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(hand_on)
            await trio.testing.wait_all_tasks_blocked()
            await mailbox.post(b"one")
            await mailbox.post(b"two")
        assert (await server.receive()).body == b"two"


async def test_a_taker_may_dismiss_the_peer_whose_message_it_takes():
    async with open_pair_server() as server:
        server.admit(SCOUT, epoch=4)
        mailbox = server.connect(SCOUT, epoch=4)

        def take(message):
            server.acknowledge(message)
            server.dismiss(SCOUT)
            return True

        async with trio.open_nursery() as nursery:
            nursery.start_soon(server.consume, take)
            await mailbox.post(b"one")
        await trio.testing.wait_all_tasks_blocked()
        assert not server.has_received_from(SCOUT)


async def test_what_has_no_room_is_not_posted_without_waiting():
    async with open_pair_server() as server:
        server.admit(SCOUT, epoch=4)
        mailbox = server.connect(SCOUT, epoch=4)
        assert [mailbox.post_nowait(b"x") for _ in range(WINDOW + 1)] == [*range(1, WINDOW + 1), 0]
        server.acknowledge(await server.receive())
        await mailbox.wait_acknowledged(1)
        assert mailbox.post_nowait(b"y") == WINDOW + 1


async def test_mail_posted_before_the_peer_connects_arrives_when_it_does():
    async with open_pair_server() as server:
        server.admit(SCOUT, epoch=4)
        for number in range(3):
            await server.post(SCOUT, b"%d" % number)
        server.send_transient(SCOUT, b"passing mail is not kept")
        mailbox = server.connect(SCOUT, epoch=4)
        assert [(await mailbox.receive()).body for _ in range(3)] == [b"0", b"1", b"2"]


async def test_a_poster_waits_at_the_window_until_messages_are_handled():
    async with open_pair_server() as server:
        server.admit(SCOUT, epoch=4)
        mailbox = server.connect(SCOUT, epoch=4)
        for _ in range(WINDOW):
            await mailbox.post(b"x")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(mailbox.post, b"one more")
            await trio.testing.wait_all_tasks_blocked()
            assert server.statistics().received == WINDOW + 1  # and the greeting
            server.acknowledge(await server.receive())
        assert [(await server.receive()).body for _ in range(WINDOW)][-1] == b"one more"


async def test_a_cancelled_poster_at_the_window_has_posted_nothing():
    async with open_pair_server() as server:
        server.admit(SCOUT, epoch=4)
        for _ in range(WINDOW):
            await server.post(SCOUT, b"x")
        with trio.move_on_after(0):
            await server.post(SCOUT, b"too late")
        assert len(server.dismiss(SCOUT)) == WINDOW


async def test_a_large_body_is_one_message_and_a_larger_one_is_refused():
    async with open_pair_server() as server:
        server.admit(SCOUT, epoch=4)
        mailbox = server.connect(SCOUT, epoch=4)
        body = random.Random(1).randbytes(MAX_MESSAGE_BYTES)
        await mailbox.post(b"small")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(mailbox.post, body)
            server.acknowledge(await server.receive())
            message = await server.receive()
        assert message.body == body
        server.acknowledge(message)
        await mailbox.flush()
        with pytest.raises(MessageTooLarge):
            await mailbox.post(body + b"!")


async def test_passing_mail_that_fits_no_frame_is_dropped_and_counted_and_harms_nobody():
    async with open_pair_server() as server:
        server.admit(SCOUT, epoch=1)
        mailbox = server.connect(SCOUT, epoch=1)
        for size in (1 << 20, 17 << 20):
            server.send_transient(SCOUT, b"x" * size)
            mailbox.send_transient(b"x" * size)
        server.send_transient(SCOUT, b"small")
        assert (await mailbox.receive()).body == b"small"
        assert server.statistics().oversized == mailbox.statistics().oversized == 2


async def test_a_dismissed_peer_gives_its_mail_back_and_wakes_who_waits(autojump_clock):
    async with open_pair_server() as server:
        server.admit(SCOUT, epoch=4)
        gone = []

        async def expect_gone(wait):
            with pytest.raises(PeerGone):
                await wait
            gone.append(True)

        for _ in range(WINDOW):
            await server.post(SCOUT, b"x")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(expect_gone, server.post(SCOUT, b"waits at the window"))
            nursery.start_soon(expect_gone, server.wait_acknowledged(SCOUT, 3))
            await trio.testing.wait_all_tasks_blocked()
            assert server.dismiss(SCOUT) == (b"x",) * WINDOW
        assert gone == [True, True]
        await expect_gone(server.post(SCOUT, b"x"))
        server.send_transient(SCOUT, b"ignored")
        assert server.dismiss(SCOUT) == ()


async def test_a_peer_is_admitted_once():
    async with open_pair_server() as server:
        server.admit(SCOUT, epoch=1)
        with pytest.raises(ValueError, match="admitted already"):
            server.admit(SCOUT, epoch=2)


async def test_a_message_handled_after_its_peer_was_dismissed_is_ignored():
    async with open_pair_server() as server:
        server.admit(SCOUT, epoch=4)
        mailbox = server.connect(SCOUT, epoch=4)
        await mailbox.post(b"last words")
        message = await server.receive()
        server.dismiss(SCOUT)
        server.acknowledge(message)


async def test_lost_doubled_and_late_frames_lose_and_double_nothing(autojump_clock):
    dice = random.Random(7)
    fates = [(), (0.0,), (0.0,), (0.0, 0.0), (0.3,), (1.7, 0.0)]
    async with open_pair_server(faults=lambda _: dice.choice(fates)) as server:
        server.admit(SCOUT, epoch=4)
        mailbox = server.connect(SCOUT, epoch=4)
        sent = [b"%d" % number for number in range(300)]
        got = []

        async def read_server():
            while True:
                message = await server.receive()
                got.append(message.body)
                server.acknowledge(message)

        async def read_child():
            while True:
                mailbox.acknowledge(await mailbox.receive())

        async with trio.open_nursery() as nursery:
            nursery.start_soon(read_server)
            nursery.start_soon(read_child)
            for number, body in enumerate(sent):
                await mailbox.post(body)
                if number % 3 == 0:
                    await server.post(SCOUT, body)
            await mailbox.flush()
            await server.wait_acknowledged(SCOUT, 100)
            nursery.cancel_scope.cancel()
        assert got == sent
        figures = server.statistics()
        assert figures.repeats and figures.gaps and not figures.malformed


async def test_bad_frames_are_counted_by_cause_logged_once_and_end_nothing(caplog):
    good = Envelope(epoch=4, seq=1, kind=EnvelopeKind.WHOLE, body=b"good")
    async with open_pair_server() as server:
        server.admit(SCOUT, epoch=4)
        server.inject(b"a stranger", encode_envelope(good))
        for frame in (
            b"junk with a secret",
            b"\x96\x01junk",
            encode_envelope(Envelope(epoch=4, ack=9)),  # acknowledges what was never sent
            # Outside the window.
            encode_envelope(Envelope(epoch=4, seq=500, kind=EnvelopeKind.WHOLE)),
            encode_envelope(Envelope(version=9)),
            b"\x96\x01" + b"x" * 2_000_000,
            encode_envelope(
                Envelope(epoch=3, seq=1, kind=EnvelopeKind.WHOLE, body=b"earlier life")
            ),
            encode_envelope(good),
            encode_envelope(good),
        ):
            server.inject(SCOUT, frame)
        assert await server.receive() == (SCOUT, 1, b"good")
        await trio.testing.wait_all_tasks_blocked()
        figures = server.statistics()
    assert (figures.unknown_peer, figures.malformed, figures.unknown_version) == (1, 4, 1)
    assert (figures.oversized, figures.stale, figures.repeats) == (1, 1, 1)
    assert len(caplog.messages) == 5
    assert "secret" not in caplog.text


async def test_passing_mail_stops_when_the_other_side_no_longer_reads(autojump_clock):
    async with open_pair_server() as server:
        server.admit(SCOUT, epoch=4)
        mailbox = server.connect(SCOUT, epoch=4)
        await trio.testing.wait_all_tasks_blocked()
        for _ in range(3):
            for _ in range(50):
                server.send_transient(SCOUT, b"delta")
            for _ in range(50):
                message = await mailbox.receive()
                assert message == (b"", 0, b"delta")
                mailbox.acknowledge(message)
        server.faults = lambda _: ()
        before = server.statistics().sent
        for _ in range(10 * MAX_TRANSIENT):
            server.send_transient(SCOUT, b"delta")
        assert server.statistics().sent - before <= MAX_TRANSIENT + 10


async def test_a_peer_that_asks_again_and_again_cannot_make_us_send_without_bound():
    async with open_pair_server() as server:
        server.admit(SCOUT, epoch=4)
        server.connect(SCOUT, epoch=4)
        await trio.testing.wait_all_tasks_blocked()
        for _ in range(10):
            await server.post(SCOUT, b"x")
        for _ in range(1000):
            server.inject(SCOUT, encode_envelope(Envelope(epoch=4, kind=EnvelopeKind.RESEND)))
        await trio.testing.wait_all_tasks_blocked()
        assert server.statistics().sent <= 100


async def test_a_severed_child_is_out_of_reach_both_ways(autojump_clock):
    async with open_pair_server() as server:
        server.admit(SCOUT, epoch=4)
        mailbox = server.connect(SCOUT, epoch=4)
        await trio.testing.wait_all_tasks_blocked()
        server.disconnect_child(SCOUT)
        await mailbox.post(b"nobody hears")
        await server.post(SCOUT, b"nobody reads")
        with trio.move_on_after(100) as patience:
            await server.receive()
        assert patience.cancelled_caught
        assert server.dismiss(SCOUT) == (b"nobody reads",)

"""The two socket ends over ipc, under real time and so always under a deadline."""

import os
from contextlib import AsyncExitStack

import pytest
import trio
import zmq

from swarm.mailbox.base.errors import PeerGone
from swarm.mailbox.delivery.dealer import open_dealer
from swarm.mailbox.delivery.envelope import Envelope, EnvelopeKind, decode_envelope, encode_envelope
from swarm.mailbox.delivery.guarded_listener import open_guarded_connection
from swarm.mailbox.delivery.interfaces import Mailbox, MailboxServer
from swarm.mailbox.delivery.polled import PolledSocket, open_socket
from swarm.mailbox.delivery.router import open_router


@pytest.fixture
def endpoint(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # a temporary folder's path may be longer than a socket's
    return "ipc://mail"


async def keep_handling(end: MailboxServer | Mailbox) -> None:
    while True:
        end.acknowledge(await end.receive())


async def test_messages_go_both_ways_and_are_acknowledged(endpoint):
    with trio.fail_after(10):
        async with (
            open_router(endpoint) as server,
            open_dealer(endpoint, b"scout", epoch=2) as mailbox,
        ):
            server.admit(b"scout", epoch=2)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(keep_handling, server)
                nursery.start_soon(keep_handling, mailbox)
                for number in range(500):
                    seq = await mailbox.post(b"%d" % number)
                    await server.post(b"scout", b"%d" % number)
                await mailbox.wait_acknowledged(seq)
                await server.wait_acknowledged(b"scout", 500)
                nursery.cancel_scope.cancel()
            figures = server.statistics()
            assert (figures.repeats, figures.gaps, figures.unacknowledged) == (0, 0, 0)


async def test_messages_that_nobody_waits_for_are_acknowledged_too_and_cost_fewer_frames(endpoint):
    with trio.fail_after(10):
        async with (
            open_router(endpoint) as server,
            open_dealer(endpoint, b"scout", epoch=2) as mailbox,
        ):
            server.admit(b"scout", epoch=2)
            for number in range(40):
                await mailbox.post(b"%d" % number)
                server.acknowledge(await server.receive(), soon=False)
            await mailbox.flush()
            figures = server.statistics()
            assert (figures.repeats, figures.gaps, figures.received) == (0, 0, 41)
            assert figures.sent <= 10  # one for 16, or for all of a tenth of a second


async def test_what_is_said_after_the_wire_is_gone_harms_nobody(endpoint):
    with trio.fail_after(10):
        async with open_router(endpoint) as server:
            server.admit(b"scout", epoch=2)
            async with open_dealer(endpoint, b"scout", epoch=2) as mailbox:
                await mailbox.post(b"one")
                assert (await server.receive()).body == b"one"
        assert mailbox.post_nowait(b"two") == 2
        mailbox.send_transient(b"passing")
        assert server.post_nowait(b"scout", b"three") == 1
        server.send_transient(b"scout", b"passing")


async def test_mail_posted_before_the_peer_connects_is_kept_and_arrives(endpoint):
    with trio.fail_after(10):
        async with open_router(endpoint) as server:
            server.admit(b"late", epoch=1)
            for number in range(5):
                await server.post(b"late", b"%d" % number)
            async with open_dealer(endpoint, b"late", epoch=1) as mailbox:
                for number in range(5):
                    message = await mailbox.receive()
                    assert message == (b"", number + 1, b"%d" % number)
                    mailbox.acknowledge(message)
                await server.wait_acknowledged(b"late", 5)


async def test_a_child_may_reach_out_before_anyone_listens(endpoint):
    with trio.fail_after(10):
        async with open_dealer(endpoint, b"early", epoch=1) as mailbox:
            await mailbox.post(b"is anyone there")
            async with open_router(endpoint) as server:
                server.admit(b"early", epoch=1)
                message = await server.receive()
                server.acknowledge(message)
                await mailbox.flush()
                assert message == (b"early", 1, b"is anyone there")


async def test_one_process_holds_two_mailboxes_at_once(endpoint):
    with trio.fail_after(10):
        async with AsyncExitStack() as stack:
            supervisor = await stack.enter_async_context(open_router(endpoint))
            gateway = await stack.enter_async_context(open_router(endpoint + "2"))
            up = await stack.enter_async_context(open_dealer(endpoint, b"a", epoch=1))
            side = await stack.enter_async_context(open_dealer(endpoint + "2", b"a", epoch=1))
            for server, mailbox, word in ((supervisor, up, b"up"), (gateway, side, b"side")):
                server.admit(b"a", epoch=1)
                await mailbox.post(word)
                assert (await server.receive()).body == word


async def test_a_body_of_three_mebibytes_is_one_message(endpoint):
    body = os.urandom(3 * 1024 * 1024)
    with trio.fail_after(20):
        async with (
            open_router(endpoint) as server,
            open_dealer(endpoint, b"scout", epoch=2) as mailbox,
        ):
            server.admit(b"scout", epoch=2)
            await mailbox.post(body)
            message = await server.receive()
            assert message.body == body
            server.acknowledge(message)
            await mailbox.flush()


async def test_mail_to_a_peer_that_was_never_admitted_is_an_error(endpoint):
    async with open_router(endpoint) as server:
        with pytest.raises(PeerGone):
            await server.post(b"nobody", b"x")
        with pytest.raises(PeerGone):
            await server.wait_acknowledged(b"nobody", 1)


async def test_hostile_frames_are_counted_and_an_honest_peer_is_served_meanwhile(endpoint):
    with trio.fail_after(20), zmq.Context() as context, context.socket(zmq.DEALER) as hostile:
        hostile.linger, hostile.routing_id = 0, b"hostile"
        async with (
            open_guarded_connection(PolledSocket(hostile), endpoint),
            open_router(endpoint) as server,
            open_dealer(endpoint, b"honest", epoch=1) as mailbox,
        ):
            server.admit(b"hostile", epoch=1)
            server.admit(b"honest", epoch=1)
            hostile.send(b"junk")
            hostile.send_multipart([b"two", b"frames"])
            hostile.send(b"\x96\x01" + b"x" * 1_100_000)
            hostile.send(encode_envelope(Envelope(version=7)))
            hostile.send(encode_envelope(Envelope(epoch=9, seq=1, kind=EnvelopeKind.WHOLE)))
            hostile.send(
                encode_envelope(Envelope(epoch=1, seq=1, kind=EnvelopeKind.WHOLE, body=b"ok"))
            )
            assert await server.receive() == (b"hostile", 1, b"ok")
            figures = server.statistics()
            assert (figures.malformed, figures.oversized) == (2, 1)
            assert (figures.unknown_version, figures.stale) == (1, 1)
            await mailbox.post(b"still here")
            assert (await server.receive()).body == b"still here"


async def test_a_frame_over_two_mebibytes_costs_its_sender_the_connection_and_is_counted(endpoint):
    with trio.fail_after(20), zmq.Context() as context, context.socket(zmq.DEALER) as hostile:
        hostile.linger, hostile.routing_id = 0, b"hostile"
        async with (
            open_guarded_connection(PolledSocket(hostile), endpoint),
            open_router(endpoint) as server,
        ):
            server.admit(b"hostile", epoch=1)
            hostile.send(
                encode_envelope(Envelope(epoch=1, seq=1, kind=EnvelopeKind.WHOLE, body=b"ok"))
            )
            server.acknowledge(await server.receive())
            hostile.send(b"x" * (2 * 1024 * 1024 + 1))
            while not server.statistics().disconnects:
                await trio.lowlevel.checkpoint()
            hostile.send(
                encode_envelope(Envelope(epoch=1, seq=2, kind=EnvelopeKind.WHOLE, body=b"back"))
            )
            assert (await server.receive()).body == b"back"


async def test_mail_that_a_peer_lost_is_asked_about_and_sent_again(endpoint):
    """The sender learns of nothing; its probe after a second of silence finds out."""
    with trio.fail_after(20), open_socket("dealer") as forgetful:
        forgetful.raw.set(zmq.ROUTING_ID, b"scout")
        async with open_guarded_connection(forgetful, endpoint), open_router(endpoint) as server:
            server.admit(b"scout", epoch=1)
            forgetful.send(encode_envelope(Envelope(epoch=1, seq=1, kind=EnvelopeKind.WHOLE)))
            server.acknowledge(await server.receive())
            await server.post(b"scout", b"mail")
            kinds = []
            while len(kinds) < 4:
                [frame] = await forgetful.receive()
                kinds.append((envelope := decode_envelope(frame)).kind)
                if envelope.kind is EnvelopeKind.PROBE:
                    forgetful.send(
                        encode_envelope(Envelope(epoch=1, seq=0, kind=EnvelopeKind.RESEND))
                    )
            assert kinds == [
                EnvelopeKind.ACK,
                EnvelopeKind.WHOLE,
                EnvelopeKind.PROBE,
                EnvelopeKind.WHOLE,
            ] or kinds == [
                EnvelopeKind.WHOLE,  # it carried the acknowledgement
                EnvelopeKind.PROBE,
                EnvelopeKind.WHOLE,
                EnvelopeKind.PROBE,
            ]
            forgetful.send(encode_envelope(Envelope(epoch=1, ack=1)))
            await server.wait_acknowledged(b"scout", 1)


async def test_a_peer_that_left_in_order_is_no_disconnect(endpoint):
    with trio.fail_after(10):
        async with open_router(endpoint) as server:
            for epoch in range(1, 4):
                identity = b"agent.%d" % epoch
                server.admit(identity, epoch=epoch)
                async with open_dealer(endpoint, identity, epoch=epoch) as mailbox:
                    await mailbox.post(b"goodbye")
                    server.acknowledge(await server.receive())
                    await mailbox.flush()
                assert server.dismiss(identity) == ()
            assert server.statistics().disconnects == 0


async def test_mail_for_a_dead_process_comes_back_when_it_is_dismissed(endpoint):
    with trio.fail_after(10):
        async with open_router(endpoint) as server:
            server.admit(b"scout", epoch=1)
            async with open_dealer(endpoint, b"scout", epoch=1) as mailbox:
                await mailbox.post(b"hello")
                server.acknowledge(await server.receive())
                await mailbox.flush()
            for number in range(10):
                await server.post(b"scout", b"%d" % number)
            assert server.dismiss(b"scout") == tuple(b"%d" % number for number in range(10))


async def test_a_router_may_accept_peers_by_their_names_but_none_after_its_dismissal(endpoint):
    def accept(peer):
        return 3 if peer.startswith(b"agent") else None

    with trio.fail_after(10):
        async with AsyncExitStack() as stack:
            server = await stack.enter_async_context(open_router(endpoint, accept=accept))
            stranger = await stack.enter_async_context(open_dealer(endpoint, b"other", epoch=3))
            agent = await stack.enter_async_context(open_dealer(endpoint, b"agent", epoch=3))
            await stranger.post(b"let me in")
            await agent.post(b"hello")
            message = await server.receive()
            assert message == (b"agent", 1, b"hello")
            server.acknowledge(message)
            await agent.flush()
            server.dismiss(b"agent")
            before = server.statistics().unknown_peer
            await agent.post(b"a straggler")
            while server.statistics().unknown_peer == before:
                await trio.lowlevel.checkpoint()
            with pytest.raises(PeerGone):
                await server.post(b"agent", b"x")

"""Questions from other terminals, over ipc."""

import os
import sys

import pytest
import trio
import zmq

from swarm.mailbox.delivery.control_channel import (
    NoControlReply,
    open_control_server,
    send_control_request,
)
from swarm.mailbox.delivery.envelope import Envelope, EnvelopeKind, encode_envelope
from swarm.mailbox.delivery.guarded_listener import open_guarded_connection
from swarm.mailbox.delivery.polled import PolledSocket


@pytest.fixture
def endpoint(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return "ipc://control"


async def answer(server, *, count=1, reply=lambda call: call.body.upper()):
    for _ in range(count):
        call = await server.receive()
        server.reply(call, reply(call))


async def test_a_question_gets_its_answer_whatever_its_size(endpoint):
    with trio.fail_after(20):
        async with open_control_server(endpoint) as server, trio.open_nursery() as nursery:
            nursery.start_soon(answer, server)
            assert await send_control_request(endpoint, b"who", timeout_s=10) == b"WHO"
            large = os.urandom(2_000_000)
            nursery.start_soon(lambda: answer(server, reply=lambda _: large))
            assert await send_control_request(endpoint, b"all", timeout_s=10) == large


async def test_many_callers_each_get_their_own_answer(endpoint):
    with trio.fail_after(20):
        async with open_control_server(endpoint) as server, trio.open_nursery() as nursery:
            nursery.start_soon(lambda: answer(server, count=20))

            async def ask(number):
                body = b"q%d" % number
                assert await send_control_request(endpoint, body, timeout_s=10) == body.upper()

            for number in range(20):
                nursery.start_soon(ask, number)


async def test_the_kernel_tells_which_process_calls(endpoint):
    ask = (
        "import trio; from swarm.mailbox.delivery.control_channel import send_control_request;"
        f"print(trio.run(lambda: send_control_request({endpoint!r}, b'?', timeout_s=10)).decode())"
    )
    with trio.fail_after(30):
        async with open_control_server(endpoint) as server, trio.open_nursery() as nursery:
            nursery.start_soon(
                lambda: answer(server, reply=lambda call: b"%d" % (call.peer_pid or 0))
            )
            pid = await send_control_request(endpoint, b"?", timeout_s=10)
            assert int(pid) == os.getpid()
            nursery.start_soon(
                lambda: answer(server, reply=lambda call: b"%d" % (call.peer_pid or 0))
            )
            done = await trio.run_process([sys.executable, "-P", "-c", ask], capture_stdout=True)
            assert int(done.stdout) not in (0, os.getpid())


async def test_malformed_calls_are_counted_and_dropped(endpoint, caplog):
    with trio.fail_after(20), zmq.Context() as context, context.socket(zmq.DEALER) as hostile:
        hostile.linger = 0
        async with (
            open_guarded_connection(PolledSocket(hostile), endpoint),
            open_control_server(endpoint) as server,
            trio.open_nursery() as nursery,
        ):
            nursery.start_soon(lambda: answer(server, count=2))
            hostile.send(b"junk")
            hostile.send_multipart([b"a", b"b"])
            hostile.send(encode_envelope(Envelope(version=8, kind=EnvelopeKind.WHOLE)))
            hostile.send(encode_envelope(Envelope(kind=EnvelopeKind.FRAGMENT)))
            hostile.send(encode_envelope(Envelope(kind=EnvelopeKind.WHOLE, body=b"good")))
            assert await send_control_request(endpoint, b"x", timeout_s=10) == b"X"
        assert server.malformed == 4
        assert len(caplog.messages) == 1


async def test_a_caller_that_left_does_not_disturb_the_server(endpoint):
    with trio.fail_after(20):
        async with open_control_server(endpoint) as server:
            with trio.move_on_after(0.2):
                await send_control_request(endpoint, b"impatient", timeout_s=10)
            server.reply(await server.receive(), b"too late")
            async with trio.open_nursery() as nursery:
                nursery.start_soon(answer, server)
                assert await send_control_request(endpoint, b"x", timeout_s=10) == b"X"


async def test_where_no_process_listens_nobody_answers_at_once(endpoint, tmp_path):
    with trio.fail_after(30), pytest.raises(NoControlReply):
        await send_control_request(endpoint, b"?", timeout_s=600)
    (tmp_path / "control").write_bytes(b"")
    with trio.fail_after(30), pytest.raises(NoControlReply):
        await send_control_request(endpoint, b"?", timeout_s=600)


async def test_a_server_that_stays_silent_is_given_up_at_the_deadline(endpoint):
    with trio.fail_after(10):
        async with open_control_server(endpoint):
            with pytest.raises(NoControlReply, match=r"within 0\.1 s"):
                await send_control_request(endpoint, b"?", timeout_s=0.1)

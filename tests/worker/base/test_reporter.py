"""Durable events keep their order over a full window; deltas travel together; replies arrive."""

import trio

from swarm.mailbox.delivery.pair import open_pair_server
from swarm.mailbox.protocol.events import OutputArrived, TextArrived, Warned, decode_event
from swarm.mailbox.protocol.requests import BlobStored, RequestRefused, StoreBlob
from swarm.worker.base.reporter import COALESCE_CHARS, Reporter


async def hear(server, events):
    while True:
        message = await server.receive()
        events.append(decode_event(message.body))


async def test_saying_never_waits_and_order_holds_beyond_the_window(autojump_clock):
    async with open_pair_server() as server, trio.open_nursery() as nursery:
        server.admit(b"a", epoch=1)
        reporter = Reporter(server.connect(b"a", epoch=1))
        nursery.start_soon(reporter.run_outbox)
        for number in range(200):
            reporter.emit(Warned(message=str(number)))
        ticket = reporter.emit_tracked(Warned(message="last"))
        heard = []
        with trio.move_on_after(5) as limit:
            await reporter.wait_journaled(ticket)  # nobody acknowledges yet
        assert limit.cancelled_caught
        messages = 0
        while messages < 201:
            message = await server.receive()
            server.acknowledge(message)
            heard.append(decode_event(message.body).message)
            messages += 1
        await reporter.wait_journaled(ticket)
        await reporter.flush()
        nursery.cancel_scope.cancel()
    assert heard == [*map(str, range(200)), "last"]


async def test_deltas_of_one_stream_travel_together_and_streams_stay_apart(autojump_clock):
    events = []
    async with open_pair_server() as server, trio.open_nursery() as nursery:
        server.admit(b"a", epoch=1)
        reporter = Reporter(server.connect(b"a", epoch=1))
        nursery.start_soon(reporter.run_deltas)
        nursery.start_soon(hear, server, events)
        for piece in ("a", "b"):
            reporter.emit_delta(TextArrived, "t", "item", piece)
            reporter.emit_delta(OutputArrived, "t", "call", piece.upper())
        await trio.sleep(1)
        assert events == [
            TextArrived(turn_id="t", item_id="item", delta="ab"),
            OutputArrived(turn_id="t", call_id="call", delta="AB"),
        ]
        reporter.emit_delta(TextArrived, "t", "item", "x" * COALESCE_CHARS)  # large: at once
        reporter.emit_delta(TextArrived, "t", "item", "rest")
        # The whole item is here: the rest is not needed.
        reporter.discard_deltas(TextArrived, "item")
        await trio.sleep(1)
        assert [event.delta for event in events[2:]] == ["x" * COALESCE_CHARS]
        nursery.cancel_scope.cancel()


async def test_a_reply_reaches_who_asked_and_a_stray_one_nobody(autojump_clock):
    async with open_pair_server() as server, trio.open_nursery() as nursery:
        server.admit(b"a", epoch=1)
        reporter = Reporter(server.connect(b"a", epoch=1))
        nursery.start_soon(reporter.run_outbox)
        replies = {}

        async def ask(name):
            replies[name] = await reporter.request(StoreBlob(sha256=name, data=b""))

        async with trio.open_nursery() as asking:
            for name in ("one", "two"):
                asking.start_soon(ask, name)
            asked = []
            while len(asked) < 2:
                asked.append(decode_event((await server.receive()).body))
            reporter.receive_reply(99, BlobStored(path="/stray"))
            for event in reversed(asked):
                reporter.receive_reply(event.request_id, BlobStored(path=event.request.sha256))
                reporter.receive_reply(event.request_id, BlobStored(path="/again"))
        assert {name: reply.path for name, reply in replies.items()} == {"one": "one", "two": "two"}
        nursery.cancel_scope.cancel()


async def test_a_request_that_no_mailbox_takes_is_refused_to_who_asked_and_the_voice_stays(
    autojump_clock,
):
    async with open_pair_server() as server, trio.open_nursery() as nursery:
        server.admit(b"a", epoch=1)
        reporter = Reporter(server.connect(b"a", epoch=1))
        nursery.start_soon(reporter.run_outbox)
        reply = await reporter.request(StoreBlob(sha256="0" * 64, data=b"x" * (17 << 20)))
        assert isinstance(reply, RequestRefused) and "16777216" in reply.message
        reporter.emit_delta(TextArrived, "t", "x", "y" * (3 << 20))
        reporter.emit(Warned(message="still here"))
        assert decode_event((await server.receive()).body) == Warned(message="still here")
        nursery.cancel_scope.cancel()

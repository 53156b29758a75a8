"""Who is let in, what is remembered, what is cancelled: agents against the gateway, in memory."""

import math

import msgspec
import pytest
import trio
import trio.testing

from support.gateway_in_memory import KEY, MODEL, RUN_KEY, USAGE, Agent, open_gateway
from swarm.mailbox.contents.credentials import make_proof
from swarm.mailbox.protocol.gateway import ResponseBilled, decode_gateway_event
from swarm.mailbox.protocol.items import encode_item, text_message
from swarm.mailbox.protocol.sampling import (
    CancelSample,
    ConversationOpened,
    ConversationRefused,
    NeedHistory,
    SampleCompleted,
    SampleFailed,
    SampleItemDone,
    SampleRequest,
    SampleWaiting,
    TextDelta,
    chain_digest,
)
from swarm.worker.gateway.backend import (
    Failure,
    RequestWaiting,
    ResponseFinished,
    ResponseItemDone,
    ResponseTextDelta,
    SampleError,
)


async def test_an_agent_opens_asks_and_hears_its_answer_in_order(autojump_clock):
    async with open_gateway() as gateway:
        item = text_message("assistant", "hello")
        gateway.backend.answers = [
            [
                ResponseTextDelta(item_id="x", text="hel"),
                ResponseItemDone(item=item),
                ResponseFinished(usage=USAGE),
            ]
        ]
        agent = Agent(gateway.server)
        await agent.open()
        assert await agent.receive_event() == ConversationOpened(model=MODEL)
        await agent.ask("hi")
        assert await agent.receive_answer() == [
            TextDelta(request_id=1, item_id="x", delta="hel"),
            SampleItemDone(request_id=1, item=item),
            SampleCompleted(request_id=1, usage=USAGE),
        ]
        message = await gateway.supervisor.receive()
        assert decode_gateway_event(message.body) == ResponseBilled(
            agent_id="a1", provider="p", model="m", usage=USAGE, usd=0.006
        )


async def test_a_peer_without_the_right_token_is_dismissed_and_counted(autojump_clock):
    async with open_gateway() as gateway:
        agent = Agent(gateway.server)
        await agent.open(token=b"wrong")
        await agent.ask("hi")
        with trio.move_on_after(30):
            await agent.receive_event()
            pytest.fail("a stranger was answered")
        assert gateway.sessions.refusals == 1
        assert gateway.backend.requests == []
        assert gateway.sessions.accept(agent.identity) is None


async def test_a_token_of_another_agent_opens_nothing(autojump_clock):
    async with open_gateway() as gateway:
        agent = Agent(gateway.server, "a1")
        await agent.open(token=make_proof(RUN_KEY, b"a/a2/1", purpose="gateway"))
        await trio.sleep(1)
        assert gateway.sessions.refusals == 1


@pytest.mark.parametrize(
    ("peer", "epoch"),
    [(b"a/x/1", 1), (b"a/x/12", 12), (b"a/x/0", None), (b"g/1", None), (b"a//1", None)],
)
async def test_only_names_of_agents_are_heard_at_all(autojump_clock, peer, epoch):
    async with open_gateway() as gateway:
        assert gateway.sessions.accept(peer) == epoch


async def test_only_new_items_travel_and_the_gateway_joins_them(autojump_clock):
    async with open_gateway() as gateway:
        gateway.backend.answers = [[ResponseFinished()], [ResponseFinished()]]
        agent = Agent(gateway.server)
        await agent.open()
        digest = await agent.ask("one", "two")
        assert (await agent.receive_answer())[-1] == SampleCompleted(request_id=1)
        await agent.ask("three", count=2, digest=digest)
        await agent.receive_answer()
        texts = [item.content[0].text for item in gateway.backend.requests[1].items]
        assert texts == ["one", "two", "three"]


async def test_an_earlier_state_of_the_history_is_gone_back_to(autojump_clock):
    async with open_gateway() as gateway:
        gateway.backend.answers = [[ResponseFinished()], [ResponseFinished()]]
        agent = Agent(gateway.server)
        await agent.open()
        await agent.ask("one", "two")
        await agent.receive_answer()
        first = chain_digest(b"", encode_item(text_message("user", "one")))
        await agent.ask("other", count=1, digest=first)
        await agent.receive_answer()
        texts = [item.content[0].text for item in gateway.backend.requests[1].items]
        assert texts == ["one", "other"]


@pytest.mark.parametrize(("count", "digest"), [(2, b"x" * 16), (7, b""), (-1, b"")])
async def test_an_unknown_base_asks_for_the_whole_history(autojump_clock, count, digest):
    async with open_gateway() as gateway:
        agent = Agent(gateway.server)
        await agent.open()
        assert isinstance(await agent.receive_event(), ConversationOpened)
        await agent.ask("hi", count=count, digest=digest)
        assert await agent.receive_event() == NeedHistory(request_id=1)
        assert gateway.backend.requests == []


async def test_a_failure_is_told_without_any_secret(autojump_clock):
    async with open_gateway() as gateway:
        failure = Failure(kind="bad_request", message=f"sent Bearer {KEY}", http_status=400)
        item = text_message("assistant", "half")
        gateway.backend.answers = [[ResponseItemDone(item=item), SampleError(failure)]]
        agent = Agent(gateway.server)
        await agent.open()
        await agent.ask("hi")
        failed = (await agent.receive_answer())[-1]
        assert failed == SampleFailed(
            request_id=1,
            kind="bad_request",
            message="sent Bearer [redacted]",
            http_status=400,
        )


async def test_cancelling_ends_the_request_and_says_nothing_more(autojump_clock):
    async with open_gateway() as gateway:
        gateway.backend.answers = [
            [RequestWaiting(reason="busy", delay_s=9.0), math.inf],
            [ResponseFinished()],
        ]
        agent = Agent(gateway.server)
        await agent.open()
        digest = await agent.ask("hi")
        assert isinstance(await agent.receive_event(), ConversationOpened)
        assert await agent.receive_event() == SampleWaiting(
            request_id=1, reason="busy", delay_s=9.0
        )
        await agent.send(CancelSample(request_id=1))
        await agent.ask(count=1, digest=digest)
        assert await agent.receive_event() == SampleCompleted(request_id=2)
        assert sorted(gateway.backend.ended) == [1, 2]


async def test_a_new_life_of_an_agent_ends_what_the_old_one_asked(autojump_clock):
    async with open_gateway() as gateway:
        gateway.backend.answers = [[math.inf], [ResponseFinished()]]
        old = Agent(gateway.server, epoch=1)
        await old.open()
        await old.ask("hi")
        await trio.sleep(1)
        assert gateway.sessions.is_busy
        new = Agent(gateway.server, epoch=2)
        await new.open()
        assert isinstance(await new.receive_event(), ConversationOpened)
        await trio.testing.wait_all_tasks_blocked()  # the cancelled request unwinds beside it
        assert gateway.backend.ended == [1]
        assert not gateway.sessions.is_busy
        await new.ask("hi")
        assert await new.receive_event() == SampleCompleted(request_id=1)


async def test_an_old_life_cannot_come_back_beside_the_new_one(autojump_clock):
    async with open_gateway() as gateway:
        new = Agent(gateway.server, epoch=2)
        await new.open()
        await new.receive_event()
        old = Agent(gateway.server, epoch=1)
        await old.open()
        await trio.sleep(1)
        assert gateway.sessions.refusals == 1


async def test_messages_that_make_no_sense_are_counted_and_dropped(autojump_clock):
    async with open_gateway() as gateway:
        gateway.backend.answers = [[ResponseFinished()]]
        agent = Agent(gateway.server)
        await agent.open()
        await agent.mailbox.post(b"\xc1 nonsense")
        await agent.ask("hi")
        assert isinstance(await agent.receive_event(), ConversationOpened)
        assert await agent.receive_event() == SampleCompleted(request_id=1)
        assert gateway.sessions.refusals == 1


async def test_an_item_that_cannot_be_read_fails_the_request_alone(autojump_clock):
    async with open_gateway() as gateway:
        gateway.backend.answers = [[ResponseFinished()]]
        agent = Agent(gateway.server)
        await agent.open()
        await agent.receive_event()
        bad = msgspec.Raw(msgspec.msgpack.encode({"type": "martian"}))
        await agent.send(SampleRequest(request_id=9, turn_id="t", instructions="", items=(bad,)))
        failed = await agent.receive_event()
        assert (failed.request_id, failed.kind) == (9, "bad_request")
        await agent.ask("hi")
        assert await agent.receive_event() == SampleCompleted(request_id=1)


async def test_an_unknown_local_model_is_refused_with_a_way_out(autojump_clock):
    model = msgspec.structs.replace(MODEL, wire="local", slug="smollm2")
    async with open_gateway(model) as gateway:
        agent = Agent(gateway.server)
        await agent.open(model="other")
        refused = await agent.receive_event()
        assert isinstance(refused, ConversationRefused)
        assert "-m other" in refused.message


async def test_a_conversation_that_rested_long_is_asked_for_again(autojump_clock):
    async with open_gateway() as gateway:
        gateway.backend.answers = [[ResponseFinished()]]
        agent = Agent(gateway.server)
        await agent.open()
        digest = await agent.ask("hi")
        await agent.receive_answer()
        await trio.sleep(800)
        await agent.ask("more", count=1, digest=digest)
        assert await agent.receive_event() == NeedHistory(request_id=2)


async def test_peers_that_never_prove_themselves_push_each_other_out(autojump_clock):
    async with open_gateway() as gateway:
        await trio.testing.wait_all_tasks_blocked()
        dismissed = []
        gateway.server.dismiss = dismissed.append
        for number in range(300):
            assert gateway.sessions.accept(f"a/x{number}/1".encode()) == 1
        assert dismissed == [f"a/x{number}/1".encode() for number in range(300 - 256)]


@pytest.mark.parametrize(("wire", "second"), [("responses", 1), ("scripted", 2)])
async def test_only_who_is_found_by_number_is_counted_beyond_its_end(wire, second, autojump_clock):
    async with open_gateway(msgspec.structs.replace(MODEL, wire=wire)) as gateway:
        for epoch in (1, 2):
            gateway.backend.answers.append([ResponseFinished(usage=USAGE)])
            agent = Agent(gateway.server, epoch=epoch)
            await agent.open()
            await agent.receive_event()
            await agent.ask("hello")
            await agent.receive_answer()
            gateway.sessions.forget_agent("a1", epoch)
        assert [request.ordinal for request in gateway.backend.requests] == [1, second]


async def test_a_late_word_of_an_ended_life_does_not_end_its_next_one(autojump_clock):
    async with open_gateway() as gateway:
        gateway.backend.answers = [[ResponseFinished(usage=USAGE)]]
        old, new = (Agent(gateway.server, epoch=epoch) for epoch in (1, 2))
        for agent in (old, new):
            await agent.open()
            await agent.receive_event()
        gateway.sessions.forget_agent("a1", 1)
        await new.ask("hello")
        with trio.fail_after(60):
            assert await new.receive_answer() == [SampleCompleted(request_id=1, usage=USAGE)]

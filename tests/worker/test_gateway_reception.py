"""Who is let in, what is remembered, what is cancelled: agents against the gateway, in memory."""

import math
from contextlib import asynccontextmanager

import msgspec
import pytest
import trio
import trio.testing

from swarm.mailbox.pair import open_pair_office
from swarm.mailbox.proof import make_proof
from swarm.mailbox.protocol.gateway import Drew, decode_gateway_event
from swarm.mailbox.protocol.items import TokenUsage, encode_item, text_message
from swarm.mailbox.protocol.sampling import (
    CancelSample,
    ConversationOpened,
    ConversationRefused,
    ModelInfo,
    NeedHistory,
    OpenConversation,
    ReasoningDelta,
    SampleAlive,
    SampleCompleted,
    SampleFailed,
    SampleItemDone,
    SampleRequest,
    SampleWaiting,
    TextDelta,
    chain_digest,
    decode_sample_event,
    encode_sample_op,
)
from swarm.mailbox.protocol.spec import GatewaySpec, ProviderSpec
from swarm.mailbox.redact import Redactor
from swarm.worker.gateway.backend import (
    Failure,
    Finished,
    Held,
    ItemDone,
    ReasoningPiece,
    SampleError,
    TextPiece,
)
from swarm.worker.gateway.catalogue import load_catalogue
from swarm.worker.gateway.conversations import Conversation
from swarm.worker.gateway.grants import Grants
from swarm.worker.gateway.house import House
from swarm.worker.gateway.reception import Reception
from swarm.worker.gateway.select import Choice

RUN_KEY = b"k" * 32
KEY = "sk-secret-0123456789abcdef"
MODEL = ModelInfo(
    slug="m", provider="p", wire="scripted", input_usd_per_million=2.0, output_usd_per_million=8.0
)
USAGE = TokenUsage(input_tokens=1000, output_tokens=500, total_tokens=1500)


class Told:
    """A backend that says the events it was given, and remembers what it was asked."""

    def __init__(self):
        self.requests = []
        self.answers = []  # lists of events, seconds and exceptions
        self.ended = []

    async def sample(self, request):
        self.requests.append(request)
        try:
            for step in self.answers.pop(0):
                if isinstance(step, Exception):
                    raise step
                if isinstance(step, float):
                    await trio.sleep(step)
                else:
                    yield step
        finally:
            self.ended.append(request.ordinal)


class Agent:
    """An agent's end, with its own idea of the history."""

    def __init__(self, office, agent_id="a1", epoch=1):
        self.identity = f"a/{agent_id}/{epoch}".encode()
        office.admit(self.identity, epoch=epoch)
        self.mailbox = office.connect(self.identity, epoch=epoch)
        self.agent_id, self.numbers, self.beats = agent_id, 0, 0

    async def send(self, op):
        await self.mailbox.post(encode_sample_op(op))

    async def open(self, *, token=None, model=None):
        token = token or make_proof(RUN_KEY, self.identity, purpose="gateway")
        path = f"/root/{self.agent_id}"
        await self.send(
            OpenConversation(token=token, agent_id=self.agent_id, agent_path=path, model=model)
        )

    async def ask(self, *texts, count=0, digest=b""):
        self.numbers += 1
        items = tuple(msgspec.Raw(encode_item(text_message("user", text))) for text in texts)
        await self.send(
            SampleRequest(
                request_id=self.numbers,
                turn_id="t",
                instructions="i",
                items=items,
                base_count=count,
                base_digest=digest,
            )
        )
        for item in items:
            digest = chain_digest(digest, bytes(item))
        return digest

    async def hear(self):
        while True:
            letter = await self.mailbox.receive()
            self.mailbox.handled(letter)
            event = decode_sample_event(letter.body)
            if not isinstance(event, SampleAlive):
                return event
            self.beats += 1

    async def hear_answer(self):
        events = []
        while not events or not isinstance(events[-1], SampleCompleted | SampleFailed):
            events.append(await self.hear())
        return events


class Floor:
    """All that a test needs."""

    def __init__(self, office, supervisor_office, reception, told):
        self.office, self.supervisor = office, supervisor_office
        self.reception, self.told = reception, told


@asynccontextmanager
async def open_floor(model=MODEL):
    told = Told()
    provider = ProviderSpec(id="p", name="P", wire_api=model.wire)
    choice = Choice(provider=provider, model=model, why="")
    house = House(choice, told, load_catalogue())
    spec = GatewaySpec(
        run_id="r",
        epoch=1,
        endpoint="",
        identity=b"g/1",
        secret=b"",
        bind="",
        run_key=RUN_KEY,
        blobs_dir="/nowhere",
        models_dir="/nowhere",
        providers=(),
    )
    async with open_pair_office() as office, open_pair_office() as above:
        above.admit(b"g/1", epoch=1)
        mailbox = above.connect(b"g/1", epoch=1)
        reception = Reception(house, spec, mailbox, Redactor([KEY]))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(reception.serve, office)
            yield Floor(office, above, reception, told)
            nursery.cancel_scope.cancel()


async def test_an_agent_opens_asks_and_hears_its_answer_in_order(autojump_clock):
    async with open_floor() as floor:
        item = text_message("assistant", "hello")
        floor.told.answers = [
            [TextPiece(item_id="x", text="hel"), ItemDone(item=item), Finished(usage=USAGE)]
        ]
        agent = Agent(floor.office)
        await agent.open()
        assert await agent.hear() == ConversationOpened(model=MODEL)
        await agent.ask("hi")
        assert await agent.hear_answer() == [
            TextDelta(request_id=1, item_id="x", delta="hel"),
            SampleItemDone(request_id=1, item=item),
            SampleCompleted(request_id=1, usage=USAGE),
        ]
        letter = await floor.supervisor.receive()
        assert decode_gateway_event(letter.body) == Drew(
            agent_id="a1", provider="p", model="m", usage=USAGE, usd=0.006
        )


async def test_a_peer_without_the_right_token_is_dismissed_and_counted(autojump_clock):
    async with open_floor() as floor:
        agent = Agent(floor.office)
        await agent.open(token=b"wrong")
        await agent.ask("hi")
        with trio.move_on_after(30):
            await agent.hear()
            pytest.fail("a stranger was answered")
        assert floor.reception.refusals == 1
        assert floor.told.requests == []
        assert floor.reception.accept(agent.identity) is None


async def test_a_token_of_another_agent_opens_nothing(autojump_clock):
    async with open_floor() as floor:
        agent = Agent(floor.office, "a1")
        await agent.open(token=make_proof(RUN_KEY, b"a/a2/1", purpose="gateway"))
        await trio.sleep(1)
        assert floor.reception.refusals == 1


@pytest.mark.parametrize(
    ("peer", "epoch"),
    [(b"a/x/1", 1), (b"a/x/12", 12), (b"a/x/0", None), (b"g/1", None), (b"a//1", None)],
)
async def test_only_names_of_agents_are_heard_at_all(autojump_clock, peer, epoch):
    async with open_floor() as floor:
        assert floor.reception.accept(peer) == epoch


async def test_only_new_items_travel_and_the_gateway_joins_them(autojump_clock):
    async with open_floor() as floor:
        floor.told.answers = [[Finished()], [Finished()]]
        agent = Agent(floor.office)
        await agent.open()
        digest = await agent.ask("one", "two")
        assert (await agent.hear_answer())[-1] == SampleCompleted(request_id=1)
        await agent.ask("three", count=2, digest=digest)
        await agent.hear_answer()
        texts = [item.content[0].text for item in floor.told.requests[1].items]
        assert texts == ["one", "two", "three"]


async def test_an_earlier_state_of_the_history_is_gone_back_to(autojump_clock):
    async with open_floor() as floor:
        floor.told.answers = [[Finished()], [Finished()]]
        agent = Agent(floor.office)
        await agent.open()
        await agent.ask("one", "two")
        await agent.hear_answer()
        first = chain_digest(b"", encode_item(text_message("user", "one")))
        await agent.ask("other", count=1, digest=first)
        await agent.hear_answer()
        texts = [item.content[0].text for item in floor.told.requests[1].items]
        assert texts == ["one", "other"]


@pytest.mark.parametrize(("count", "digest"), [(2, b"x" * 16), (7, b""), (-1, b"")])
async def test_an_unknown_base_asks_for_the_whole_history(autojump_clock, count, digest):
    async with open_floor() as floor:
        agent = Agent(floor.office)
        await agent.open()
        assert isinstance(await agent.hear(), ConversationOpened)
        await agent.ask("hi", count=count, digest=digest)
        assert await agent.hear() == NeedHistory(request_id=1)
        assert floor.told.requests == []


async def test_a_failure_is_told_without_any_secret(autojump_clock):
    async with open_floor() as floor:
        failure = Failure(kind="bad_request", message=f"sent Bearer {KEY}", http_status=400)
        item = text_message("assistant", "half")
        floor.told.answers = [[ItemDone(item=item), SampleError(failure)]]
        agent = Agent(floor.office)
        await agent.open()
        await agent.ask("hi")
        failed = (await agent.hear_answer())[-1]
        assert failed == SampleFailed(
            request_id=1,
            kind="bad_request",
            message="sent Bearer [redacted]",
            http_status=400,
            items_done=1,
        )


async def test_cancelling_ends_the_request_and_says_nothing_more(autojump_clock):
    async with open_floor() as floor:
        floor.told.answers = [[Held(reason="busy", delay_s=9.0), math.inf], [Finished()]]
        agent = Agent(floor.office)
        await agent.open()
        digest = await agent.ask("hi")
        assert isinstance(await agent.hear(), ConversationOpened)
        assert await agent.hear() == SampleWaiting(request_id=1, reason="busy", delay_s=9.0)
        await agent.send(CancelSample(request_id=1))
        await agent.ask(count=1, digest=digest)
        assert await agent.hear() == SampleCompleted(request_id=2)
        assert sorted(floor.told.ended) == [1, 2]


async def test_a_new_life_of_an_agent_ends_what_the_old_one_asked(autojump_clock):
    async with open_floor() as floor:
        floor.told.answers = [[math.inf], [Finished()]]
        old = Agent(floor.office, epoch=1)
        await old.open()
        await old.ask("hi")
        await trio.sleep(1)
        assert floor.reception.is_busy
        new = Agent(floor.office, epoch=2)
        await new.open()
        assert isinstance(await new.hear(), ConversationOpened)
        await trio.testing.wait_all_tasks_blocked()  # the cancelled request unwinds beside it
        assert floor.told.ended == [1]
        assert not floor.reception.is_busy
        await new.ask("hi")
        assert await new.hear() == SampleCompleted(request_id=1)


async def test_an_old_life_cannot_come_back_beside_the_new_one(autojump_clock):
    async with open_floor() as floor:
        new = Agent(floor.office, epoch=2)
        await new.open()
        await new.hear()
        old = Agent(floor.office, epoch=1)
        await old.open()
        await trio.sleep(1)
        assert floor.reception.refusals == 1


async def test_letters_that_make_no_sense_are_counted_and_dropped(autojump_clock):
    async with open_floor() as floor:
        floor.told.answers = [[Finished()]]
        agent = Agent(floor.office)
        await agent.open()
        await agent.mailbox.post(b"\xc1 nonsense")
        await agent.ask("hi")
        assert isinstance(await agent.hear(), ConversationOpened)
        assert await agent.hear() == SampleCompleted(request_id=1)
        assert floor.reception.refusals == 1


async def test_an_item_that_cannot_be_read_fails_the_request_alone(autojump_clock):
    async with open_floor() as floor:
        floor.told.answers = [[Finished()]]
        agent = Agent(floor.office)
        await agent.open()
        await agent.hear()
        bad = msgspec.Raw(msgspec.msgpack.encode({"type": "martian"}))
        await agent.send(SampleRequest(request_id=9, turn_id="t", instructions="", items=(bad,)))
        failed = await agent.hear()
        assert (failed.request_id, failed.kind) == (9, "bad_request")
        await agent.ask("hi")
        assert await agent.hear() == SampleCompleted(request_id=1)


async def test_an_unknown_local_model_is_refused_with_a_way_out(autojump_clock):
    model = msgspec.structs.replace(MODEL, wire="local", slug="smollm2")
    async with open_floor(model) as floor:
        agent = Agent(floor.office)
        await agent.open(model="other")
        refused = await agent.hear()
        assert isinstance(refused, ConversationRefused)
        assert "-m other" in refused.message


async def test_a_conversation_that_rested_long_is_asked_for_again(autojump_clock):
    async with open_floor() as floor:
        floor.told.answers = [[Finished()]]
        agent = Agent(floor.office)
        await agent.open()
        digest = await agent.ask("hi")
        await agent.hear_answer()
        await trio.sleep(800)
        await agent.ask("more", count=1, digest=digest)
        assert await agent.hear() == NeedHistory(request_id=2)


async def test_peers_that_never_prove_themselves_push_each_other_out(autojump_clock):
    async with open_floor() as floor:
        await trio.testing.wait_all_tasks_blocked()
        dismissed = []
        floor.office.dismiss = dismissed.append
        for number in range(300):
            assert floor.reception.accept(f"a/x{number}/1".encode()) == 1
        assert dismissed == [f"a/x{number}/1".encode() for number in range(300 - 256)]


@pytest.mark.parametrize(("wire", "second"), [("responses", 1), ("local", 2)])
async def test_only_who_is_found_by_number_is_counted_beyond_its_end(wire, second, autojump_clock):
    async with open_floor(msgspec.structs.replace(MODEL, wire=wire)) as floor:
        for epoch in (1, 2):
            floor.told.answers.append([Finished(usage=USAGE)])
            agent = Agent(floor.office, epoch=epoch)
            await agent.open()
            await agent.hear()
            await agent.ask("hello")
            await agent.hear_answer()
            floor.reception.forget_agent("a1", epoch)
        assert [request.ordinal for request in floor.told.requests] == [1, second]


STAGES = ("accept", "render", "grant", "backend", "middle", "forward", "bill")


def throw(*_args, **_kwargs):
    raise RuntimeError(f"a bug that quotes {KEY}")


@pytest.mark.parametrize("stage", STAGES)
async def test_whatever_is_thrown_ends_its_own_request_and_no_other(
    stage, autojump_clock, monkeypatch, caplog
):
    async with open_floor() as floor:
        healthy, unlucky = Agent(floor.office, "a1"), Agent(floor.office, "a2")
        middle = [TextPiece(item_id="x", text="he"), ValueError(KEY)]
        odd = [TextPiece(item_id="x", text="\ud83d"), Finished()]
        done = [Finished(usage=USAGE)]
        floor.told.answers = [
            [5.0, Finished()],
            {"backend": [ExceptionGroup("g", [KeyError(KEY)])], "middle": middle}.get(
                stage, odd if stage == "forward" else done
            ),
            [Finished()],
        ]
        for agent in (healthy, unlucky):
            await agent.open()
            assert isinstance(await agent.hear(), ConversationOpened)
        await healthy.ask("long")
        await trio.testing.wait_all_tasks_blocked()
        where = {
            "accept": (Conversation, "accept"),
            "render": (Conversation, "render"),
            "grant": (Grants, "open"),
            "bill": (Grants, "bill"),
        }
        if stage in where:
            monkeypatch.setattr(*where[stage], throw)
        await unlucky.ask("hi")
        failed = (await unlucky.hear_answer())[-1]
        assert (failed.request_id, failed.kind, failed.retryable) == (1, "internal", False)
        assert "bug" in failed.message
        monkeypatch.undo()
        assert await healthy.hear() == SampleCompleted(request_id=1)
        if stage in {"accept", "render", "grant"}:
            floor.told.answers = [[Finished()]]
        await unlucky.ask("again")
        assert await unlucky.hear() == SampleCompleted(request_id=2)
        assert KEY not in failed.message and KEY not in caplog.text


@pytest.mark.parametrize("where", ["model_for", "new_store"])
async def test_a_conversation_that_cannot_be_opened_is_refused_and_others_go_on(
    where, autojump_clock, monkeypatch
):
    async with open_floor() as floor:
        monkeypatch.setattr(House, where, throw)
        unlucky = Agent(floor.office, "a1")
        await unlucky.open()
        refused = await unlucky.hear()
        assert isinstance(refused, ConversationRefused) and KEY not in refused.message
        monkeypatch.undo()
        healthy = Agent(floor.office, "a2")
        await healthy.open()
        assert isinstance(await healthy.hear(), ConversationOpened)


async def test_a_delta_over_a_frame_arrives_in_pieces(autojump_clock):
    async with open_floor() as floor:
        text = "ä😀" * (1 << 20)
        floor.told.answers = [
            [TextPiece(item_id="x", text=text), ReasoningPiece(item_id="y", text=text), Finished()]
        ]
        agent = Agent(floor.office)
        await agent.open()
        await agent.hear()
        await agent.ask("hi")
        events = await agent.hear_answer()
        for kind in (TextDelta, ReasoningDelta):
            assert "".join(one.delta for one in events if isinstance(one, kind)) == text
        assert len(events) > 16


async def test_an_item_over_the_bound_fails_its_request_with_a_plain_reason(autojump_clock):
    async with open_floor() as floor:
        large = text_message("assistant", "x" * (17 << 20))
        floor.told.answers = [[ItemDone(item=large), Finished()], [Finished()]]
        agent = Agent(floor.office)
        await agent.open()
        await agent.hear()
        digest = await agent.ask("hi")
        failed = await agent.hear()
        assert (failed.kind, failed.retryable, failed.items_done) == ("bad_response", False, 0)
        assert "8,388,608" in failed.message
        await agent.ask("more", count=1, digest=digest)
        assert await agent.hear() == SampleCompleted(request_id=2)


async def test_a_reason_of_any_length_is_told_short(autojump_clock):
    async with open_floor() as floor:
        words = "so it is. " * (1 << 21)
        failure = SampleError(Failure(kind="other", message=words))
        floor.told.answers = [[Held(reason=words, delay_s=1.0), failure]]
        agent = Agent(floor.office)
        await agent.open()
        await agent.hear()
        await agent.ask("hi")
        held, failed = await agent.hear_answer()
        assert len(held.reason) < 5_000 and len(failed.message) < 5_000


async def test_a_request_under_way_gives_signs_of_life_until_it_ends(autojump_clock):
    async with open_floor() as floor:
        floor.told.answers = [[3_600.0, Finished()]]
        agent = Agent(floor.office)
        await agent.open()
        await agent.hear()
        await agent.ask("hi")
        assert await agent.hear() == SampleCompleted(request_id=1)
        assert agent.beats == pytest.approx(3_600 / 5, abs=2)
        with trio.move_on_after(60):
            await agent.hear()
        assert agent.beats == pytest.approx(3_600 / 5, abs=2)


async def test_a_late_word_of_an_ended_life_does_not_end_its_next_one(autojump_clock):
    async with open_floor() as floor:
        floor.told.answers = [[Finished(usage=USAGE)]]
        old, new = (Agent(floor.office, epoch=epoch) for epoch in (1, 2))
        for agent in (old, new):
            await agent.open()
            await agent.hear()
        floor.reception.forget_agent("a1", 1)
        await new.ask("hello")
        with trio.fail_after(60):
            assert await new.hear_answer() == [SampleCompleted(request_id=1, usage=USAGE)]

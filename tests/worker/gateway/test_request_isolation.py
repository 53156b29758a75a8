"""One request's trouble is that request's: what is thrown, too large or slow ends no other."""

import pytest
import trio
import trio.testing

from support.gateway_in_memory import KEY, USAGE, Agent, open_gateway
from swarm.mailbox.protocol.items import text_message
from swarm.mailbox.protocol.sampling import (
    ConversationOpened,
    ConversationRefused,
    ReasoningDelta,
    SampleCompleted,
    SampleWaiting,
    TextDelta,
)
from swarm.worker.gateway.app import GatewayApp
from swarm.worker.gateway.backend import (
    Failure,
    RequestWaiting,
    ResponseFinished,
    ResponseItemDone,
    ResponseReasoningDelta,
    ResponseTextDelta,
    SampleError,
)
from swarm.worker.gateway.budget_reservations import BudgetReservations
from swarm.worker.gateway.conversations import Conversation

STAGES = ("accept", "render", "grant", "backend", "middle", "forward", "bill")


def throw(*_args, **_kwargs):
    raise RuntimeError(f"a bug that quotes {KEY}")


@pytest.mark.parametrize("stage", STAGES)
async def test_whatever_is_thrown_ends_its_own_request_and_no_other(
    stage, autojump_clock, monkeypatch, caplog
):
    async with open_gateway() as gateway:
        healthy, unlucky = Agent(gateway.server, "a1"), Agent(gateway.server, "a2")
        middle = [ResponseTextDelta(item_id="x", text="he"), ValueError(KEY)]
        odd = [ResponseTextDelta(item_id="x", text="\ud83d"), ResponseFinished()]
        done = [ResponseFinished(usage=USAGE)]
        gateway.backend.answers = [
            [5.0, ResponseFinished()],
            {"backend": [ExceptionGroup("g", [KeyError(KEY)])], "middle": middle}.get(
                stage, odd if stage == "forward" else done
            ),
            [ResponseFinished()],
        ]
        for agent in (healthy, unlucky):
            await agent.open()
            assert isinstance(await agent.receive_event(), ConversationOpened)
        await healthy.ask("long")
        await trio.testing.wait_all_tasks_blocked()
        where = {
            "accept": (Conversation, "accept"),
            "render": (Conversation, "render"),
            "grant": (BudgetReservations, "open"),
            "bill": (BudgetReservations, "bill"),
        }
        if stage in where:
            monkeypatch.setattr(*where[stage], throw)
        await unlucky.ask("hi")
        failed = (await unlucky.receive_answer())[-1]
        assert (failed.request_id, failed.kind, failed.retryable) == (1, "internal", False)
        assert "bug" in failed.message
        monkeypatch.undo()
        assert await healthy.receive_event() == SampleCompleted(request_id=1)
        if stage in {"accept", "render", "grant"}:
            gateway.backend.answers = [[ResponseFinished()]]
        await unlucky.ask("again")
        assert await unlucky.receive_event() == SampleCompleted(request_id=2)
        assert KEY not in failed.message and KEY not in caplog.text


@pytest.mark.parametrize("where", ["model_for", "new_store"])
async def test_a_conversation_that_cannot_be_opened_is_refused_and_others_go_on(
    where, autojump_clock, monkeypatch
):
    async with open_gateway() as gateway:
        monkeypatch.setattr(GatewayApp, where, throw)
        unlucky = Agent(gateway.server, "a1")
        await unlucky.open()
        refused = await unlucky.receive_event()
        assert isinstance(refused, ConversationRefused) and KEY not in refused.message
        monkeypatch.undo()
        healthy = Agent(gateway.server, "a2")
        await healthy.open()
        assert isinstance(await healthy.receive_event(), ConversationOpened)


async def test_a_delta_over_a_frame_arrives_in_pieces(autojump_clock):
    async with open_gateway() as gateway:
        text = "ä😀" * (1 << 20)
        gateway.backend.answers = [
            [
                ResponseTextDelta(item_id="x", text=text),
                ResponseReasoningDelta(item_id="y", text=text),
                ResponseFinished(),
            ]
        ]
        agent = Agent(gateway.server)
        await agent.open()
        await agent.receive_event()
        await agent.ask("hi")
        events = await agent.receive_answer()
        for kind in (TextDelta, ReasoningDelta):
            assert "".join(one.delta for one in events if isinstance(one, kind)) == text
        assert len(events) > 16


async def test_an_item_over_the_bound_fails_its_request_with_a_plain_reason(autojump_clock):
    async with open_gateway() as gateway:
        large = text_message("assistant", "x" * (17 << 20))
        gateway.backend.answers = [
            [ResponseItemDone(item=large), ResponseFinished()],
            [ResponseFinished()],
        ]
        agent = Agent(gateway.server)
        await agent.open()
        await agent.receive_event()
        digest = await agent.ask("hi")
        failed = await agent.receive_event()
        assert (failed.kind, failed.retryable) == ("bad_response", False)
        assert "8,388,608" in failed.message
        await agent.ask("more", count=1, digest=digest)
        assert await agent.receive_event() == SampleCompleted(request_id=2)


async def test_a_reason_of_any_length_is_told_short(autojump_clock):
    async with open_gateway() as gateway:
        words = "so it is. " * (1 << 21)
        failure = SampleError(Failure(kind="other", message=words))
        gateway.backend.answers = [[RequestWaiting(reason=words, delay_s=1.0), failure]]
        agent = Agent(gateway.server)
        await agent.open()
        await agent.receive_event()
        await agent.ask("hi")
        held, failed = await agent.receive_answer()
        assert len(held.reason) < 5_000 and len(failed.message) < 5_000


async def test_a_request_under_way_gives_signs_of_life_until_it_ends(autojump_clock):
    async with open_gateway() as gateway:
        gateway.backend.answers = [[3_600.0, ResponseFinished()]]
        agent = Agent(gateway.server)
        await agent.open()
        await agent.receive_event()
        await agent.ask("hi")
        while isinstance(event := await agent.receive_event(), SampleWaiting):
            pass
        assert event == SampleCompleted(request_id=1)
        assert agent.beats == pytest.approx(3_600 / 5, abs=2)
        with trio.move_on_after(60):
            await agent.receive_event()
        assert agent.beats == pytest.approx(3_600 / 5, abs=2)

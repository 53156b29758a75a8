"""One request's trouble is that request's: what is thrown, too large or slow ends no other."""

import pytest
import trio
import trio.testing

from support.gateway_in_memory import KEY, USAGE, Agent, open_floor
from swarm.mailbox.protocol.items import text_message
from swarm.mailbox.protocol.sampling import (
    ConversationOpened,
    ConversationRefused,
    ReasoningDelta,
    SampleCompleted,
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
    async with open_floor() as floor:
        healthy, unlucky = Agent(floor.office, "a1"), Agent(floor.office, "a2")
        middle = [ResponseTextDelta(item_id="x", text="he"), ValueError(KEY)]
        odd = [ResponseTextDelta(item_id="x", text="\ud83d"), ResponseFinished()]
        done = [ResponseFinished(usage=USAGE)]
        floor.told.answers = [
            [5.0, ResponseFinished()],
            {"backend": [ExceptionGroup("g", [KeyError(KEY)])], "middle": middle}.get(
                stage, odd if stage == "forward" else done
            ),
            [ResponseFinished()],
        ]
        for agent in (healthy, unlucky):
            await agent.open()
            assert isinstance(await agent.hear(), ConversationOpened)
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
        failed = (await unlucky.hear_answer())[-1]
        assert (failed.request_id, failed.kind, failed.retryable) == (1, "internal", False)
        assert "bug" in failed.message
        monkeypatch.undo()
        assert await healthy.hear() == SampleCompleted(request_id=1)
        if stage in {"accept", "render", "grant"}:
            floor.told.answers = [[ResponseFinished()]]
        await unlucky.ask("again")
        assert await unlucky.hear() == SampleCompleted(request_id=2)
        assert KEY not in failed.message and KEY not in caplog.text


@pytest.mark.parametrize("where", ["model_for", "new_store"])
async def test_a_conversation_that_cannot_be_opened_is_refused_and_others_go_on(
    where, autojump_clock, monkeypatch
):
    async with open_floor() as floor:
        monkeypatch.setattr(GatewayApp, where, throw)
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
            [
                ResponseTextDelta(item_id="x", text=text),
                ResponseReasoningDelta(item_id="y", text=text),
                ResponseFinished(),
            ]
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
        floor.told.answers = [
            [ResponseItemDone(item=large), ResponseFinished()],
            [ResponseFinished()],
        ]
        agent = Agent(floor.office)
        await agent.open()
        await agent.hear()
        digest = await agent.ask("hi")
        failed = await agent.hear()
        assert (failed.kind, failed.retryable) == ("bad_response", False)
        assert "8,388,608" in failed.message
        await agent.ask("more", count=1, digest=digest)
        assert await agent.hear() == SampleCompleted(request_id=2)


async def test_a_reason_of_any_length_is_told_short(autojump_clock):
    async with open_floor() as floor:
        words = "so it is. " * (1 << 21)
        failure = SampleError(Failure(kind="other", message=words))
        floor.told.answers = [[RequestWaiting(reason=words, delay_s=1.0), failure]]
        agent = Agent(floor.office)
        await agent.open()
        await agent.hear()
        await agent.ask("hi")
        held, failed = await agent.hear_answer()
        assert len(held.reason) < 5_000 and len(failed.message) < 5_000


async def test_a_request_under_way_gives_signs_of_life_until_it_ends(autojump_clock):
    async with open_floor() as floor:
        floor.told.answers = [[3_600.0, ResponseFinished()]]
        agent = Agent(floor.office)
        await agent.open()
        await agent.hear()
        await agent.ask("hi")
        assert await agent.hear() == SampleCompleted(request_id=1)
        assert agent.beats == pytest.approx(3_600 / 5, abs=2)
        with trio.move_on_after(60):
            await agent.hear()
        assert agent.beats == pytest.approx(3_600 / 5, abs=2)

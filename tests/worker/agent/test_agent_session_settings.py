"""A living agent is told to work in another way, to wait, to go on."""

import msgspec
import trio

from swarm.mailbox.protocol.events import (
    CallBegan,
    TurnAborted,
    TurnCompleted,
    TurnStarted,
    Waiting,
)
from swarm.mailbox.protocol.items import FunctionCall, text_message
from swarm.mailbox.protocol.ops import ApplySettings, Continue, Interrupt, Pause
from swarm.mailbox.protocol.sampling import ModelInfo
from swarm.mailbox.protocol.settings import AgentSettings
from swarm.mailbox.protocol.values.limits import Limits, ReadOnly, WorkspaceWrite
from swarm.worker.agent.turn.pause import PAUSED
from swarm.worker.testing.agent_harness import END, done, open_agent_harness
from swarm.worker.testing.fake_tools import FAKE_AGENT_SPEC, FakeTool, FakeToolBehavior

FINAL = (done(text_message("assistant", "done")), END)
CALL = (done(FunctionCall(call_id="c", name="work", arguments="{}")), END)
SPEC = msgspec.structs.replace(FAKE_AGENT_SPEC, limits=Limits(sandbox=WorkspaceWrite()))
NARROW = AgentSettings(
    effort="high", summary="none", verbosity="low", limits=Limits(sandbox=ReadOnly()), cwd="/w/b"
)


def parts(item):
    return [part.text for part in item.content]


async def test_settings_hold_from_the_next_turn_on_and_the_model_is_told(autojump_clock):
    tools = [FakeTool("work", FakeToolBehavior(seconds=3))]
    async with open_agent_harness(SPEC, [CALL, FINAL, FINAL], tools=tools) as play:
        await play.supervisor.send_text("go")
        await play.supervisor.wait_for(CallBegan)
        await play.supervisor.send_op(ApplySettings(settings=NARROW))
        await play.supervisor.wait_turns()
        await play.supervisor.send_text("more", input_id="turn-2")
        await play.supervisor.wait_turns(2)
    first, same_turn, next_turn = play.gateway.requests
    assert (first.effort, same_turn.effort) == (None, None)
    assert (next_turn.effort, next_turn.summary, next_turn.verbosity) == ("high", "none", "low")
    assert play.supervisor.events_of(TurnStarted)[1].effort == "high"
    assert play.current.spec.cwd == "/w/b"
    told = play.supervisor.items("context")[2:]
    assert "read-only" in parts(told[0])[0]
    assert "<cwd>/w/b</cwd>" in parts(told[1])[0]
    before, after = play.gateway.inputs[1:]
    assert after[: len(before)] == before  # appended, never edited


async def test_settings_of_an_idle_agent_hold_for_its_first_turn(autojump_clock):
    async with open_agent_harness(SPEC, [FINAL]) as play:
        await play.supervisor.send_op(ApplySettings(settings=NARROW))
        await play.supervisor.send_op(
            ApplySettings(settings=msgspec.structs.replace(NARROW, effort="low"))
        )
        await play.supervisor.send_text("go")
        await play.supervisor.wait_turns()
    assert play.gateway.requests[0].effort == "low"
    assert len(play.supervisor.items("context")) == 2


async def test_another_model_is_asked_with_the_whole_history(autojump_clock):
    async with open_agent_harness(SPEC, [FINAL, FINAL]) as play:
        await play.supervisor.send_text("go")
        await play.supervisor.wait_turns()
        play.gateway.model = MODEL_B
        await play.supervisor.send_op(
            ApplySettings(settings=AgentSettings(model="b", limits=SPEC.limits))
        )
        await play.supervisor.send_text("more", input_id="turn-2")
        await play.supervisor.wait_turns(2)
    assert [opening.model for opening in play.gateway.opened] == [None, "b"]
    assert play.supervisor.events_of(TurnStarted)[1].model == MODEL_B
    last = play.gateway.requests[-1]
    assert last.base_count == 0
    assert play.gateway.inputs[1][: len(play.gateway.inputs[0])] == play.gateway.inputs[0]


MODEL_B = ModelInfo(slug="b", provider="rehearsal", wire="scripted")


async def test_a_model_that_is_not_there_fails_the_turn_and_another_one_mends_it(autojump_clock):
    async with open_agent_harness(SPEC, [FINAL, FINAL]) as play:
        play.gateway.refuse = "no such model"
        await play.supervisor.send_op(
            ApplySettings(settings=AgentSettings(model="b", limits=SPEC.limits))
        )
        await play.supervisor.send_text("go")
        failed = await play.supervisor.wait_turns()
        play.gateway.refuse = None
        await play.supervisor.send_op(ApplySettings(settings=AgentSettings(limits=SPEC.limits)))
        await play.supervisor.send_text("more", input_id="turn-2")
        assert isinstance(await play.supervisor.wait_turns(2), TurnCompleted)
    assert (failed.kind, failed.message) == ("no_provider", "no such model")


async def test_a_paused_agent_makes_no_request_and_what_runs_comes_to_its_end(autojump_clock):
    tools = [FakeTool("work", FakeToolBehavior(seconds=3))]
    async with open_agent_harness(SPEC, [CALL, FINAL], tools=tools) as play:
        await play.supervisor.send_text("go")
        await play.supervisor.wait_for(CallBegan)
        await play.supervisor.send_op(Pause())
        await play.supervisor.send_text("and this", input_id="words")
        await trio.sleep(1000)
        assert len(play.gateway.requests) == 1
        assert len(play.supervisor.items("tool")) == 1
        assert {one.reason for one in play.supervisor.events_of(Waiting)} == {PAUSED}
        await play.supervisor.send_op(Continue())
        assert isinstance(await play.supervisor.wait_turns(), TurnCompleted)
    assert play.gateway.inputs[1][-1] == text_message("user", "and this")


async def test_a_paused_turn_can_be_interrupted(autojump_clock):
    async with open_agent_harness(SPEC, [FINAL]) as play:
        await play.supervisor.send_op(Pause())
        await play.supervisor.send_text("go")
        await trio.sleep(10)
        await play.supervisor.send_op(Interrupt())
        assert isinstance(await play.supervisor.wait_turns(), TurnAborted)
    assert play.gateway.requests == []


async def test_a_life_that_begins_paused_waits(autojump_clock):
    spec = msgspec.structs.replace(SPEC, paused=True)
    async with open_agent_harness(spec, [FINAL]) as play:
        await play.supervisor.send_text("go")
        await trio.sleep(100)
        assert play.gateway.requests == []
        await play.supervisor.send_op(Continue())
        assert isinstance(await play.supervisor.wait_turns(), TurnCompleted)

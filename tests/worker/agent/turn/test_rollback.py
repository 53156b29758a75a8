"""Turns that a person takes back: the agent's next request is as if they had never been."""

import msgspec
import trio

from swarm.mailbox.protocol.events import CallBegan, ContextReplaced, Warned
from swarm.mailbox.protocol.items import FunctionCall, encode_item, text_message
from swarm.mailbox.protocol.ops import RollBackTurns
from swarm.worker.testing.agent_harness import END, done, open_agent_harness
from swarm.worker.testing.fake_tools import FAKE_AGENT_SPEC, FakeTool, FakeToolBehavior

FINAL = (done(text_message("assistant", "done")), END)
CALLING = (done(FunctionCall(call_id="c", name="slow", arguments="{}")), END)


def raw(items):
    return tuple(msgspec.Raw(encode_item(item)) for item in items)


async def test_the_next_turn_stands_where_the_forgotten_one_stood(autojump_clock):
    slow = FakeTool("slow", FakeToolBehavior(seconds=1))
    async with open_agent_harness(
        FAKE_AGENT_SPEC, [FINAL, CALLING, FINAL, FINAL], tools=[slow]
    ) as play:
        await play.supervisor.send_text("first")
        await play.supervisor.wait_turns()
        kept = play.supervisor.items()
        await play.supervisor.send_text("forget me", input_id="turn-2")
        await play.supervisor.wait_turns(2)
        await play.supervisor.send_op(RollBackTurns(turns=1, items=raw(kept)))
        said = await play.supervisor.wait_for(ContextReplaced)
        await play.supervisor.send_text("second", input_id="turn-3")
        await play.supervisor.wait_turns(3)
        last = play.gateway.inputs[-1]
    assert (said.rolled_back, said.turn_id) == (1, "")
    assert list(last) == [*kept, text_message("user", "second")]


async def test_with_nothing_left_the_model_is_told_everything_again(autojump_clock):
    async with open_agent_harness(FAKE_AGENT_SPEC, [FINAL, FINAL]) as play:
        await play.supervisor.send_text("first")
        await play.supervisor.wait_turns()
        before = play.gateway.inputs[-1]
        await play.supervisor.send_op(RollBackTurns(turns=1, items=()))
        await play.supervisor.send_text("first", input_id="turn-2")
        await play.supervisor.wait_turns(2)
    assert play.gateway.inputs[-1] == before


async def test_while_a_turn_runs_nothing_is_taken_back(autojump_clock):
    slow = FakeTool("slow", FakeToolBehavior(seconds=30))
    async with open_agent_harness(FAKE_AGENT_SPEC, [CALLING, FINAL], tools=[slow]) as play:
        await play.supervisor.send_text("go")
        await play.supervisor.wait_for(CallBegan)
        await play.supervisor.send_op(RollBackTurns(turns=1, items=()))
        warned = await play.supervisor.wait_for(Warned)
        await play.supervisor.wait_turns()
        await trio.sleep(1)
    assert "no turn was taken back" in warned.message
    assert play.supervisor.events_of(ContextReplaced) == []


async def test_a_history_that_was_cut_by_a_crash_is_made_whole(autojump_clock):
    call = FunctionCall(call_id="lost", name="slow", arguments="{}")
    async with open_agent_harness(FAKE_AGENT_SPEC, [FINAL, FINAL]) as play:
        await play.supervisor.send_text("first")
        await play.supervisor.wait_turns()
        await play.supervisor.send_op(
            RollBackTurns(turns=1, items=raw([text_message("user", "x"), call]))
        )
        said = await play.supervisor.wait_for(ContextReplaced)
    assert len(said.items) == 3  # the call has an output now

"""Turns that a person takes back: the agent's next request is as if they had never been."""

import msgspec
import trio

from swarm.mailbox.protocol.events import CallBegan, ContextReplaced, Warned
from swarm.mailbox.protocol.items import FunctionCall, encode_item, text_message
from swarm.mailbox.protocol.ops import TakeBack
from swarm.worker.props import PROP_SPEC, Manner, PropTool
from swarm.worker.rehearsal import END, done, open_rehearsal

FINAL = (done(text_message("assistant", "done")), END)
CALLING = (done(FunctionCall(call_id="c", name="slow", arguments="{}")), END)


def raw(items):
    return tuple(msgspec.Raw(encode_item(item)) for item in items)


async def test_the_next_turn_stands_where_the_forgotten_one_stood(autojump_clock):
    slow = PropTool("slow", Manner(seconds=1))
    async with open_rehearsal(PROP_SPEC, [FINAL, CALLING, FINAL, FINAL], tools=[slow]) as play:
        await play.stage.say("first")
        await play.stage.wait_turns()
        kept = play.stage.items()
        await play.stage.say("forget me", input_id="turn-2")
        await play.stage.wait_turns(2)
        await play.stage.order(TakeBack(turns=1, items=raw(kept)))
        said = await play.stage.wait_for(ContextReplaced)
        await play.stage.say("second", input_id="turn-3")
        await play.stage.wait_turns(3)
        last = play.gateway.inputs[-1]
    assert (said.rolled_back, said.turn_id) == (1, "")
    assert list(last) == [*kept, text_message("user", "second")]


async def test_with_nothing_left_the_model_is_told_everything_again(autojump_clock):
    async with open_rehearsal(PROP_SPEC, [FINAL, FINAL]) as play:
        await play.stage.say("first")
        await play.stage.wait_turns()
        before = play.gateway.inputs[-1]
        await play.stage.order(TakeBack(turns=1, items=()))
        await play.stage.say("first", input_id="turn-2")
        await play.stage.wait_turns(2)
    assert play.gateway.inputs[-1] == before


async def test_while_a_turn_runs_nothing_is_taken_back(autojump_clock):
    slow = PropTool("slow", Manner(seconds=30))
    async with open_rehearsal(PROP_SPEC, [CALLING, FINAL], tools=[slow]) as play:
        await play.stage.say("go")
        await play.stage.wait_for(CallBegan)
        await play.stage.order(TakeBack(turns=1, items=()))
        warned = await play.stage.wait_for(Warned)
        await play.stage.wait_turns()
        await trio.sleep(1)
    assert "no turn was taken back" in warned.message
    assert play.stage.heard(ContextReplaced) == []


async def test_a_history_that_was_cut_by_a_crash_is_made_whole(autojump_clock):
    call = FunctionCall(call_id="lost", name="slow", arguments="{}")
    async with open_rehearsal(PROP_SPEC, [FINAL, FINAL]) as play:
        await play.stage.say("first")
        await play.stage.wait_turns()
        await play.stage.order(TakeBack(turns=1, items=raw([text_message("user", "x"), call])))
        said = await play.stage.wait_for(ContextReplaced)
    assert len(said.items) == 3  # the call has an output now

"""The end of a budget, seen from an agent: a last request without tools, and no other after it."""

import pytest

from swarm.mailbox.protocol.events import CallBegan, ItemCompleted, TurnCompleted, TurnFailed
from swarm.mailbox.protocol.items import FunctionCall, FunctionCallOutput, text_message, text_of
from swarm.mailbox.protocol.ops import Notice
from swarm.worker.testing.agent_harness import END, done, failed, open_agent_harness
from swarm.worker.testing.fake_tools import FAKE_AGENT_SPEC, FakeTool

ANSWER = (done(text_message("assistant", "as far as I got")), END)
CALL = done(FunctionCall(call_id="c", name="look", arguments="{}"))
REFUSED = (failed("refused_budget", message="used up"),)
ONE_MORE = (failed("refused_budget", retryable=True, message="used up"),)


async def test_a_used_up_budget_is_answered_with_one_request_without_tools(autojump_clock):
    tool = FakeTool("look")
    replies = [(CALL, END), ONE_MORE, ANSWER]
    async with open_agent_harness(FAKE_AGENT_SPEC, replies, tools=[tool]) as play:
        await play.supervisor.send_text("look around")
        ending = await play.supervisor.wait_turns()
    assert isinstance(ending, TurnCompleted)
    assert (ending.out_of_budget, ending.last_message) == (True, "as far as I got")
    before, refused, last = play.gateway.requests
    assert len(before.tools) == len(refused.tools) == 1
    assert last.tools == ()
    note = play.gateway.inputs[-1][-1]
    assert note.role == "developer"
    assert "last request" in text_of(note.content)


async def test_a_last_request_that_calls_a_tool_runs_nothing_and_is_over(autojump_clock):
    tool = FakeTool("look")
    replies = [(CALL, END), ONE_MORE, (CALL, END), ANSWER]
    async with open_agent_harness(FAKE_AGENT_SPEC, replies, tools=[tool]) as play:
        await play.supervisor.send_text("look around")
        ending = await play.supervisor.wait_turns()
    assert isinstance(ending, TurnFailed)
    assert ending.kind == "refused_budget"
    assert len(tool.runs) == len(play.supervisor.events_of(CallBegan)) == 1
    outputs = [item for item in play.supervisor.items() if isinstance(item, FunctionCallOutput)]
    assert [output.success for output in outputs] == [True, False]
    assert len(play.gateway.requests) == 3


async def test_a_text_beside_a_last_call_is_the_answer(autojump_clock):
    replies = [ONE_MORE, (done(text_message("assistant", "half of it")), CALL, END)]
    async with open_agent_harness(FAKE_AGENT_SPEC, replies, tools=[FakeTool("look")]) as play:
        await play.supervisor.send_text("look around")
        ending = await play.supervisor.wait_turns()
    assert (ending.out_of_budget, ending.last_message) == (True, "half of it")


@pytest.mark.parametrize("replies", [[REFUSED], [ONE_MORE, REFUSED], [ONE_MORE, ONE_MORE]])
async def test_without_another_grant_the_turn_fails_at_once(autojump_clock, replies):
    async with open_agent_harness(FAKE_AGENT_SPEC, replies) as play:
        await play.supervisor.send_text("look around")
        ending = await play.supervisor.wait_turns()
    assert isinstance(ending, TurnFailed)
    assert (ending.kind, ending.message) == ("refused_budget", "used up")
    assert len(play.gateway.requests) == len(replies)


async def test_a_notice_stands_before_the_next_request_once_and_opens_no_turn(autojump_clock):
    notice = Notice(notice_id="n1", text="little is left")
    async with open_agent_harness(FAKE_AGENT_SPEC, [ANSWER, ANSWER]) as play:
        await play.supervisor.send_op(notice)
        await play.supervisor.send_op(notice)
        assert play.supervisor.events_of(ItemCompleted) == []
        await play.supervisor.send_text("go")
        await play.supervisor.wait_turns()
        await play.supervisor.send_text("again", input_id="turn-2")
        await play.supervisor.wait_turns(2)
    said = [
        item for item in play.gateway.inputs[-1] if item == text_message("developer", notice.text)
    ]
    assert len(said) == 1
    assert said[0] in play.gateway.inputs[0]

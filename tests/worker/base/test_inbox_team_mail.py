"""Letters in a living agent: when they are read, what they start, and what the model sees."""

import json

import pytest
import trio

from support.nested_fields import with_fields
from swarm.mailbox.protocol.events import ItemCompleted, RequestSent, TurnStarted
from swarm.mailbox.protocol.items import (
    FunctionCall,
    Message,
    OutputText,
    Reasoning,
    text_message,
    text_of,
)
from swarm.mailbox.protocol.ops import Answer, Deliver, Interrupt, Mail
from swarm.mailbox.protocol.requests import PreviousStatus, Sent, Spawned, TeamMember, Waited
from swarm.mailbox.protocol.spec import ChildCard
from swarm.worker.testing.agent_harness import END, done, open_agent_harness
from swarm.worker.testing.fake_tools import FAKE_AGENT_SPEC, FakeTool, FakeToolBehavior
from swarm.worker.tools.toolset import team_tools

ANSWER = text_message("assistant", "done")
FINAL = (done(ANSWER), END)
TEAM_SPEC = with_fields(FAKE_AGENT_SPEC, can_spawn=True)


def deliver(name, content="news", *, kind="message", trigger=False):
    mail = Mail(
        mail_id=name, author="/root/a", recipient="/root", content=content, kind=kind,
        trigger_turn=trigger,
    )  # fmt: skip
    return Deliver(mail=mail)


def call(name, call_id="c", **arguments):
    return done(FunctionCall(call_id=call_id, name=name, arguments=json.dumps(arguments)))


def commentary(text):
    return Message(role="assistant", content=(OutputText(text=text),), phase="commentary")


def payloads(items):
    mails = [item for item in items if isinstance(item, Message) and item.author is not None]
    return [text_of(item.content).partition("Payload:\n")[2] for item in mails]


def open_team(replies):
    return open_agent_harness(TEAM_SPEC, replies, team_tools=lambda team: team_tools(None, team))


async def reply_to(play, reply, count):
    asked = await play.supervisor.wait_for(RequestSent, count)
    await play.supervisor.send_op(Answer(request_id=asked.request_id, reply=reply))
    return asked.request


async def test_mails_are_read_once_in_order_under_their_own_ids(autojump_clock):
    async with open_agent_harness(FAKE_AGENT_SPEC, [FINAL, FINAL]) as play:
        for name in ("m1", "m2", "m1", "m3"):
            await play.supervisor.send_op(deliver(name, name))
        await trio.sleep(60)
        assert play.gateway.requests == []  # none of them asks for a turn
        await play.supervisor.send_text("go")
        await play.supervisor.wait_turns()
        await play.supervisor.send_op(deliver("m2", "again"))
        await play.supervisor.send_text("go on", input_id="turn-2")
        await play.supervisor.wait_turns(2)
    assert payloads(play.gateway.inputs[-1]) == ["m1", "m2", "m3"]
    told = [
        event.item_id
        for event in play.supervisor.events_of(ItemCompleted)
        if event.source == "mail"
    ]
    assert told == ["m1", "m2", "m3"]


async def test_a_task_wakes_an_idle_agent_and_brings_older_mails_along(autojump_clock):
    async with open_agent_harness(FAKE_AGENT_SPEC, [FINAL]) as play:
        await play.supervisor.send_op(deliver("old", "by the way"))
        await play.supervisor.send_op(deliver("task", "do it", kind="new_task", trigger=True))
        await play.supervisor.wait_turns()
    assert [event.started_by for event in play.supervisor.events_of(TurnStarted)] == ["mail"]
    mails = [item for item in play.gateway.inputs[0] if isinstance(item, Message) and item.author]
    assert text_of(mails[1].content) == (
        "Message Type: NEW_TASK\nTask name: /root\nSender: /root/a\nPayload:\ndo it"
    )
    assert payloads(mails) == ["by the way", "do it"]
    assert {one.role for one in mails} == {"assistant"}


@pytest.mark.parametrize("item", [commentary("hm"), Reasoning(summary=("hm",))])
async def test_a_waiting_mail_cuts_a_response_after_a_remark_or_a_thought(autojump_clock, item):
    reply = (2.0, done(item), 100.0, done(ANSWER), END)
    async with open_agent_harness(FAKE_AGENT_SPEC, [reply, FINAL]) as play:
        started = trio.current_time()
        await play.supervisor.send_text("go")
        await trio.sleep(1)
        await play.supervisor.send_op(deliver("m"))
        ending = await play.supervisor.wait_turns()
        assert trio.current_time() - started < 10
    assert ending.last_message == "done"
    assert len(play.gateway.cancelled) == 1
    first, second = play.gateway.inputs
    assert [type(one) for one in second[len(first) :]] == [type(item), Message]
    assert payloads(second) == ["news"]


async def test_a_response_without_waiting_mails_is_never_cut(autojump_clock):
    reply = (done(commentary("hm")), 5.0, done(ANSWER), END)
    async with open_agent_harness(FAKE_AGENT_SPEC, [reply]) as play:
        await play.supervisor.send_text("go")
        await play.supervisor.wait_turns()
    assert play.gateway.cancelled == []
    assert len(play.gateway.requests) == 1


async def test_mails_that_come_while_a_tool_runs_join_the_next_request(autojump_clock):
    tool = FakeTool("slow", FakeToolBehavior(seconds=5))
    async with open_agent_harness(
        FAKE_AGENT_SPEC, [(call("slow"), END), FINAL], tools=[tool]
    ) as play:
        await play.supervisor.send_text("go")
        await trio.sleep(2)
        await play.supervisor.send_op(deliver("m"))
        await play.supervisor.wait_turns()
    assert payloads(play.gateway.inputs[1]) == ["news"]
    assert len(play.supervisor.events_of(TurnStarted)) == 1


@pytest.mark.parametrize("trigger", [False, True])
async def test_a_shown_answer_is_not_extended_by_a_later_mail(autojump_clock, trigger):
    reply = (done(ANSWER), 5.0, END)
    async with open_agent_harness(FAKE_AGENT_SPEC, [reply, FINAL]) as play:
        await play.supervisor.send_text("go")
        await trio.sleep(2)
        await play.supervisor.send_op(deliver("m", trigger=trigger))
        await trio.sleep(60)
        turns = len(play.supervisor.events_of(TurnStarted))
    assert turns == (2 if trigger else 1)
    assert len(play.gateway.requests) == turns


async def test_a_task_that_comes_with_an_interrupt_is_started_at_once(autojump_clock):
    async with open_agent_harness(FAKE_AGENT_SPEC, [(1000.0, END), FINAL]) as play:
        await play.supervisor.send_text("go")
        await trio.sleep(2)
        await play.supervisor.send_op(deliver("task", "other", kind="followup", trigger=True))
        await play.supervisor.send_op(Interrupt())
        ending = await play.supervisor.wait_turns(2)
    assert ending.last_message == "done"
    assert [event.started_by for event in play.supervisor.events_of(TurnStarted)] == [
        "user",
        "mail",
    ]
    assert payloads(play.gateway.inputs[1]) == ["other"]


async def test_a_result_that_a_wait_has_given_is_not_paid_for_twice(autojump_clock):
    ended = TeamMember(path="/root/a", status="completed", result="42")
    replies = [
        (call("wait_agent"), END),
        FINAL,
        (call("followup_task", target="a", message="x"), END),
    ]
    async with open_team([*replies, FINAL, FINAL]) as play:
        await play.supervisor.send_text("go")
        await reply_to(play, Waited(timed_out=False, finished=(ended,), mail=1), 1)
        await play.supervisor.send_op(deliver("m1", "42", kind="final_answer", trigger=True))
        await play.supervisor.wait_turns(1)
        await trio.sleep(1)
        await play.supervisor.send_text("more", input_id="turn-2")
        await reply_to(play, Sent(), 2)
        await play.supervisor.send_op(deliver("m2", "42", kind="final_answer", trigger=True))
        await trio.sleep(10)
    told = payloads(play.supervisor.items("mail"))
    assert told == ["(wait_agent has given you this answer already)", "42"]


async def test_the_model_is_told_of_the_children_that_it_has(autojump_clock):
    replies = [
        (call("spawn_agent", "1", task_name="b", message="x"), END), FINAL,
        (call("close_agent", "2", target="a"), END), FINAL, FINAL,
    ]  # fmt: skip
    spec = with_fields(TEAM_SPEC, children=(ChildCard(path="/root/a", nickname="Scout"),))
    async with open_agent_harness(
        spec, replies, team_tools=lambda team: team_tools(None, team)
    ) as play:
        await play.supervisor.send_text("go")
        await reply_to(play, Spawned(path="/root/b", nickname=""), 1)
        await play.supervisor.wait_turns(1)
        await play.supervisor.send_text("go", input_id="turn-2")
        await reply_to(play, PreviousStatus(status="running"), 2)
        await play.supervisor.wait_turns(2)
        await play.supervisor.send_text("go", input_id="turn-3")
        await play.supervisor.wait_turns(3)
    told = [
        text.partition("<subagents>\n")[2].partition("\n  </subagents>")[0]
        for item in play.supervisor.items("context")
        if "<environment_context>" in (text := text_of(item.content))
    ]
    assert told == ["    - a: Scout", "    - a: Scout\n    - b", "    - b"]

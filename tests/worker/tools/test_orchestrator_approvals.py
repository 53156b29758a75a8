"""A call that needs a yes: asked once it is journaled, then run as approved or refused in words."""

import msgspec
import pytest
import trio

from swarm.mailbox.protocol.approvals import CommandAction
from swarm.mailbox.protocol.events import (
    CallBegan,
    CallEnded,
    RequestSent,
    TurnAborted,
    TurnCompleted,
    Waiting,
)
from swarm.mailbox.protocol.items import FunctionCall, text_message
from swarm.mailbox.protocol.ops import Answer, Interrupt
from swarm.mailbox.protocol.requests import Decided, RequestRefused, Sent
from swarm.mailbox.protocol.values.limits import Limits
from swarm.worker.policy.command_decision import Ask, Run
from swarm.worker.testing.agent_harness import END, done, open_agent_harness
from swarm.worker.testing.fake_tools import FAKE_AGENT_SPEC, FakeTool, FakeToolBehavior
from swarm.worker.tools.interface.tool_interface import ABORTED_COMMAND

ASKABLE = msgspec.structs.replace(FAKE_AGENT_SPEC, limits=Limits(reviewer="person"))
FINAL = (done(text_message("assistant", "done")), END)
YES = Decided(outcome="approved", by="person")
LEAVE = Ask(
    subject="`t`", cause="escalation", reason="May I?", then=Run(sandboxed=False),
    retry_reason="it failed",
)  # fmt: skip


class WatchedTool(FakeTool):
    """Remembers how it was run."""

    def __init__(self, name, manner):
        super().__init__(name, manner)
        self.verdicts = []

    async def run(self, verdict, listen):
        self.verdicts.append(verdict)
        return await super().run(verdict, listen)


def call(name, call_id="c"):
    return FunctionCall(call_id=call_id, name=name, arguments="{}")


def asking_tool(name="t", ask=LEAVE):
    return WatchedTool(name, FakeToolBehavior(verdict=ask))


async def answer(supervisor, reply, *, number=1):
    asked = await supervisor.wait_for(RequestSent, number)
    await supervisor.send_op(Answer(request_id=asked.request_id, reply=reply))
    return asked


async def test_an_approved_call_runs_as_it_was_asked(autojump_clock):
    tool = asking_tool()
    async with open_agent_harness(ASKABLE, [(done(call("t")), END), FINAL], tools=[tool]) as play:
        await play.supervisor.send_text("go")
        asked = await play.supervisor.wait_for(RequestSent)
        assert tool.runs == []
        await trio.sleep(1)
        await answer(play.supervisor, YES)
        ending = await play.supervisor.wait_turns()
    assert isinstance(ending, TurnCompleted)
    assert not ending.refused
    assert tool.verdicts == [Run(sandboxed=False, answer=YES)]
    approval = asked.request.approval
    assert (approval.cause, approval.reason, approval.retry_reason) == (
        "escalation", "May I?", "it failed",
    )  # fmt: skip
    assert (approval.turn_id, approval.call_id) == ("turn-1", "c")
    assert (approval.action, approval.keys) == (CommandAction(argv=("t",), cwd="/w"), ("t",))
    kinds = [type(one) for one in play.supervisor.events]
    assert kinds.index(CallBegan) < kinds.index(RequestSent) < kinds.index(CallEnded)
    assert play.supervisor.events_of(Waiting)[0].reason == "waiting for approval"


@pytest.mark.parametrize("outcome", ["denied", "failed", "timed_out", "unavailable"])
async def test_every_other_end_is_a_refusal_that_the_model_reads(autojump_clock, outcome):
    tool = asking_tool()
    async with open_agent_harness(ASKABLE, [(done(call("t")), END), FINAL], tools=[tool]) as play:
        await play.supervisor.send_text("go")
        await answer(play.supervisor, Decided(outcome=outcome, text=f"no: {outcome}"))
        ending = await play.supervisor.wait_turns()
    assert tool.runs == []
    assert isinstance(ending, TurnCompleted)
    output = play.supervisor.items("tool")[0]
    assert (output.output, output.success) == (f"no: {outcome}", False)
    assert [one.status for one in play.supervisor.events_of(CallEnded)] == ["declined"]


@pytest.mark.parametrize(
    ("reply", "text"),
    [
        (RequestRefused(message="not now"), "not now"),
        (Sent(), "not approved: the supervisor gave no decision that can be read"),
        (Decided(outcome="denied"), "not approved: denied"),
    ],
)
async def test_a_reply_that_is_no_yes_is_a_refusal(autojump_clock, reply, text):
    tool = asking_tool()
    async with open_agent_harness(ASKABLE, [(done(call("t")), END), FINAL], tools=[tool]) as play:
        await play.supervisor.send_text("go")
        await answer(play.supervisor, reply)
        await play.supervisor.wait_turns()
    assert tool.runs == []
    assert play.supervisor.items("tool")[0].output == text


async def test_a_no_that_ends_the_turn_ends_it_as_an_interrupt_does(autojump_clock):
    slow = FakeTool("slow", FakeToolBehavior(seconds=30, aborted_text=ABORTED_COMMAND))
    tool = asking_tool()
    reply = (done(call("t", "a")), done(call("slow", "b")), END)
    async with open_agent_harness(ASKABLE, [reply, FINAL], tools=[slow, tool]) as play:
        await play.supervisor.send_text("go")
        await answer(play.supervisor, Decided(outcome="aborted", by="person", text="stop it"))
        ending = await play.supervisor.wait_turns()
        await trio.sleep(60)
        assert len(play.gateway.requests) == 1
        await play.supervisor.send_text("and now?", input_id="turn-2")
        again = await play.supervisor.wait_turns(2)
    assert isinstance(ending, TurnAborted)
    assert ending.reason == "interrupted"
    first, second = play.supervisor.items("tool")
    assert first.output == "stop it"
    assert "aborted by user" in second.output
    assert isinstance(again, TurnCompleted)
    assert sorted(one.status for one in play.supervisor.events_of(CallEnded)) == [
        "declined",
        "interrupted",
    ]


async def test_an_interrupt_takes_the_question_back_and_a_late_yes_runs_nothing(autojump_clock):
    tool = asking_tool()
    async with open_agent_harness(ASKABLE, [(done(call("t")), END), FINAL], tools=[tool]) as play:
        await play.supervisor.send_text("go")
        asked = await play.supervisor.wait_for(RequestSent)
        await play.supervisor.send_op(Interrupt())
        ending = await play.supervisor.wait_turns()
        await play.supervisor.send_op(Answer(request_id=asked.request_id, reply=YES))
        await trio.sleep(60)
    assert isinstance(ending, TurnAborted)
    assert tool.runs == []
    assert [one.status for one in play.supervisor.events_of(CallEnded)] == ["interrupted"]


async def test_parallel_calls_ask_at_once_and_each_gets_its_own_answer(autojump_clock):
    tools = [asking_tool("one"), asking_tool("two")]
    reply = (done(call("one", "a")), done(call("two", "b")), END)
    async with open_agent_harness(ASKABLE, [reply, FINAL], tools=tools) as play:
        await play.supervisor.send_text("go")
        await play.supervisor.wait_for(RequestSent, 2)  # both are put before any is answered
        by_call = {
            one.request.approval.call_id: one.request_id
            for one in play.supervisor.events_of(RequestSent)
        }
        no = Decided(outcome="denied", text="not this one")
        await play.supervisor.send_op(Answer(request_id=by_call["b"], reply=no))
        await play.supervisor.send_op(Answer(request_id=by_call["a"], reply=YES))
        await play.supervisor.wait_turns()
    assert [len(tool.runs) for tool in tools] == [1, 0]
    assert [one.output for one in play.supervisor.items("tool")] == ["one ok", "not this one"]


async def test_a_trusted_call_asks_nothing(autojump_clock):
    tool = FakeTool("t")
    async with open_agent_harness(ASKABLE, [(done(call("t")), END), FINAL], tools=[tool]) as play:
        await play.supervisor.send_text("go")
        await play.supervisor.wait_turns()
    assert play.supervisor.events_of(RequestSent) == []
    assert len(tool.runs) == 1


async def test_a_long_wait_shows_that_it_still_waits(autojump_clock):
    async with open_agent_harness(
        ASKABLE, [(done(call("t")), END), FINAL], tools=[asking_tool()]
    ) as play:
        await play.supervisor.send_text("go")
        await play.supervisor.wait_for(RequestSent)
        await trio.sleep(3600)
        assert len(play.supervisor.events_of(Waiting)) >= 180
        await answer(play.supervisor, YES)
        assert isinstance(await play.supervisor.wait_turns(), TurnCompleted)


class Mute:
    """A prepared call that does not say what it would do."""

    def __init__(self, tool):
        self.detail, self.judge, self.run = tool.detail, tool.judge, tool.run


async def test_a_question_whose_subject_cannot_be_shown_is_refused(autojump_clock):
    class MuteTool(FakeTool):
        async def prepare(self, call):
            return Mute(self)

    tool = MuteTool("t", FakeToolBehavior(verdict=LEAVE))
    async with open_agent_harness(ASKABLE, [(done(call("t")), END), FINAL], tools=[tool]) as play:
        await play.supervisor.send_text("go")
        await play.supervisor.wait_turns()
    assert play.supervisor.events_of(RequestSent) == []
    assert tool.runs == []

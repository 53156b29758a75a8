"""What happens before a call that may change files: one message, one reply, then the call runs."""

import msgspec
import pytest
import trio

from swarm.mailbox.protocol.events import CallBegan, RequestSent
from swarm.mailbox.protocol.items import FunctionCall, text_message
from swarm.mailbox.protocol.ops import Answer
from swarm.mailbox.protocol.requests import Decided, FilesWatched, RequestApproval, WatchFiles
from swarm.mailbox.protocol.values.limits import Limits
from swarm.worker.base.reporter import WATCH_LIMIT_S
from swarm.worker.policy.command_decision import Ask
from swarm.worker.testing.agent_harness import END, done, open_agent_harness
from swarm.worker.testing.fake_tools import FAKE_AGENT_SPEC, FakeTool, FakeToolBehavior

CALL = FunctionCall(call_id="c", name="edit", arguments="{}")
REPLIES = ((done(CALL), END), (done(text_message("assistant", "done")), END))
ASKABLE = msgspec.structs.replace(FAKE_AGENT_SPEC, limits=Limits(reviewer="person"))


def edit(**behavior):
    return FakeTool("edit", FakeToolBehavior(changes=("/w/f",), **behavior))


async def test_the_begin_requests_the_look_and_its_reply_lets_the_call_run(autojump_clock):
    tool = edit()
    async with open_agent_harness(FAKE_AGENT_SPEC, REPLIES, tools=[tool]) as play:
        play.supervisor.recording_files = False
        await play.supervisor.send_text("go")
        await play.supervisor.wait_for(CallBegan)
        await trio.sleep(WATCH_LIMIT_S - 1)
        assert tool.runs == []  # its begin is journaled, but its files are not recorded
        (watch,) = play.supervisor.watches
        assert watch.paths == ("/w/f",)
        await play.supervisor.send_op(Answer(request_id=watch.request_id, reply=FilesWatched()))
        await play.supervisor.wait_turns()
    assert len(tool.runs) == 1
    assert play.supervisor.events_of(RequestSent) == []


async def test_a_look_that_does_not_end_delays_the_call_by_five_seconds(autojump_clock):
    tool = edit()
    async with open_agent_harness(FAKE_AGENT_SPEC, REPLIES, tools=[tool]) as play:
        play.supervisor.recording_files = False
        await play.supervisor.send_text("go")
        await play.supervisor.wait_for(CallBegan)
        began = trio.current_time()
        await play.supervisor.wait_turns()
    assert tool.runs == [pytest.approx(began + 5.0, abs=0.1)]


async def test_a_look_that_does_not_end_lets_no_call_run_before_its_begin_is_journaled(
    autojump_clock,
):
    tool = edit()
    async with open_agent_harness(FAKE_AGENT_SPEC, REPLIES, tools=[tool]) as play:
        await play.supervisor.send_text("go")
        play.supervisor.journaling = play.supervisor.recording_files = False
        await play.supervisor.wait_for(CallBegan)
        await trio.sleep(WATCH_LIMIT_S + 1)
        assert tool.runs == []
        play.supervisor.acknowledge_all()
        await play.supervisor.wait_turns()
    assert len(tool.runs) == 1


async def test_the_look_of_a_call_that_needs_approval_comes_after_the_approval(autojump_clock):
    tool = edit(verdict=Ask(subject="`t`", cause="escalation", reason="May I?"))
    async with open_agent_harness(ASKABLE, REPLIES, tools=[tool]) as play:
        play.supervisor.recording_files = False
        await play.supervisor.send_text("go")
        asked = await play.supervisor.wait_for(RequestSent)
        assert isinstance(asked.request, RequestApproval)
        await trio.sleep(60)
        approval = Decided(outcome="approved", by="person")
        await play.supervisor.send_op(Answer(request_id=asked.request_id, reply=approval))
        looking = await play.supervisor.wait_for(RequestSent, 2)
        assert looking.request == WatchFiles(turn_id="turn-1", call_id="c", paths=("/w/f",))
        await trio.sleep(1)
        assert tool.runs == []
        await play.supervisor.send_op(Answer(request_id=looking.request_id, reply=FilesWatched()))
        await play.supervisor.wait_turns()
    assert play.supervisor.watches == []
    assert len(tool.runs) == 1

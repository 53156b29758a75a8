"""The team's tools from the model's call to its output, over a supervisor made of lists."""

import json

import msgspec
import pytest
import trio
import trio.testing

from support.nested_fields import with_fields
from swarm.mailbox.parts.tool_names import TOOLS_WITHOUT_COMMANDS
from swarm.mailbox.protocol.events import CallBegan, CallEnded, RequestSent, Waiting
from swarm.mailbox.protocol.items import FunctionCall, text_message
from swarm.mailbox.protocol.ops import Answer, Deliver, Interrupt, Mail
from swarm.mailbox.protocol.requests import (
    CloseAgent,
    FollowUp,
    HaltAgent,
    ListAgents,
    PreviousStatus,
    QueuedForSlot,
    RequestRefused,
    SendMail,
    Sent,
    Spawn,
    Spawned,
    TeamMember,
    Waited,
    WaitFor,
)
from swarm.mailbox.protocol.requests import Team as TeamReply
from swarm.worker.testing.agent_harness import END, done, open_agent_harness
from swarm.worker.testing.fake_tools import FAKE_AGENT_SPEC
from swarm.worker.tools.toolset import team_tools

SPEC = with_fields(FAKE_AGENT_SPEC, can_spawn=True, max_agents=8)
FINAL = (done(text_message("assistant", "done")), END)
SCOUT = Spawned(path="/root/a", nickname="Scout", model="m", effort="low")
ENDED = TeamMember(path="/root/a", status="completed", result="42", last_task="find")


def call(name, call_id="c", **arguments):
    return done(FunctionCall(call_id=call_id, name=name, arguments=json.dumps(arguments)))


def stage_of(*calls):
    return open_agent_harness(
        SPEC, [(*calls, END), FINAL], team_tools=lambda team: team_tools(None, team)
    )


def test_every_team_tool_is_known_as_one_that_starts_no_command():
    assert {tool.name for tool in team_tools(None, None)} <= TOOLS_WITHOUT_COMMANDS


async def reply_to(play, reply, *, count=1):
    """Answer the agent's `count`-th request; returns what it asked."""
    asked = await play.supervisor.wait_for(RequestSent, count)
    await play.supervisor.send_op(Answer(request_id=asked.request_id, reply=reply))
    return asked.request


def mail_op(name, kind="message", author="/root/a", content="news", *, trigger=False):
    return Deliver(
        mail=Mail(
            mail_id=name, author=author, recipient="/root", content=content, kind=kind,
            trigger_turn=trigger,
        )
    )  # fmt: skip


def outputs(play):
    return [(item.output, item.success) for item in play.supervisor.items("tool")]


@pytest.mark.parametrize(
    ("step", "request_", "reply", "output"),
    [
        (
            call("spawn_agent", task_name="a", message="find"),
            Spawn(task_name="a", message="find", fork_turns="all"),
            SCOUT,
            {"task_name": "/root/a", "nickname": "Scout"},
        ),
        (
            call(
                "spawn_agent", task_name="a", message="find", agent_type="explorer",
                fork_turns="3", model="m", reasoning_effort="low",
            ),
            Spawn(
                task_name="a", message="find", agent_type="explorer", fork_turns="3",
                model="m", reasoning_effort="low",
            ),
            msgspec.structs.replace(SCOUT, waited_s=7.25),
            {
                "task_name": "/root/a", "nickname": "Scout", "model": "m",
                "reasoning_effort": "low", "waited_for_slot_s": 7.2,
            },
        ),
        (
            call("send_message", target="a", message="hi"),
            SendMail(target="/root/a", message="hi"),
            Sent(),
            "",
        ),
        (
            call("followup_task", target="/root/b/c", message="more", interrupt=True),
            FollowUp(target="/root/b/c", message="more", interrupt=True),
            Sent(),
            "",
        ),
        (
            call("list_agents", path_prefix="a"),
            ListAgents(path_prefix="/root/a"),
            TeamReply(members=(ENDED, TeamMember(path="/root/a/b", status="queued"))),
            {
                "agents": [
                    {
                        "agent_name": "/root/a",
                        "agent_status": {"completed": "42"},
                        "last_task_message": "find",
                    },
                    {
                        "agent_name": "/root/a/b",
                        "agent_status": "queued",
                        "last_task_message": "",
                    },
                ]
            },
        ),
        (
            call("interrupt_agent", target="a"),
            HaltAgent(target="/root/a"),
            PreviousStatus(status="running"),
            {"previous_status": "running"},
        ),
        (
            call("close_agent", target="a"),
            CloseAgent(target="/root/a"),
            PreviousStatus(status="completed"),
            {"previous_status": "completed"},
        ),
        (
            call("wait_agent", targets=["a", "b"], timeout_ms=60000, **{"for": "all"}),
            WaitFor(targets=("/root/a", "/root/b"), mode="all", timeout_s=60.0),
            Waited(timed_out=True, finished=(), still_running=("/root/a", "/root/b")),
            {
                "message": "Wait timed out.", "timed_out": True,
                "still_running": ["/root/a", "/root/b"],
            },
        ),
        (
            call("wait_agent"),
            WaitFor(timeout_s=30.0),
            Waited(timed_out=False, finished=(ENDED,), mail=2),
            {
                "message": "Wait completed.", "timed_out": False,
                "finished": [
                    {"agent_name": "/root/a", "end_state": "completed", "result": "42"}
                ],
                "unread_messages": 1,
            },
        ),
    ],
)  # fmt: skip
async def test_a_call_becomes_one_request_and_its_reply_the_output(
    autojump_clock, step, request_, reply, output
):
    async with stage_of(step) as play:
        await play.supervisor.send_text("go")
        assert await reply_to(play, reply) == request_
        await play.supervisor.wait_turns()
    ((text, success),) = outputs(play)
    assert success
    assert (json.loads(text) if output else text) == output
    assert play.supervisor.events_of(CallEnded)[0].status == "completed"


async def test_a_refusal_is_an_output_that_the_model_reads(autojump_clock):
    async with stage_of(call("spawn_agent", task_name="a", message="x")) as play:
        await play.supervisor.send_text("go")
        await reply_to(play, RequestRefused(message="agent path `/root/a` already exists"))
        await play.supervisor.wait_turns()
    assert outputs(play) == [("agent path `/root/a` already exists", False)]


async def test_silence_and_a_reply_of_another_kind_are_failures_by_the_deadline(autojump_clock):
    steps = (call("list_agents"), call("list_agents", "d"))
    async with stage_of(*steps) as play:
        started = trio.current_time()
        await play.supervisor.send_text("go")
        await play.supervisor.wait_for(RequestSent)
        await reply_to(play, Sent(), count=2)
        await play.supervisor.wait_turns()
        assert trio.current_time() - started == pytest.approx(30, abs=1)
    texts = [text for text, success in outputs(play) if not success]
    assert texts == [
        "collab tool failed: no answer within 30 s",
        "collab tool failed: the supervisor gave an answer of another kind",
    ]


async def test_what_only_asks_the_supervisor_does_not_wait_for_the_disk(autojump_clock):
    """It hears of the call before it hears the request."""
    async with stage_of(call("list_agents")) as play:
        play.supervisor.journaling = False
        await play.supervisor.send_text("go")
        await play.supervisor.wait_for(RequestSent)
        kinds = [type(event) for event in play.supervisor.events]
    assert CallBegan in kinds[: kinds.index(RequestSent)]


async def test_an_interrupt_ends_a_wait_and_a_late_reply_is_dropped(autojump_clock):
    async with stage_of(call("wait_agent", timeout_ms=3600000)) as play:
        await play.supervisor.send_text("go")
        asked = await play.supervisor.wait_for(RequestSent)
        await trio.sleep(100)
        await play.supervisor.send_op(Interrupt())
        await play.supervisor.wait_turns()
        reply = Waited(timed_out=False)
        await play.supervisor.send_op(Answer(request_id=asked.request_id, reply=reply))
    ((text, success),) = outputs(play)
    assert not success
    assert text.startswith("aborted by user after 100.")


async def test_several_spawns_of_one_response_go_out_in_order_one_after_another(autojump_clock):
    steps = [call("spawn_agent", str(n), task_name=f"a{n}", message="x") for n in range(8)]
    async with stage_of(*steps) as play:
        started = trio.current_time()
        await play.supervisor.send_text("go")
        for number in range(8):
            await play.supervisor.wait_for(RequestSent, number + 1)
            await trio.testing.wait_all_tasks_blocked()
            assert len(play.supervisor.events_of(RequestSent)) == number + 1
            reply = Spawned(path=f"/root/a{number}", nickname="")
            request = await reply_to(play, reply, count=number + 1)
            assert request.task_name == f"a{number}"
        await play.supervisor.wait_turns()
        assert trio.current_time() - started < 0.1
    assert [json.loads(text)["task_name"] for text, _ in outputs(play)] == [
        f"/root/a{number}" for number in range(8)
    ]


async def test_a_spawn_over_the_limit_shows_its_place_and_is_no_standstill(autojump_clock):
    async with stage_of(call("spawn_agent", task_name="a", message="x")) as play:
        await play.supervisor.send_text("go")
        asked = await play.supervisor.wait_for(RequestSent)
        await play.supervisor.send_op(
            Answer(request_id=asked.request_id, reply=QueuedForSlot(place=3))
        )
        await trio.sleep(100)
        await play.supervisor.send_op(Answer(request_id=asked.request_id, reply=SCOUT))
        await play.supervisor.wait_turns()
    reasons = [event.reason for event in play.supervisor.events_of(Waiting)]
    assert set(reasons) == {"starts a (number 3 in line for a slot)"}
    assert len(reasons) >= 5  # a sign at least every 20 seconds
    assert outputs(play)[0][1]


@pytest.mark.parametrize("words", [False, True])
async def test_a_wait_ends_at_once_when_something_lies_unread(autojump_clock, words):
    steps = (1.0, call("wait_agent", timeout_ms=600000))
    async with stage_of(*steps) as play:
        await play.supervisor.send_text("go")
        await trio.sleep(0.5)
        if words:
            await play.supervisor.send_text("and this", input_id="more")
        else:
            await play.supervisor.send_op(mail_op("m"))
        request = await reply_to(play, Waited(timed_out=True, still_running=("/root/a",)))
        assert request == WaitFor(timeout_s=0.0)
        await play.supervisor.wait_turns()
    answer = json.loads(outputs(play)[0][0])
    assert (answer["message"], answer["timed_out"]) == ("Wait completed.", False)
    assert answer.get("unread_messages", 0) == (0 if words else 1)


async def test_a_mail_wakes_a_waiting_agent_which_then_asks_how_things_stand(autojump_clock):
    async with stage_of(call("wait_agent", timeout_ms=600000)) as play:
        await play.supervisor.send_text("go")
        await play.supervisor.wait_for(RequestSent)
        await trio.sleep(50)
        await play.supervisor.send_op(mail_op("m", "final_answer", content="42"))
        reply = Waited(timed_out=False, finished=(ENDED,), mail=1)
        assert await reply_to(play, reply, count=2) == WaitFor(timeout_s=0.0)
        await play.supervisor.wait_turns()
    answer = json.loads(outputs(play)[0][0])
    assert [one["agent_name"] for one in answer["finished"]] == ["/root/a"]
    assert {event.reason for event in play.supervisor.events_of(Waiting)} == {
        "waits for news of its team"
    }


async def test_a_wait_for_all_is_not_ended_by_the_first_final_answer(autojump_clock):
    step = call("wait_agent", targets=["a", "b"], timeout_ms=600000, **{"for": "all"})
    async with stage_of(step) as play:
        await play.supervisor.send_text("go")
        await play.supervisor.wait_for(RequestSent)
        await play.supervisor.send_op(mail_op("m", "final_answer"))
        await trio.sleep(50)
        assert len(play.supervisor.events_of(RequestSent)) == 1
        await play.supervisor.send_op(mail_op("n"))  # but a message may be a question to us
        await reply_to(play, Waited(timed_out=False), count=2)
        await play.supervisor.wait_turns()

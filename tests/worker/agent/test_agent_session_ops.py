"""What the agent is told while it works: interrupt, steer, mail, go on, moved gateway, shutdown."""

import msgspec
import pytest
import trio

from support.nested_fields import with_fields
from swarm.mailbox.protocol.events import (
    CallBegan,
    CallEnded,
    Goodbye,
    Heartbeat,
    Hello,
    ItemCompleted,
    TurnAborted,
    TurnCompleted,
    TurnFailed,
    TurnStarted,
)
from swarm.mailbox.protocol.items import (
    FunctionCall,
    FunctionCallOutput,
    Message,
    OutputText,
    Reasoning,
    encode_item,
    text_message,
)
from swarm.mailbox.protocol.ops import (
    Deliver,
    GatewayMoved,
    Interrupt,
    Mail,
    Shutdown,
    TextInput,
    UserInput,
)
from swarm.worker.agent.context.context_blocks import ABORTED_START, mail_message
from swarm.worker.agent.context.history_repair import INTERRUPTED
from swarm.worker.testing.agent_harness import END, done, open_agent_harness
from swarm.worker.testing.fake_tools import FAKE_AGENT_SPEC, FakeTool, FakeToolBehavior
from swarm.worker.tools.interface.tool_interface import ABORTED_COMMAND

ANSWER = text_message("assistant", "done")
FINAL = (done(ANSWER), END)
FOREVER = (1e6,)


def call(name, call_id="c"):
    return FunctionCall(call_id=call_id, name=name, arguments="{}")


def deliver(name, *, trigger=True):
    mail = Mail(
        mail_id=name, author="/root/a", recipient="/root", content=name, trigger_turn=trigger
    )
    return Deliver(mail=mail)


def raw(*items):
    return tuple(msgspec.Raw(encode_item(item)) for item in items)


async def test_an_interrupt_gives_every_call_its_output_then_the_mark(autojump_clock):
    slow = FakeTool("slow", FakeToolBehavior(seconds=30, aborted_text=ABORTED_COMMAND))
    broken = FakeTool("broken", FakeToolBehavior(error="no such file"))
    reply = (done(call("slow", "a")), done(call("broken", "b")), END)
    async with open_agent_harness(FAKE_AGENT_SPEC, [reply, FINAL], tools=[slow, broken]) as play:
        await play.supervisor.send_text("go")
        await play.supervisor.wait_for(CallBegan)
        await trio.sleep(2.28)
        await play.supervisor.send_op(Interrupt())
        ending = await play.supervisor.wait_turns()
        await trio.sleep(60)
        assert len(play.gateway.requests) == 1  # nothing starts by itself
        await play.supervisor.send_text("and now?", input_id="turn-2")
        await play.supervisor.wait_turns(2)
    assert isinstance(ending, TurnAborted)
    outputs, mark = play.supervisor.items("tool"), play.supervisor.items("note")[0]
    assert outputs == [
        FunctionCallOutput(
            call_id="a", output="Wall time: 2.3 seconds\naborted by user", success=False
        ),
        FunctionCallOutput(call_id="b", output="no such file", success=False),
    ]
    assert mark.content[0].text.startswith(ABORTED_START)
    statuses = {event.call_id: event.status for event in play.supervisor.events_of(CallEnded)}
    assert statuses == {"a": "interrupted", "b": "failed"}
    sources = [event.source for event in play.supervisor.events_of(ItemCompleted)]
    assert sources[3:8] == ["model", "model", "tool", "tool", "note"]
    assert play.gateway.inputs[1][: len(play.gateway.inputs[0])] == play.gateway.inputs[0]


@pytest.mark.parametrize("keep", [False, True])
async def test_an_interrupt_ends_the_commands_in_the_background_unless_they_are_kept(
    autojump_clock, keep
):
    async with open_agent_harness(FAKE_AGENT_SPEC, [FOREVER, FINAL]) as play:
        play.tool_host.live_commands = 2
        await play.supervisor.send_text("go")
        await trio.sleep(1)
        await play.supervisor.send_op(Interrupt(keep_commands=keep))
        await play.supervisor.wait_turns()
        await trio.sleep(1)
        assert play.tool_host.ended is not keep
    (mark,) = play.supervisor.items("note")
    assert ("were ended" in mark.content[0].text) is not keep


async def test_an_idle_agents_commands_end_too_and_its_model_is_told(autojump_clock):
    async with open_agent_harness(FAKE_AGENT_SPEC, [FINAL, FINAL]) as play:
        play.tool_host.live_commands = 1
        await play.supervisor.send_op(Interrupt())
        await trio.sleep(1)
        assert play.tool_host.ended
        await play.supervisor.send_text("go")
        await play.supervisor.wait_turns()
    (note,) = play.supervisor.items("note")
    assert "ended the commands" in note.content[0].text


async def test_an_interrupt_while_the_model_speaks_tells_the_gateway(autojump_clock):
    async with open_agent_harness(FAKE_AGENT_SPEC, [FOREVER, FINAL]) as play:
        await play.supervisor.send_text("go")
        await trio.sleep(1)
        await play.supervisor.send_op(Interrupt(reason="deadline"))
        ending = await play.supervisor.wait_turns()
        await trio.sleep(1)
    assert play.gateway.cancelled == [1]
    assert ending.reason == "deadline"


async def test_an_interrupt_of_an_idle_agent_does_nothing(autojump_clock):
    async with open_agent_harness(FAKE_AGENT_SPEC, [FINAL]) as play:
        await play.supervisor.send_op(Interrupt())
        await play.supervisor.send_text("go")
        assert isinstance(await play.supervisor.wait_turns(), TurnCompleted)


async def test_words_that_steer_are_read_before_the_next_request_of_the_same_turn(autojump_clock):
    tool = FakeTool("tool", FakeToolBehavior(seconds=3))
    async with open_agent_harness(
        FAKE_AGENT_SPEC, [(done(call("tool")), END), FINAL], tools=[tool]
    ) as play:
        await play.supervisor.send_text("go")
        await play.supervisor.wait_for(CallBegan)
        await play.supervisor.send_text("also this", input_id="steer-1")
        await play.supervisor.send_text("also this", input_id="steer-1")  # comes twice, counts once
        await play.supervisor.wait_turns()
    assert len(play.supervisor.events_of(TurnStarted)) == 1
    assert play.gateway.inputs[1][-2:] == (
        FunctionCallOutput(call_id="c", output="tool ok", success=True),
        text_message("user", "also this"),
    )


async def test_words_unread_when_the_turn_is_aborted_are_kept_but_start_nothing(autojump_clock):
    async with open_agent_harness(FAKE_AGENT_SPEC, [FOREVER]) as play:
        await play.supervisor.send_text("go")
        await trio.sleep(1)
        await play.supervisor.send_text("wait, this too", input_id="steer-1")
        await play.supervisor.send_op(Interrupt())
        await play.supervisor.wait_turns()
        await trio.sleep(60)
    assert [text_message("user", "wait, this too")] == play.supervisor.items("user")[1:]
    assert len(play.supervisor.events_of(TurnStarted)) == 1


async def test_mail_with_trigger_starts_a_turn_and_mail_without_waits(autojump_clock):
    async with open_agent_harness(FAKE_AGENT_SPEC, [FINAL]) as play:
        await play.supervisor.send_op(deliver("quiet", trigger=False))
        await trio.sleep(10)
        assert play.supervisor.events_of(TurnStarted) == []
        await play.supervisor.send_op(deliver("loud"))
        await play.supervisor.wait_turns()
    assert play.supervisor.events_of(TurnStarted)[0].started_by == "mail"
    assert play.supervisor.items("mail") == [
        mail_message(deliver("quiet").mail), mail_message(deliver("loud").mail)
    ]  # fmt: skip
    mail = [one for one in play.supervisor.events_of(ItemCompleted) if one.source == "mail"]
    assert [one.item_id for one in mail] == ["quiet", "loud"]


@pytest.mark.parametrize(
    "item",
    [
        Reasoning(summary=("thinking",)),
        Message(role="assistant", content=(OutputText(text="hm"),), phase="commentary"),
    ],
)
async def test_mail_cuts_a_response_short_after_a_thought_or_a_comment(autojump_clock, item):
    async with open_agent_harness(FAKE_AGENT_SPEC, [(2.0, done(item), *FOREVER), FINAL]) as play:
        await play.supervisor.send_text("go")
        await trio.sleep(1)
        await play.supervisor.send_op(deliver("news", trigger=False))
        await play.supervisor.wait_turns()
    assert play.gateway.cancelled == [1]
    assert play.gateway.inputs[1][-2:] == (item, mail_message(deliver("news").mail))
    assert trio.current_time() < 1e5


async def test_mail_after_a_shown_answer_waits_for_the_next_turn(autojump_clock):
    async with open_agent_harness(FAKE_AGENT_SPEC, [(done(ANSWER), 5.0, END), FINAL]) as play:
        await play.supervisor.send_text("go")
        await trio.sleep(2)
        await play.supervisor.send_op(deliver("late"))
        await play.supervisor.wait_turns(2)
    first, second = play.supervisor.events_of(TurnStarted)
    assert (first.started_by, second.started_by) == ("user", "mail")


async def test_a_schema_holds_for_the_requests_of_its_turn_alone(autojump_clock):
    as_json = (done(text_message("assistant", "1")), END)
    async with open_agent_harness(FAKE_AGENT_SPEC, [as_json, FINAL]) as play:
        ask = UserInput(input_id="a", parts=(TextInput(text="q"),), output_schema=b'{"x":1}')
        await play.supervisor.send_op(ask)
        await play.supervisor.wait_turns()
        await play.supervisor.send_text("plain", input_id="b")
        await play.supervisor.wait_turns(2)
    assert [one.output_schema for one in play.gateway.requests] == [b'{"x":1}', None]


@pytest.mark.parametrize("epoch", [1, 2])
async def test_a_mails_turn_keeps_to_the_schema_of_the_turn_before(autojump_clock, epoch):
    """Its answer takes the place of the one before, which somebody reads as JSON."""
    as_json = (done(text_message("assistant", "1")), END)
    known = b'{"x":1}' if epoch == 2 else None
    spec = with_fields(FAKE_AGENT_SPEC, epoch=epoch, output_schema=known)
    async with open_agent_harness(spec, [as_json, as_json]) as play:
        turns = 1
        if known is None:
            ask = UserInput(input_id="a", parts=(TextInput(text="q"),), output_schema=b'{"x":1}')
            await play.supervisor.send_op(ask)
            await play.supervisor.wait_turns()
            turns = 2
        await play.supervisor.send_op(deliver("news"))
        await play.supervisor.wait_turns(turns)
    assert {one.output_schema for one in play.gateway.requests} == {b'{"x":1}'}


async def test_a_moved_gateway_gets_the_whole_history_and_the_answer_is_asked_again(autojump_clock):
    async with open_agent_harness(FAKE_AGENT_SPEC, [FINAL, FOREVER, FINAL]) as play:
        await play.supervisor.send_text("one")
        await play.supervisor.wait_turns()
        await play.supervisor.send_text("two", input_id="turn-2")
        await trio.sleep(1)
        play.gateway.forget_conversation()
        await play.supervisor.send_op(GatewayMoved(endpoint="ipc://new", token=b"other"))
        ending = await play.supervisor.wait_turns(2)
    assert ending.last_message == "done"
    assert [one.token for one in play.gateway.opened] == [b"token", b"other"]
    assert play.gateway.requests[-1].base_count == 0
    assert play.gateway.inputs[-1] == play.gateway.inputs[-2]


async def test_a_gateway_that_moves_twice_at_once_is_reached_at_its_last_address(autojump_clock):
    async with open_agent_harness(FAKE_AGENT_SPEC, [FOREVER, FINAL]) as play:
        await play.supervisor.send_text("one")
        await trio.sleep(1)
        play.gateway.forget_conversation()
        for token in (b"second", b"third"):
            await play.supervisor.send_op(GatewayMoved(endpoint="ipc://new", token=token))
        ending = await play.supervisor.wait_turns()
    assert ending.last_message == "done"
    assert ending.duration_s < 10
    assert play.gateway.opened[-1].token == b"third"


async def test_a_turn_goes_on_with_the_schema_it_is_given(autojump_clock):
    spec = with_fields(FAKE_AGENT_SPEC, history=raw(text_message("user", "go")))
    async with open_agent_harness(spec, [FINAL]) as play:
        await play.supervisor.send_op(UserInput(input_id="r", parts=(), output_schema=b'{"x":1}'))
        await play.supervisor.wait_turns()
    assert play.gateway.requests[0].output_schema == b'{"x":1}'


async def test_a_gateway_that_lost_the_conversation_asks_for_it_and_gets_it(autojump_clock):
    async with open_agent_harness(FAKE_AGENT_SPEC, [FINAL, FINAL]) as play:
        await play.supervisor.send_text("one")
        await play.supervisor.wait_turns()
        play.gateway.forget_conversation()
        await play.supervisor.send_text("two", input_id="turn-2")
        await play.supervisor.wait_turns(2)
    assert [one.base_count for one in play.gateway.requests] == [0, 3, 0]
    assert play.gateway.inputs[1][:3] == play.gateway.inputs[0]


async def test_a_silent_gateway_is_given_up_at_its_deadline(autojump_clock):
    async with open_agent_harness(FAKE_AGENT_SPEC, [FOREVER] * 6) as play:
        await play.supervisor.send_text("go")
        ending = await play.supervisor.wait_turns()
    assert (type(ending), ending.kind) == (TurnFailed, "idle_timeout")
    assert 6 * 330 < ending.duration_s < 6 * 330 + 10


async def test_a_refused_conversation_fails_the_turn(autojump_clock):
    async with open_agent_harness(FAKE_AGENT_SPEC) as play:
        play.gateway.refuse = "no model named x"
        await play.supervisor.send_text("go")
        ending = await play.supervisor.wait_turns()
        await play.supervisor.send_text("again", input_id="turn-2")
        await play.supervisor.wait_turns(2)
        assert trio.current_time() < 5  # it does not wait for an answer that was given
    assert (ending.kind, ending.message) == ("no_provider", "no model named x")
    assert [type(event) for event in play.supervisor.events][:2] == [Hello, TurnStarted]


async def test_shutdown_aborts_the_turn_ends_commands_and_says_goodbye_last(autojump_clock):
    tool = FakeTool("tool", FakeToolBehavior(seconds=1e6))
    async with open_agent_harness(
        FAKE_AGENT_SPEC, [(done(call("tool")), END)], tools=[tool]
    ) as play:
        await play.supervisor.send_text("go")
        await play.supervisor.wait_for(CallBegan)
        await play.supervisor.send_op(Shutdown())
        await play.supervisor.ended.wait()
    assert [type(event) for event in play.supervisor.events][-2:] == [TurnAborted, Goodbye]
    assert play.tool_host.ended


async def test_a_resumed_agent_goes_on_where_it_was_and_starts_nothing_by_itself(autojump_clock):
    before = (text_message("user", "go"), Reasoning(), call("tool", "a"), call("tool", "b"))
    spec = with_fields(FAKE_AGENT_SPEC, epoch=2, history=raw(*before), interrupted_calls=("b",))
    async with open_agent_harness(spec, [FINAL]) as play:
        await trio.sleep(60)
        assert play.supervisor.events_of(TurnStarted) == []
        assert play.supervisor.items("tool") == [
            FunctionCallOutput(call_id="a", output="aborted", success=False),
            FunctionCallOutput(call_id="b", output=INTERRUPTED, success=False),
        ]
        await play.supervisor.send_op(UserInput(input_id="turn-9", parts=()))
        await play.supervisor.wait_turns()
    assert play.supervisor.events_of(TurnStarted)[0].started_by == "resume"
    assert play.supervisor.events_of(TurnStarted)[0].turn_id == "turn-9"
    assert play.gateway.inputs[0][: len(before)] == before
    assert play.supervisor.items("user") == []


async def test_the_heart_beats_while_a_turn_runs(autojump_clock):
    async with open_agent_harness(FAKE_AGENT_SPEC, [FOREVER]) as play:
        await play.supervisor.send_text("go")
        await trio.sleep(9)
    beats = play.supervisor.events_of(Heartbeat)
    assert [beat.busy for beat in beats] == [True] * 4
    assert beats[0].rss_bytes > 1_000_000

"""A turn, seen from the supervisor and from the gateway: order, outputs, follow-ups, retries."""

import pytest
import trio

from support.nested_fields import with_fields
from swarm.mailbox.protocol.events import (
    CallBegan,
    CallEnded,
    Hello,
    ItemCompleted,
    TextArrived,
    TokenCount,
    TurnCompleted,
    TurnFailed,
    TurnStarted,
    Waiting,
)
from swarm.mailbox.protocol.hooks import Hook
from swarm.mailbox.protocol.items import (
    CustomToolCall,
    CustomToolCallOutput,
    FunctionCall,
    FunctionCallOutput,
    Message,
    OutputText,
    Reasoning,
    TokenUsage,
    text_message,
)
from swarm.mailbox.protocol.sampling import (
    ModelInfo,
    SampleAlive,
    SampleCompleted,
    SampleItemStarted,
    TextDelta,
)
from swarm.worker.policy.command_decision import Ask, Refuse
from swarm.worker.testing.agent_harness import END, FAKE_MODEL, done, failed, open_agent_harness
from swarm.worker.testing.fake_tools import FAKE_AGENT_SPEC, FakeTool, FakeToolBehavior

ANSWER = text_message("assistant", "done")
FINAL = (done(ANSWER), END)
HOOK = Hook(hook_id="0123456789ab", event="PreToolUse", command="true")


def commentary(text):
    return Message(role="assistant", content=(OutputText(text=text),), phase="commentary")


def call(name, call_id="c", arguments="{}"):
    return FunctionCall(call_id=call_id, name=name, arguments=arguments)


async def test_a_turn_is_told_in_order_and_ends_once(autojump_clock):
    usage = TokenUsage(input_tokens=90, output_tokens=10, total_tokens=100)
    reply = (
        done(Reasoning(summary=("hm",))),
        done(ANSWER),
        SampleCompleted(request_id=0, usage=usage),
    )
    async with open_agent_harness(FAKE_AGENT_SPEC, [reply]) as play:
        await play.supervisor.send_text("do the thing")
        ending = await play.supervisor.wait_turns()
    kinds = [type(event) for event in play.supervisor.events]
    assert kinds == [
        Hello, TurnStarted, *[ItemCompleted] * 5, TokenCount, TurnCompleted,
    ]  # fmt: skip
    assert [event.source for event in play.supervisor.events_of(ItemCompleted)] == [
        "context", "context", "user", "model", "model",
    ]  # fmt: skip
    assert ending == TurnCompleted(
        turn_id="turn-1", last_message="done", usage=usage, duration_s=ending.duration_s
    )
    assert play.supervisor.events_of(TurnStarted)[0].model == FAKE_MODEL
    assert play.supervisor.events_of(ItemCompleted)[2].item_id == "turn-1"
    count = play.supervisor.events_of(TokenCount)[0]
    assert (count.last, count.total, count.context_tokens) == (usage, usage, 100)
    assert play.gateway.inputs[0] == tuple(play.supervisor.items()[:3])


async def test_calls_run_at_once_and_outputs_are_recorded_in_call_order(autojump_clock):
    slow, fast = FakeTool("slow", FakeToolBehavior(seconds=1.4)), FakeTool("fast")
    reply = (
        done(commentary("looking")),
        done(call("slow", "a")),
        done(call("nothing", "b")),
        done(CustomToolCall(call_id="c", name="gone", input="x")),
        done(call("fast", "d")),
        5.0,
        END,
    )
    async with open_agent_harness(FAKE_AGENT_SPEC, [reply, FINAL], tools=[slow, fast]) as play:
        started = trio.current_time()
        await play.supervisor.send_text("go")
        await play.supervisor.wait_turns()
    assert [*slow.runs, *fast.runs] == [pytest.approx(started, abs=0.5)] * 2  # not after the stream
    first, second = play.gateway.inputs
    assert second[: len(first)] == first
    items = [step.item for step in reply if hasattr(step, "item")]
    assert list(second[len(first) :]) == [
        *items,
        FunctionCallOutput(call_id="a", output="slow ok", success=True),
        FunctionCallOutput(
            call_id="b", output="unsupported call: nothing; the tools are slow, fast", success=False
        ),
        CustomToolCallOutput(
            call_id="c",
            output="unsupported custom tool call: gone; the tools are slow, fast",
            success=False,
        ),
        FunctionCallOutput(call_id="d", output="fast ok", success=True),
    ]
    assert play.gateway.requests[1].base_count == len(first)
    ends = {event.call_id: event.status for event in play.supervisor.events_of(CallEnded)}
    assert ends == {"a": "completed", "b": "failed", "c": "failed", "d": "completed"}


async def test_a_call_runs_only_after_its_begin_is_journaled(autojump_clock):
    tool = FakeTool("tool")
    async with open_agent_harness(
        FAKE_AGENT_SPEC, [(done(call("tool")), END), FINAL], tools=[tool]
    ) as play:
        await play.supervisor.send_text("go")
        play.supervisor.journaling = False
        await play.supervisor.wait_for(CallBegan)
        await trio.sleep(5)
        assert tool.runs == []
        play.supervisor.acknowledge_all()
        await play.supervisor.wait_turns()
    assert len(tool.runs) == 1


async def test_no_model_reads_an_output_before_it_is_journaled(autojump_clock):
    tool = FakeTool("tool", FakeToolBehavior(seconds=1))
    async with open_agent_harness(
        FAKE_AGENT_SPEC, [(done(call("tool")), END), FINAL], tools=[tool]
    ) as play:
        await play.supervisor.send_text("go")
        await play.supervisor.wait_for(CallBegan)
        await trio.sleep(0.5)
        assert len(tool.runs) == 1
        play.supervisor.journaling = False
        await play.supervisor.wait_for(CallEnded)
        await trio.sleep(5)
        assert len(play.gateway.requests) == 1
        play.supervisor.acknowledge_all()
        await play.supervisor.wait_turns()
    assert len(play.gateway.requests) == 2


@pytest.mark.parametrize(
    ("tool", "item", "output", "status"),
    [
        (FakeTool("t", FakeToolBehavior(error="it broke")), call("t"), "it broke", "failed"),
        (FakeTool("t", FakeToolBehavior(verdict=Refuse(reason="no"))), call("t"), "no", "declined"),
        (
            FakeTool("t"),
            CustomToolCall(call_id="c", name="t", input=""),
            "tool t invoked with incompatible payload",
            "failed",
        ),
    ],
)
async def test_whatever_fails_is_an_output_and_the_turn_goes_on(
    autojump_clock, tool, item, output, status
):
    async with open_agent_harness(
        FAKE_AGENT_SPEC, [(done(item), END), FINAL], tools=[tool]
    ) as play:
        await play.supervisor.send_text("go")
        ending = await play.supervisor.wait_turns()
    assert isinstance(ending, TurnCompleted)
    assert [one.output for one in play.supervisor.items("tool")] == [output]
    assert [one.status for one in play.supervisor.events_of(CallEnded)] == [status]


async def test_what_needs_an_approval_is_refused_and_never_run(autojump_clock):
    tool = FakeTool("t", FakeToolBehavior(verdict=Ask(subject="`rm x`", cause="dangerous")))
    async with open_agent_harness(
        FAKE_AGENT_SPEC, [(done(call("t")), END), FINAL], tools=[tool]
    ) as play:
        await play.supervisor.send_text("go")
        await play.supervisor.wait_turns()
    assert tool.runs == []
    assert play.supervisor.events_of(CallEnded)[0].status == "declined"
    assert "Nobody can be asked" in play.supervisor.items("tool")[0].output


async def test_comments_and_silence_are_followed_up_three_times_at_most(autojump_clock):
    replies = [(done(commentary(f"note {n}")), END) for n in range(9)]
    async with open_agent_harness(FAKE_AGENT_SPEC, replies) as play:
        await play.supervisor.send_text("go")
        ending = await play.supervisor.wait_turns()
    assert len(play.gateway.requests) == 4
    assert ending.last_message == "note 3"


async def test_a_lost_stream_is_asked_again_with_what_was_whole(autojump_clock):
    lost = failed("stream_disconnected", retryable=True)
    replies = [(done(text_message("assistant", "first")), lost), (lost,), FINAL]
    async with open_agent_harness(FAKE_AGENT_SPEC, replies) as play:
        await play.supervisor.send_text("go")
        ending = await play.supervisor.wait_turns()
    assert ending.last_message == "done"
    assert play.gateway.inputs[1][-1] == text_message("assistant", "first")
    waits = [event.delay_s for event in play.supervisor.events_of(Waiting)]
    assert waits == [pytest.approx(0.2), pytest.approx(0.4)]


async def test_retries_end_and_the_agent_stays_usable(autojump_clock):
    lost = failed("overloaded", retryable=True, message="too busy")
    async with open_agent_harness(FAKE_AGENT_SPEC, [(lost,)] * 6 + [FINAL]) as play:
        await play.supervisor.send_text("go")
        ending = await play.supervisor.wait_turns()
        assert isinstance(ending, TurnFailed)
        assert (ending.kind, ending.message) == ("overloaded", "too busy")
        await play.supervisor.send_text("again", input_id="turn-2")
        assert isinstance(await play.supervisor.wait_turns(2), TurnCompleted)


async def test_an_overflow_fails_the_turn_and_says_what_to_do(autojump_clock):
    async with open_agent_harness(FAKE_AGENT_SPEC, [(failed("context_window_exceeded"),)]) as play:
        await play.supervisor.send_text("go")
        ending = await play.supervisor.wait_turns()
    assert ending.kind == "context_window_exceeded"
    assert "larger window" in ending.message


@pytest.mark.parametrize(
    "end", [failed("incomplete"), SampleCompleted(request_id=0, truncated=True)]
)
async def test_an_answer_cut_off_by_the_output_limit_is_a_truncated_turn(autojump_clock, end):
    async with open_agent_harness(FAKE_AGENT_SPEC, [(done(ANSWER), end)]) as play:
        await play.supervisor.send_text("go")
        ending = await play.supervisor.wait_turns()
    assert (type(ending), ending.truncated, ending.last_message) == (TurnCompleted, True, "done")


async def test_deltas_are_coalesced_and_bear_the_id_of_their_item(autojump_clock):
    pieces = [TextDelta(request_id=0, item_id="m1", delta=f"{n} ") for n in range(50)]
    reply = (
        SampleItemStarted(request_id=0, item_id="m1", kind="message"),
        *pieces,
        1.0,
        done(Message(role="assistant", content=(OutputText(text="all"),), id="m1")),
        END,
    )
    async with open_agent_harness(FAKE_AGENT_SPEC, [reply]) as play:
        await play.supervisor.send_text("go")
        await play.supervisor.wait_turns()
    arrived = play.supervisor.events_of(TextArrived)
    assert len(arrived) == 1
    assert arrived[0].delta == "".join(f"{n} " for n in range(50))
    assert arrived[0].item_id == play.supervisor.events_of(ItemCompleted)[-1].item_id


@pytest.mark.parametrize(
    ("tool", "hooks", "prepared"),
    [
        ("exec_command", (), True),
        ("mcp__any__tool", (), True),
        ("", (), True),  # a server that names the call later
        ("spawn_agent", (), False),
        ("update_plan", (), False),
        ("spawn_agent", (HOOK,), True),
    ],
)
async def test_a_command_is_prepared_only_for_a_call_that_may_start_one(
    autojump_clock, tool, hooks, prepared
):
    begun = SampleItemStarted(request_id=0, item_id="c", kind="function_call", tool=tool)
    spec = with_fields(FAKE_AGENT_SPEC, hooks=hooks)
    async with open_agent_harness(spec, [(begun, done(ANSWER), END)]) as play:
        await play.supervisor.send_text("go")
        await play.supervisor.wait_turns()
        assert play.tool_host.is_prewarmed is prepared


async def test_a_model_without_tools_is_offered_none_and_a_small_one_gets_little(autojump_clock):
    small = ModelInfo(
        slug="s", provider="local", wire="local", can_call_tools=False, short_prompt=True
    )
    async with open_agent_harness(
        FAKE_AGENT_SPEC, [FINAL], tools=[FakeTool("t")], model=small
    ) as play:
        await play.supervisor.send_text("hello")
        await play.supervisor.wait_turns()
    request = play.gateway.requests[0]
    assert request.tools == ()
    assert len(request.instructions) < 600
    assert play.gateway.inputs[0] == (text_message("user", "hello"),)


async def test_a_response_that_is_cut_off_has_ended_before_its_calls_have(autojump_clock):
    slow = FakeTool("slow", FakeToolBehavior(seconds=30))
    cut = (done(call("slow")), failed("stream_disconnected", retryable=True))
    async with open_agent_harness(FAKE_AGENT_SPEC, [cut, FINAL], tools=[slow]) as play:
        await play.supervisor.send_text("go")
        await play.supervisor.wait_turns()
    first, *_ = play.supervisor.events_of(TokenCount)
    events = play.supervisor.events
    assert (first.last, first.total) == (TokenUsage(), TokenUsage())
    assert events.index(first) < events.index(play.supervisor.events_of(CallEnded)[0])


async def test_a_gateway_that_says_it_is_at_the_request_is_waited_for(autojump_clock):
    waits = (300.0, SampleAlive(request_id=0)) * 12  # an hour, of a provider with 300 s of silence
    async with open_agent_harness(FAKE_AGENT_SPEC, [(*waits, *FINAL)]) as play:
        await play.supervisor.send_text("go")
        ending = await play.supervisor.wait_turns()
    assert isinstance(ending, TurnCompleted)
    assert len(play.gateway.requests) == 1


async def test_a_gateway_that_says_nothing_else_for_hours_is_given_up(autojump_clock):
    waits = (300.0, SampleAlive(request_id=0)) * 30
    async with open_agent_harness(FAKE_AGENT_SPEC, [waits, FINAL]) as play:
        await play.supervisor.send_text("go")
        ending = await play.supervisor.wait_turns()
    assert isinstance(ending, TurnCompleted)
    assert len(play.gateway.requests) == 2

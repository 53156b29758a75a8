"""Whatever a model and its gateway do, and whenever a person interrupts, the rules hold."""

from itertools import pairwise

import trio
from hypothesis import given, settings
from hypothesis import strategies as st
from trio.testing import MockClock

from swarm.mailbox.protocol.events import (
    CallBegan,
    CallEnded,
    Hello,
    ItemCompleted,
    TurnAborted,
    TurnCompleted,
    TurnFailed,
    TurnStarted,
)
from swarm.mailbox.protocol.items import (
    CustomToolCall,
    CustomToolCallOutput,
    FunctionCall,
    FunctionCallOutput,
    Message,
    OutputText,
    Reasoning,
)
from swarm.mailbox.protocol.ops import Deliver, Interrupt, Mail
from swarm.worker.policy.command_decision import Refuse
from swarm.worker.testing.agent_harness import END, done, failed, open_agent_harness
from swarm.worker.testing.fake_tools import FAKE_AGENT_SPEC, FakeTool, FakeToolBehavior

CALLS, OUTPUTS = FunctionCall | CustomToolCall, FunctionCallOutput | CustomToolCallOutput
NAMES = ("slow", "alone", "broken", "refused", "unknown")


def say(phase):
    return Message(role="assistant", content=(OutputText(text="x"),), phase=phase)


ITEMS = st.one_of(
    st.builds(
        FunctionCall, call_id=st.just("c"), name=st.sampled_from(NAMES), arguments=st.just("{}")
    ),
    st.builds(CustomToolCall, call_id=st.just("c"), name=st.sampled_from(NAMES), input=st.just("")),
    st.sampled_from([say(None), say("commentary"), say("final_answer"), Reasoning()]),
)
STEPS = st.one_of(ITEMS.map(done), st.floats(0.0, 3.0))
ENDS = st.sampled_from(
    [
        END,
        failed("stream_disconnected", retryable=True),
        failed("bad_request"),
        failed("incomplete"),
    ]
)
REPLIES = st.lists(
    st.tuples(st.lists(STEPS, max_size=6), ENDS).map(lambda pair: (*pair[0], pair[1])), max_size=6
)
DOINGS = st.lists(
    st.tuples(st.floats(0.0, 4.0), st.sampled_from(["words", "mail", "loud mail", "interrupt"])),
    max_size=6,
)


async def do(supervisor, what, number):
    match what:
        case "words":
            await supervisor.send_text("hi", input_id=f"words-{number}")
        case "interrupt":
            await supervisor.send_op(Interrupt())
        case _:
            mail = Mail(
                mail_id=f"mail-{number}", author="/root/a", recipient="/root", content="m",
                trigger_turn=what == "loud mail",
            )  # fmt: skip
            await supervisor.send_op(Deliver(mail=mail))


async def live_through(replies, doings):
    tools = [
        FakeTool("slow", FakeToolBehavior(seconds=2)),
        FakeTool("alone", FakeToolBehavior(seconds=1, parallel=False)),
        FakeTool("broken", FakeToolBehavior(error="broke")),
        FakeTool("refused", FakeToolBehavior(verdict=Refuse(reason="no"))),
    ]
    async with open_agent_harness(
        FAKE_AGENT_SPEC, [*replies, *[(done(say(None)), END)] * 40], tools=tools
    ) as play:
        await play.supervisor.send_text("go", input_id="words-first")
        for number, (seconds, what) in enumerate(doings):
            await trio.sleep(seconds)
            await do(play.supervisor, what, number)
        await trio.sleep(500)
        return play.supervisor.events, play.gateway.inputs, play.supervisor.items()


def check_turns(events):
    assert isinstance(events[0], Hello)
    running = None
    for event in events[1:]:
        match event:
            case TurnStarted(turn_id=turn_id):
                assert running is None
                running = turn_id
            case TurnCompleted() | TurnFailed() | TurnAborted():
                assert event.turn_id == running
                running = None
            case ItemCompleted() | CallBegan() | CallEnded():
                assert event.turn_id == running
    assert running is None


def check_input(items):
    """Outputs follow all items of their response, in call order, one for each call."""
    waiting = []
    for item in items:
        if isinstance(item, CALLS):
            waiting.append(item)
        elif isinstance(item, OUTPUTS):
            call = waiting.pop(0)
            assert item.call_id == call.call_id
            assert isinstance(item, CustomToolCallOutput) == isinstance(call, CustomToolCall)
        elif isinstance(item, Message) and item.role == "user":
            assert not waiting
    assert not waiting


@settings(max_examples=60, deadline=None)
@given(REPLIES, DOINGS)
def test_turns_never_overlap_histories_only_grow_and_every_call_is_answered(replies, doings):
    clock = MockClock(autojump_threshold=0)
    events, inputs, history = trio.run(live_through, replies, doings, clock=clock)
    check_turns(events)
    for before, after in pairwise(inputs):
        assert after[: len(before)] == before
    for one in inputs:
        check_input(one)
    check_input(history)
    begun = [event.call_id for event in events if isinstance(event, CallBegan)]
    assert len(begun) == len([event for event in events if isinstance(event, CallEnded)])
    words = {f"words-{number}" for number, (_, what) in enumerate(doings) if what == "words"}
    recorded = [event.item_id for event in events if isinstance(event, ItemCompleted)]
    assert words | {"words-first"} <= set(recorded)
    assert len(recorded) == len(set(recorded))

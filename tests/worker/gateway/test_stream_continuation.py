"""A text that broke off is joined exactly and shown once, wherever it broke; else it restarts."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from swarm.mailbox.protocol.items import FunctionCall, Message, OutputText, Reasoning, text_of
from swarm.mailbox.protocol.sampling import ModelInfo, ToolSpec
from swarm.worker.gateway.backend import (
    Failure,
    RenderedRequest,
    RequestWaiting,
    ResponseFinished,
    ResponseItemDone,
    ResponseItemStarted,
    ResponseReasoningDelta,
    ResponseTextDelta,
)
from swarm.worker.gateway.stream_continuation import (
    MAX_CONTINUATIONS,
    MIN_CHARS,
    ResponseContinuation,
)

MODEL = ModelInfo(slug="m", provider="p", wire="chat")
CUT = Failure(kind="stream_disconnected", message="cut", retryable=True)
TOOLS = (ToolSpec(name="exec_command", description="Run."),)
LONG = "a plain beginning of an answer, long enough to be worth going on with "


def request(**more):
    return RenderedRequest(
        agent_id="a",
        agent_path="/root",
        ordinal=1,
        model=MODEL,
        with_partial=lambda text: (b"partial:", text.encode()),
        tools=TOOLS,
        **more,
    )


def message(text, name):
    return ResponseItemDone(
        item=Message(role="assistant", content=(OutputText(text=text),), id=name)
    )


def hear(thread, *events):
    return [told for event in events for told in thread.filter_event(event)]


def begin(thread, text, name="m1"):
    return hear(
        thread,
        ResponseItemStarted(item_id=name, kind="message"),
        ResponseTextDelta(item_id=name, text=text),
    )


def said(events):
    return "".join(event.text for event in events if isinstance(event, ResponseTextDelta))


PIECES = st.lists(st.text(alphabet="ab \n", min_size=1, max_size=60), max_size=6)


@given(first=PIECES, rest=PIECES, echoes=st.booleans())
def test_what_is_said_and_what_is_kept_are_the_same_text_once(first, rest, echoes):
    thread = ResponseContinuation(request())
    told = begin(thread, LONG)
    told += hear(thread, *(ResponseTextDelta(item_id="m1", text=text) for text in first))
    sent = (LONG + "".join(first)).rstrip()
    again = thread.continuation_request(CUT)
    assert again is not None
    assert again.body == (b"partial:", sent.encode())
    more = ([sent[:9], sent[9:]] if echoes else []) + rest
    told += hear(
        thread,
        RequestWaiting(reason="r", delay_s=0),
        ResponseItemStarted(item_id="m2", kind="message"),
    )
    told += hear(thread, *(ResponseTextDelta(item_id="m2", text=text) for text in more))
    told += hear(thread, *([message("".join(more), "m2")] if more else []), ResponseFinished())
    (done,) = [event.item for event in told if isinstance(event, ResponseItemDone)]
    assert text_of(done.content) == sent + "".join(rest)
    assert (
        {event.item_id for event in told if isinstance(event, ResponseTextDelta)}
        == {done.id}
        == {"m1"}
    )
    shown = said(told)  # blanks at the break may have been shown, and are then not kept twice
    assert shown.replace(" ", "").replace("\n", "") == text_of(done.content).replace(
        " ", ""
    ).replace("\n", "")
    assert sum(isinstance(event, ResponseItemStarted) for event in told) == 1
    assert isinstance(told[-1], ResponseFinished)


def test_a_response_that_breaks_again_and_again_goes_on_while_it_gets_on():
    thread = ResponseContinuation(request())
    begin(thread, LONG)
    text = LONG
    for number in range(MAX_CONTINUATIONS):
        assert thread.continuation_request(CUT) is not None
        begin(thread, f"part {number} ", name=f"n{number}")
        text = f"{text.rstrip()}part {number} "
    assert thread.continuation_request(CUT) is None
    thread = ResponseContinuation(request())
    begin(thread, LONG)
    assert thread.continuation_request(CUT) is not None
    assert thread.continuation_request(CUT) is None  # nothing came since


def test_a_call_after_the_text_comes_behind_the_joined_message():
    thread = ResponseContinuation(request())
    begin(thread, LONG)
    assert thread.continuation_request(CUT) is not None
    call = ResponseItemDone(item=FunctionCall(call_id="c", name="exec_command", arguments="{}"))
    told = begin(thread, "and so I look", name="m2")
    told += hear(
        thread, ResponseItemStarted(item_id="c", kind="function_call"), call, ResponseFinished()
    )
    kinds = [type(event.item).__name__ for event in told if isinstance(event, ResponseItemDone)]
    assert kinds == ["Message", "FunctionCall"]
    assert thread.continuation_request(CUT) is None


THOUGHT = ResponseItemDone(item=Reasoning(content=("hm",), id="r"))


@pytest.mark.parametrize(
    ("events", "failure", "fields"),
    [
        ([ResponseTextDelta(item_id="m1", text="x" * (MIN_CHARS - 1))], CUT, {}),
        ([ResponseTextDelta(item_id="m1", text=LONG), THOUGHT], CUT, {}),
        (
            [
                ResponseReasoningDelta(item_id="r", text="hm"),
                ResponseTextDelta(item_id="m1", text=LONG),
            ],
            CUT,
            {},
        ),
        (
            [
                ResponseTextDelta(item_id="m1", text=LONG),
                ResponseItemStarted(item_id="c", kind="function_call"),
            ],
            CUT,
            {},
        ),
        (
            [
                ResponseTextDelta(item_id="m1", text=LONG),
                ResponseItemStarted(item_id="m2", kind="message"),
            ],
            CUT,
            {},
        ),
        ([ResponseTextDelta(item_id="m1", text=LONG + '<tool_call>{"name": "exec')], CUT, {}),
        ([ResponseTextDelta(item_id="m1", text='{"name": "exec_command", ' + LONG)], CUT, {}),
        ([ResponseTextDelta(item_id="m1", text="```json\n" + LONG)], CUT, {}),
        ([ResponseTextDelta(item_id="m1", text=LONG)], CUT, {"output_schema": b"{}"}),
        (
            [ResponseTextDelta(item_id="m1", text=LONG)],
            msgspec.structs.replace(CUT, retryable=False),
            {},
        ),
        (
            [ResponseTextDelta(item_id="m1", text=LONG)],
            Failure(kind="bad_request", message="no", retryable=True),
            {},
        ),
    ],
)
def test_what_is_more_than_plain_text_is_not_gone_on_with(events, failure, fields):
    thread = ResponseContinuation(request(**fields))
    hear(thread, ResponseItemStarted(item_id="m1", kind="message"), *events)
    assert thread.continuation_request(failure) is None


def test_a_wire_that_has_no_way_to_say_so_begins_again():
    thread = ResponseContinuation(msgspec.structs.replace(request(), with_partial=lambda text: ()))
    begin(thread, LONG)
    assert thread.continuation_request(CUT) is None

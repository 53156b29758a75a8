"""How answers of the Messages wire are read, odd and broken ones too."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from swarm.mailbox.protocol.items import FunctionCall, Message, Reasoning, TokenUsage
from swarm.worker.gateway.backend import (
    ResponseFinished,
    ResponseItemDone,
    ResponseItemStarted,
    ResponseReasoningDelta,
    ResponseTextDelta,
    SampleError,
)
from swarm.worker.gateway.messages_stream import MessagesStream
from swarm.worker.gateway.request_encoding import RedactedThinking, Thinking, unseal_block


def start(index, kind, **fields):
    return {
        "type": "content_block_start",
        "index": index,
        "content_block": {"type": kind, **fields},
    }


def grow(index, kind, **fields):
    return {"type": "content_block_delta", "index": index, "delta": {"type": kind, **fields}}


def stop(index):
    return {"type": "content_block_stop", "index": index}


def end(reason="end_turn", **usage):
    delta = {"stop_reason": reason}
    return [{"type": "message_delta", "delta": delta, "usage": usage}, {"type": "message_stop"}]


def text_block(index, *pieces):
    return [
        start(index, "text", text=""),
        *(grow(index, "text_delta", text=piece) for piece in pieces),
        stop(index),
    ]


def tool_block(index, *pieces, id="toolu_1", name="f"):
    return [
        start(index, "tool_use", id=id, name=name, input={}),
        *(grow(index, "input_json_delta", partial_json=piece) for piece in pieces),
        stop(index),
    ]


def read(*events):
    """All events; those so far are the error's second argument where one is raised."""
    ids = iter(range(100))
    stream = MessagesStream(provider="P", slug="m", new_id=lambda: str(next(ids)))
    found = []
    for event in events:
        data = event if isinstance(event, bytes) else msgspec.json.encode(event)
        found += stream.feed(data)
    return found + stream.finish()


def items_of(events):
    return [event.item for event in events if isinstance(event, ResponseItemDone)]


def failure(*events):
    with pytest.raises(SampleError) as caught:
        read(*events)
    return caught.value.failure


def test_text_arrives_in_pieces_and_then_whole():
    events = read(*text_block(0, "Hel", "lo"), *end())
    assert [type(event) for event in events] == [
        ResponseItemStarted, ResponseTextDelta, ResponseTextDelta, ResponseItemDone,
        ResponseFinished,
    ]  # fmt: skip
    (message,) = items_of(events)
    assert (message.content[0].text, message.id) == ("Hello", events[0].item_id)


def test_a_call_is_told_when_its_block_stops_and_not_at_the_end():
    stream = MessagesStream(provider="P", slug="m", new_id=lambda: "1")
    told = []
    for event in tool_block(0, '{"a"', ":1}"):
        told += stream.feed(msgspec.json.encode(event))
    assert items_of(told) == [FunctionCall(call_id="toolu_1", name="f", arguments='{"a":1}')]
    assert not stream.finished


@pytest.mark.parametrize(
    ("events", "arguments"),
    [
        (tool_block(0), "{}"),
        (tool_block(0, ""), "{}"),
        ([start(0, "tool_use", id="toolu_1", name="f", input={"b": 2}), stop(0)], '{"b":2}'),
    ],
)
def test_a_calls_input_is_read_from_all_its_forms(events, arguments):
    (call,) = items_of(read(*events, *end("tool_use")))
    assert call == FunctionCall(call_id="toolu_1", name="f", arguments=arguments)


def test_a_call_that_was_cut_off_at_the_output_limit_is_no_call():
    events = read(*text_block(0, "I "), *tool_block(1, '{"a":'), *end("max_tokens"))
    assert [type(item) for item in items_of(events)] == [Message]
    assert events[-1].truncated
    assert events[-1].end_turn is True


def test_broken_input_that_the_model_finished_reaches_the_tool_which_tells_it_so():
    events = read(*tool_block(0, '{"a":'), *end("tool_use"))
    assert [item.arguments for item in items_of(events)] == ['{"a":']


def test_thinking_is_shown_and_kept_with_its_signature():
    events = read(
        start(0, "thinking", thinking="", signature=""),
        grow(0, "thinking_delta", thinking="Let me "),
        grow(0, "thinking_delta", thinking="see"),
        grow(0, "signature_delta", signature="SIG=="),
        stop(0),
        start(1, "redacted_thinking", data="HIDDEN"),
        stop(1),
        start(2, "thinking", thinking="", signature=""),  # its text was not shown
        grow(2, "signature_delta", signature="S2"),
        stop(2),
        *text_block(3, "Yes."),
        *end(),
    )
    assert [event.text for event in events if isinstance(event, ResponseReasoningDelta)] == [
        "Let me ",
        "see",
    ]
    kept = [unseal_block(one, slug="m") for one in items_of(events) if isinstance(one, Reasoning)]
    assert kept == [
        Thinking(thinking="Let me see", signature="SIG=="),
        RedactedThinking(data="HIDDEN"),
        Thinking(thinking="", signature="S2"),
    ]


def test_usage_counts_cached_and_written_tokens_as_input():
    began = {
        "input_tokens": 3,
        "cache_read_input_tokens": 100,
        "cache_creation_input_tokens": 20,
        "output_tokens": 1,
    }
    first = {"type": "message_start", "message": {"id": "msg_9", "usage": began}}
    last = read(first, *text_block(0, "x"), *end(output_tokens=40))[-1]
    assert last.response_id == "msg_9"
    assert last.usage == TokenUsage(
        input_tokens=123,
        cached_input_tokens=100,
        cache_write_input_tokens=20,
        output_tokens=40,
        total_tokens=163,
    )


@pytest.mark.parametrize(
    ("reason", "end_turn", "truncated"),
    [
        ("end_turn", None, False),
        ("stop_sequence", None, False),
        ("tool_use", None, False),
        ("pause_turn", False, False),
        ("max_tokens", True, True),
        ("something_new", None, False),
    ],
)
def test_stop_reasons_say_whether_the_turn_goes_on(reason, end_turn, truncated):
    last = read(*text_block(0, "x"), *end(reason))[-1]
    assert (last.end_turn, last.truncated) == (end_turn, truncated)


@pytest.mark.parametrize(
    ("reason", "kind", "words"),
    [
        ("refusal", "bad_request", "declined"),
        ("model_context_window_exceeded", "context_window_exceeded", "context window"),
    ],
)
def test_stop_reasons_that_end_the_response_are_failures(reason, kind, words):
    said = failure(*text_block(0, "x"), *end(reason))
    assert (said.kind, said.retryable) == (kind, False)
    assert words in said.message


def test_a_refusal_tells_its_reason():
    details = {"category": "cyber", "explanation": "it looks like an attack"}
    delta = {"stop_reason": "refusal", "stop_details": details}
    said = failure({"type": "message_delta", "delta": delta}, {"type": "message_stop"})
    assert "it looks like an attack" in said.message


def test_an_output_limit_before_anything_was_said_names_the_key_to_change():
    said = failure(start(0, "thinking", thinking=""), stop(0), *end("max_tokens"))
    assert said.kind == "incomplete"
    assert "max_output_tokens" in said.message


@pytest.mark.parametrize(
    ("type_", "kind", "retryable", "scope"),
    [
        ("overloaded_error", "overloaded", True, "everyone"),
        ("rate_limit_error", "overloaded", True, "everyone"),
        ("api_error", "other", True, "final"),
        ("timeout_error", "other", True, "final"),
        ("authentication_error", "unauthorized", False, "final"),
        ("permission_error", "unauthorized", False, "final"),
        ("invalid_request_error", "bad_request", False, "final"),
        ("not_found_error", "bad_request", False, "final"),
        ("request_too_large", "bad_request", False, "final"),
        ("billing_error", "usage_limit_exceeded", False, "final"),
        (None, "other", True, "final"),
    ],
)
def test_errors_in_the_stream_have_their_kinds(type_, kind, retryable, scope):
    error = {"type": type_, "message": "so it is"}
    said = failure({"type": "error", "error": error, "request_id": "req_7"})
    assert (said.kind, said.retryable, said.scope) == (kind, retryable, scope)
    assert "so it is" in said.message
    assert "req_7" in said.message


def test_a_stream_that_ends_early_is_cut_off_and_what_was_whole_stays():
    stream = MessagesStream(provider="P", slug="m", new_id=lambda: "1")
    told = []
    for event in [*text_block(0, "whole"), start(1, "text", text="")]:
        told += stream.feed(msgspec.json.encode(event))
    assert len(items_of(told)) == 1
    with pytest.raises(SampleError) as caught:
        stream.finish()
    assert caught.value.failure.kind == "stream_disconnected"
    assert caught.value.failure.retryable


def test_an_end_after_the_stop_reason_is_complete():
    assert isinstance(read(*text_block(0, "x"), end()[0])[-1], ResponseFinished)


@pytest.mark.parametrize(
    "damaged",
    [
        b'{"type":"content_blo',
        b"\xff\xfe",
        b"null",
        b"[]",
        b'{"index":0}',
        b'{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"a\xffb"}}',
        grow(0, "text_delta", text=7),
        grow(0, "text_delta"),
        grow(0, "input_json_delta", partial_json="{}"),
        grow(0, "delta_of_tomorrow", text="NOT"),
        grow(1, "text_delta", text="of no block"),
        stop(1),
        start(0, "text", text=""),
        start(2, "text", text=""),
        start(1, "tool_use", id="t", name=""),
        {"type": "content_block_start", "index": 1},
        {"type": "content_block_delta", "delta": {"type": "text_delta", "text": "x"}},
        {"type": "message_start", "message": {"id": "msg_2"}},
        {"type": "message_stop"},
    ],
    ids=repr,
)
def test_what_cannot_be_read_or_does_not_fit_cuts_the_stream(damaged):
    said = failure(start(0, "text", text=""), grow(0, "text_delta", text="do "), damaged)
    assert (said.kind, said.retryable) == ("stream_disconnected", True)


def test_a_block_that_did_not_stop_is_not_used():
    for events in (tool_block(0, '{"a":1}')[:-1], text_block(0, "x")[:-1]):
        assert failure(*events, *end()).kind == "stream_disconnected"


def test_nothing_may_follow_the_stop_reason_and_an_end_without_one_is_none():
    assert failure(*text_block(0, "x"), end()[0], *text_block(1, "y")).kind == "stream_disconnected"
    assert failure(*text_block(0, "x"), end()[1]).kind == "stream_disconnected"


def test_pings_server_tools_and_counts_that_cannot_be_read_are_passed_over():
    events = read(
        {"type": "ping"},
        {"type": "of_tomorrow", "index": "three", "delta": 4},
        {"type": "message_start", "message": {"id": "m", "usage": {"input_tokens": 1.5}}},
        start(0, "server_tool_use", id="s", name="web_search", input={}),
        grow(0, "input_json_delta", partial_json="{}"),
        stop(0),
        start(1, "text", text=""),
        grow(1, "citations_delta", citation={}),
        grow(1, "text_delta", text="so"),
        stop(1),
        *end(),
    )
    assert [item.content[0].text for item in items_of(events)] == ["so"]


events = st.sampled_from(
    [
        *text_block(0, "x"),
        *tool_block(1, '{"a":', "1}"),
        *end("max_tokens"),
        *end("tool_use"),
        start(2, "thinking", thinking=""),
        {"type": "error"},
        {"type": "message_start"},
    ]
)


@given(st.lists(events, max_size=12))
def test_events_in_any_order_end_in_items_or_in_a_failure(found):
    try:
        told = read(*found)
    except SampleError:
        return
    assert isinstance(told[-1], ResponseFinished)
    assert sum(isinstance(event, ResponseFinished) for event in told) == 1

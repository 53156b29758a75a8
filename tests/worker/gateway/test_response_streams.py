"""How the answers of real servers are read, odd ones too."""

from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from swarm.mailbox.protocol.items import FunctionCall, ProviderItem, Reasoning, text_message
from swarm.mailbox.protocol.sampling import ModelInfo
from swarm.worker.gateway.backend import ResponseFinished, ResponseItemDone, SampleError
from swarm.worker.gateway.chat_stream import ChatStream
from swarm.worker.gateway.request_encoding import EncodingContext, HeadKey, RequestHeadCache
from swarm.worker.gateway.responses_request import ResponsesStore, encode_head
from swarm.worker.gateway.responses_stream import ResponsesStream


def read_chat(*chunks, tolerant=False, offered=("f",)):
    ids = iter(range(100))
    stream = ChatStream(
        provider="P",
        new_id=lambda: str(next(ids)),
        offered=frozenset(offered),
        tolerant=tolerant,
    )
    events = []
    for chunk in chunks:
        data = chunk if isinstance(chunk, bytes) else msgspec.json.encode(chunk)
        events += stream.feed(data)
    return events + stream.finish()


def delta(finish=None, **fields):
    return {"choices": [{"delta": fields, "finish_reason": finish}]}


def calls_in(events):
    return [
        (event.item.call_id, event.item.name, event.item.arguments)
        for event in events
        if isinstance(event, ResponseItemDone) and isinstance(event.item, FunctionCall)
    ]


@pytest.mark.parametrize(
    "pieces",
    [
        [{"index": 0, "id": "a", "function": {"name": "f", "arguments": "{}"}}],
        [{"id": "a", "function": {"name": "f"}}, {"function": {"arguments": "{}"}}],
        [{"index": 0, "id": "a", "function": {"name": "f", "arguments": {}}}],
        [
            {"index": 0, "id": "a", "function": {"name": "f", "arguments": None}},
            {"index": 0, "id": "a", "function": {"name": "f", "arguments": "{}"}},
        ],
        [{"index": 0, "id": "a", "function": {"name": "f"}}],
    ],
)
def test_calls_are_put_together_from_the_pieces_of_many_dialects(pieces):
    chunks = [delta(tool_calls=[piece]) for piece in pieces]
    assert calls_in(read_chat(*chunks, delta("tool_calls"))) == [("a", "f", "{}")]


def test_two_calls_with_one_index_stay_two():
    chunks = [
        delta(tool_calls=[{"index": 0, "id": name, "function": {"name": "f", "arguments": "{}"}}])
        for name in ("a", "b")
    ]
    assert calls_in(read_chat(*chunks, delta("stop"))) == [("a", "f", "{}"), ("b", "f", "{}")]


def test_an_answer_cut_by_its_length_is_kept_and_marked():
    events = read_chat(delta(content="half an ans"), delta("length"))
    assert isinstance(events[-1], ResponseFinished)
    assert (events[-1].truncated, events[-1].end_turn) == (True, True)


def test_a_call_cut_by_its_length_is_no_call():
    piece = {"index": 0, "id": "a", "function": {"name": "f", "arguments": '{"cmd": "rm'}}
    events = read_chat(delta(content="x"), delta(tool_calls=[piece]), delta("length"))
    assert calls_in(events) == []


def test_nothing_at_all_before_the_length_is_a_failure():
    with pytest.raises(SampleError) as caught:
        read_chat(delta("length"))
    assert (caught.value.failure.kind, caught.value.failure.retryable) == ("incomplete", False)


def test_reasoning_comes_under_three_names():
    for field in ({"reasoning": "hm"}, {"reasoning_content": "hm"}, {"reasoning": {"text": "hm"}}):
        events = read_chat(delta(**field), delta(content="so"), delta("stop"))
        assert events[-3].item == Reasoning(content=("hm",), id="rs_0")


def test_a_call_written_as_text_is_read_only_where_that_is_on():
    text = '<tool_call>{"name": "f", "arguments": {"x": 1}}</tool_call>'
    chunks = (delta(content=text), delta("stop"))
    assert calls_in(read_chat(*chunks)) == []
    assert [made[1:] for made in calls_in(read_chat(*chunks, tolerant=True))] == [("f", '{"x":1}')]


def test_an_error_in_a_chat_stream_is_a_failure():
    with pytest.raises(SampleError, match="boom"):
        read_chat({"error": {"message": "boom"}})


payloads = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    *(
                        "type",
                        "delta",
                        "item",
                        "response",
                        "choices",
                        "content",
                        "id",
                        "tool_calls",
                    ),
                    *("function", "arguments", "finish_reason", "usage", "error", "index"),
                ]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(st.lists(payloads | st.binary(max_size=20), max_size=8))
def test_no_payload_breaks_a_stream(chunks):
    for stream in (
        ResponsesStream(provider="P", new_id=lambda: "x"),
        ChatStream(provider="P", new_id=lambda: "x", offered=frozenset({"f"}), tolerant=True),
    ):
        try:
            for chunk in chunks:
                stream.feed(chunk if isinstance(chunk, bytes) else msgspec.json.encode(chunk))
            stream.finish()
        except SampleError:
            pass


def test_items_told_only_at_the_end_are_taken_from_there():
    stream = ResponsesStream(provider="P", new_id=lambda: "x")
    item = {"type": "function_call", "name": "f", "arguments": {"a": 1}}
    done = {"type": "response.completed", "response": {"id": "r", "output": [item]}}
    events = stream.feed(msgspec.json.encode(done))
    assert calls_in(events) == [("call_x", "f", '{"a":1}')]


@pytest.mark.parametrize(
    ("event", "kind"),
    [
        (
            {"type": "response.incomplete", "response": {"incomplete_details": {"reason": "r"}}},
            "incomplete",
        ),
        (
            {"type": "response.failed", "response": {"error": {"code": "x", "message": "m"}}},
            "other",
        ),
        ({"type": "error", "code": "insufficient_quota", "message": "m"}, "usage_limit_exceeded"),
        ({"type": "error", "error": {"message": "m"}}, "other"),
    ],
)
def test_what_ends_a_response_early(event, kind):
    stream = ResponsesStream(provider="P", new_id=lambda: "x")
    with pytest.raises(SampleError) as caught:
        stream.feed(msgspec.json.encode(event))
    assert caught.value.failure.kind == kind


SEARCH = {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"q": "ü"}}
LOCAL = {"type": "local_shell_call", "call_id": "c1", "action": {"command": ["ls"]}}


def items_of(*items):
    """The items that a stream of the Responses wire with these `done` items yields."""
    stream = ResponsesStream(provider="P", new_id=lambda: "new", provider_id="p")
    events = []
    for item in items:
        done = {"type": "response.output_item.done", "item": item}
        events += stream.feed(msgspec.json.encode(done))
    return [event.item for event in events]


def sent_back(item, *, provider="p"):
    model = ModelInfo(slug="m", provider=provider, wire="responses")
    context = EncodingContext(blobs_dir=Path("/nowhere"), model=model)
    store = ResponsesStore(context, RequestHeadCache(encode_head))
    for one in (text_message("user", "hi"), item, text_message("user", "on")):
        store.append(one)
    body = b"".join(store.body(HeadKey(model=model, instructions="I"), "a"))
    return msgspec.json.decode(body)["input"][1:-1]


def test_an_item_that_only_the_provider_knows_goes_back_to_it_as_it_came():
    (item,) = items_of(SEARCH)
    assert (item.kind, item.provider, item.id) == ("web_search_call", "p", "ws_1")
    assert msgspec.json.decode(item.json) == SEARCH
    assert sent_back(item) == [{name: SEARCH[name] for name in SEARCH if name != "id"}]
    assert sent_back(item, provider="another") == []


def test_a_local_call_goes_back_with_the_output_that_the_wire_requires():
    (item,) = items_of(LOCAL)
    called, output = sent_back(item)
    assert called == LOCAL
    assert output == {
        "type": "function_call_output",
        "call_id": "c1",
        "output": "not run: this tool was not offered",
    }


@pytest.mark.parametrize(
    "item",
    [
        {"type": "computer_call", "call_id": "c1"},  # its output is a screenshot
        {"type": "function_call_output", "call_id": "c1", "output": "forged"},
        {"type": "mcp_output"},
        {"type": ""},
        {"type": "compaction"},
        {"type": "image_generation_call", "result": "A" * 300_000},
    ],
)
def test_an_item_that_cannot_go_back_is_left_out(item):
    assert items_of(item) == []


@pytest.mark.parametrize("text", ["", "{", "[]", '{"type":"local_shell_call"}'])
def test_an_item_that_a_journal_has_changed_is_left_out(text):
    assert sent_back(ProviderItem(kind="local_shell_call", provider="p", json=text)) == []

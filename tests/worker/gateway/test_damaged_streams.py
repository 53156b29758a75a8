"""What is used of a stream is exactly what was sent, or nothing: any wire, any cuts, any damage."""

import itertools
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swarm.mailbox.protocol.items import FunctionCall, Message, Reasoning
from swarm.worker.gateway.backend import (
    ResponseFinished,
    ResponseItemDone,
    ResponseReasoningDelta,
    ResponseTextDelta,
    SampleError,
)
from swarm.worker.gateway.chat_stream import ChatStream
from swarm.worker.gateway.messages_stream import MessagesStream
from swarm.worker.gateway.responses_stream import ResponsesStream
from swarm.worker.gateway.sse import MOST_CHARS, SseSplitter

WIRES = ("chat", "messages", "responses")


def open_stream(wire):
    ids = iter(range(10_000))
    how = {"provider": "P", "new_id": lambda: str(next(ids))}
    match wire:
        case "chat":
            return ChatStream(**how, offered=frozenset({"f"}), tolerant=False)
        case "messages":
            return MessagesStream(**how, slug="m")
        case _:
            return ResponsesStream(**how)


def read(wire, chunks):
    """The events of a stream of bytes, and why it was cut."""
    splitter, stream = SseSplitter(), open_stream(wire)
    events = []
    try:
        for chunk in chunks:
            for payload in splitter.feed(chunk):
                events += stream.feed(payload)
        for payload in splitter.finish():
            events += stream.feed(payload)
        events += stream.finish()
    except SampleError as error:
        return events, error.failure
    return events, None


def used(events):
    """What an agent would keep: texts, thoughts, and arguments of calls."""
    kept = []
    for event in events:
        match event:
            case ResponseItemDone(item=Message(content=(part,))):
                kept.append(part.text)
            case ResponseItemDone(item=Reasoning(content=(text,))):
                kept.append(text)
            case ResponseItemDone(item=FunctionCall(arguments=arguments)):
                kept.append(arguments)
    return kept


def shown(events, kind):
    return "".join(event.text for event in events if isinstance(event, kind))


# --- an answer, as each wire sends it ------------------------------------------------------------


def halves_of(text):
    """The code units of a text, as characters: what a server that cuts anywhere counts in."""
    data = text.encode("utf-16-le")
    return "".join(chr(data[at] | data[at + 1] << 8) for at in range(0, len(data), 2))


def cut(text, places):
    units = halves_of(text)
    edges = sorted({0, len(units), *(place for place in places if place < len(units))})
    return [units[a:b] for a, b in itertools.pairwise(edges)]


def chat_events(thought, text, arguments):
    chunks = [{"reasoning_content": piece} for piece in thought]
    chunks += [{"content": piece} for piece in text]
    begun = {"index": 0, "id": "c", "function": {"name": "f", "arguments": ""}}
    chunks.append({"tool_calls": [begun]})
    chunks += [
        {"tool_calls": [{"index": 0, "function": {"arguments": piece}}]} for piece in arguments
    ]
    events = [{"choices": [{"index": 0, "delta": chunk}]} for chunk in chunks]
    return [*events, {"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]}]


def messages_events(thought, text, arguments):
    events = [{"type": "message_start", "message": {"id": "m"}}]
    kinds = (
        ("thinking", "thinking_delta", "thinking", thought),
        ("text", "text_delta", "text", text),
        ("tool_use", "input_json_delta", "partial_json", arguments),
    )
    for index, (kind, delta, name, pieces) in enumerate(kinds):
        block = {"type": kind, "id": "c", "name": "f"} if kind == "tool_use" else {"type": kind}
        events.append({"type": "content_block_start", "index": index, "content_block": block})
        events += [
            {
                "type": "content_block_delta",
                "index": index,
                "delta": {"type": delta, name: piece},
            }
            for piece in pieces
        ]
        events.append({"type": "content_block_stop", "index": index})
    events.append({"type": "message_delta", "delta": {"stop_reason": "tool_use"}})
    return [*events, {"type": "message_stop"}]


def joined(pieces):
    return "".join(pieces).encode("utf-16-le", "surrogatepass").decode("utf-16-le")


def responses_events(thought, text, arguments):
    parts = (
        ({"type": "reasoning", "id": "r"}, "reasoning_text", thought),
        ({"type": "message", "id": "t"}, "output_text", text),
        ({"type": "function_call", "id": "f", "name": "f", "call_id": "c"}, "", arguments),
    )
    events = []
    for item, delta, pieces in parts:
        events.append({"type": "response.output_item.added", "item": item})
        if delta:
            events += [
                {"type": f"response.{delta}.delta", "item_id": item["id"], "delta": piece}
                for piece in pieces
            ]
            whole = {"content": [{"type": delta, "text": joined(pieces)}]}
        else:
            whole = {"arguments": joined(pieces)}
        events.append({"type": "response.output_item.done", "item": {**item, **whole}})
    return [*events, {"type": "response.completed", "response": {"id": "x"}}]


def lines_of(wire, answer, *, ascii_only):
    make = {"chat": chat_events, "messages": messages_events, "responses": responses_events}[wire]
    lines = []
    for event in make(*answer):
        try:
            data = json.dumps(event, ensure_ascii=ascii_only).encode()
        except UnicodeEncodeError:  # half a character has no other form
            data = json.dumps(event).encode()
        lines.append(data)
    return lines


def stream_of(lines):
    return b"".join(b"data: " + line + b"\n\n" for line in lines)


words = st.text(st.sampled_from('ab😀é\\"\n\ud7ff\U0010f7ff\u2028{}'), min_size=1, max_size=12)
places = st.lists(st.integers(1, 24), max_size=6)


@st.composite
def answers(draw):
    thought, text, command = draw(words), draw(words), draw(words)
    arguments = json.dumps({"cmd": command}, ensure_ascii=draw(st.booleans()))
    whole = [thought, text, arguments]
    return whole, [cut(one, draw(places)) for one in whole]


@given(st.sampled_from(WIRES), answers(), st.booleans(), st.lists(st.integers(0, 3000), max_size=9))
def test_however_it_is_cut_what_is_used_is_exactly_what_was_sent(wire, answer, ascii_only, cuts):
    whole, pieces = answer
    stream = stream_of(lines_of(wire, pieces, ascii_only=ascii_only))
    edges = sorted({0, len(stream), *(place for place in cuts if place < len(stream))})
    events, failed = read(wire, [stream[a:b] for a, b in itertools.pairwise(edges)])
    assert failed is None
    assert used(events) == whole
    assert [shown(events, ResponseReasoningDelta), shown(events, ResponseTextDelta)] == whole[:2]
    assert isinstance(events[-1], ResponseFinished)


def damaged(line, how, where):
    where = where % (len(line) - 1) + 1
    return {
        "half": line[:where],
        "rest": line[where:],
        "byte": line[:where] + b"\xff" + line[where:],
        "newline": line[:where] + b"\n" + line[where:],
        "quote": line[:-1] + b'"}',
        "null": b"null",
        "list": b"[" + line + b"]",
        "text": json.dumps(line.decode()).encode(),
        "twice": line + line,
        "deep": b'{"type":' + b"[" * 6000 + b"]" * 6000 + b"}",
    }[how]


HOW = ("half", "rest", "byte", "newline", "quote", "null", "list", "text", "twice", "deep")


@given(
    st.sampled_from(WIRES), answers(), st.sampled_from(HOW), st.integers(0, 99), st.integers(0, 999)
)
def test_a_damaged_event_is_never_passed_over(wire, answer, how, which, where):
    whole, pieces = answer
    lines = lines_of(wire, pieces, ascii_only=True)
    which %= len(lines)
    lines[which] = damaged(lines[which], how, where)
    events, failed = read(wire, [stream_of(lines)])
    assert used(events) == whole[: len(used(events))]
    assert failed is not None
    assert (failed.kind, failed.retryable) == ("stream_disconnected", True)
    assert len(failed.message) < 300


@given(st.sampled_from(WIRES), answers(), st.integers(0, 5000))
def test_a_stream_that_ends_anywhere_gives_whole_items_alone(wire, answer, place):
    whole, pieces = answer
    stream = stream_of(lines_of(wire, pieces, ascii_only=False))
    events, failed = read(wire, [stream[: place % len(stream)]])
    kept = used(events)
    assert kept == whole[: len(kept)]
    assert failed is not None or kept == whole


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("text", ["a\ud83d", "\ude00a", "\ud83d\ud83d\ude00", "a\ude00\ud83d"])
def test_half_a_character_that_stays_alone_cuts_the_stream(wire, text):
    lines = lines_of(wire, [["hm"], ["x"], ["{}"]], ascii_only=True)
    lines = [line.replace(b'"x"', json.dumps(text).encode()) for line in lines]
    events, failed = read(wire, [stream_of(lines)])
    assert failed is not None
    assert used(events) in ([], ["hm"])


@pytest.mark.parametrize("wire", ["chat", "messages"])
@pytest.mark.parametrize("ascii_only", [True, False])
def test_a_character_that_stands_in_for_a_half_is_never_taken_for_one(wire, ascii_only):
    odd = "\U0010f83d\U0010ffff"
    for text, fits in (([odd], True), ([odd, "\ud83d", "\ude00"], True), ([odd + "\ud83d"], False)):
        data = [["hm"], text, ["{}"]]
        lines = lines_of(wire, data, ascii_only=ascii_only)
        events, failed = read(wire, [stream_of(lines)])
        assert (failed is None) == fits
        if fits:
            assert used(events)[1] == joined(text)
    lines = [b'{"type":"x","choices":[{"delta":{"content":"' + odd.encode() + b'\\ud83d"}}]}']
    assert read("chat", [stream_of(lines)])[1] is not None


def test_a_command_is_not_joined_around_an_event_that_cannot_be_read():
    arguments = ['{"cmd":"rm -rf build/', "tmp", '"}']
    for wire in ("chat", "messages"):
        lines = lines_of(wire, [["hm"], ["ok"], arguments], ascii_only=True)
        lost = [line.replace(b'"tmp"', b'"tm') if b'"tmp"' in line else line for line in lines]
        assert lost != lines
        events, failed = read(wire, [stream_of(lost)])
        assert failed is not None
        assert not any("rm" in one for one in used(events))


CHAT_ODDITIES = [
    [{"tool_calls": [{"index": 0, "function": {"arguments": "{}"}}]}],
    [{"tool_calls": [{"index": 0, "id": "a", "function": {"arguments": "{}"}}]}],
    [{"tool_calls": [{"index": 0, "id": "a", "function": {"name": "f"}}]},
     {"tool_calls": [{"index": 0, "function": {"name": "g"}}]}],
    [{"tool_calls": [{"index": 0, "id": "a", "function": {"name": "f", "arguments": {}}}]},
     {"tool_calls": [{"index": 0, "function": {"arguments": "{}"}}]}],
    [{"function_call": {"name": "f", "arguments": "{}"}}],
    [{"content": [{"type": "image", "image": "x"}]}],
    [{"content": 7}],
]  # fmt: skip


@pytest.mark.parametrize("deltas", CHAT_ODDITIES, ids=repr)
def test_pieces_of_a_chat_that_do_not_fit_cut_the_stream(deltas):
    events = [{"choices": [{"delta": delta}]} for delta in deltas]
    events.append({"choices": [{"delta": {}, "finish_reason": "stop"}]})
    told, failed = read("chat", [stream_of([json.dumps(event).encode() for event in events])])
    assert failed is not None and failed.kind == "stream_disconnected"
    assert used(told) == []


@pytest.mark.parametrize(
    "choices",
    [
        [{"delta": {"content": "a"}}, {"index": 1, "delta": {"content": "b"}}],
        [{"delta": {"content": "a"}}, {"message": {"content": "a"}}],
        [{"finish_reason": "stop"}, {"delta": {"content": "late"}}],
        [{"delta": {"content": "a"}, "finish_reason": "network_error"}],
    ],
)
def test_another_answer_a_late_piece_or_a_broken_server_cut_a_chat(choices):
    lines = [json.dumps({"choices": [choice]}).encode() for choice in choices]
    lines.append(json.dumps({"choices": [{"delta": {}, "finish_reason": None}]}).encode())
    _, failed = read("chat", [stream_of(lines)])
    assert failed is not None and failed.kind == "stream_disconnected"


@pytest.mark.parametrize(
    "item",
    [
        {"type": "function_call", "arguments": "{}"},
        {"type": "function_call", "name": "f", "arguments": 7},
        {"type": "custom_tool_call", "name": "f"},
        {"type": "message", "content": "no parts"},
        None,
    ],
)
def test_an_item_of_a_response_that_cannot_be_read_cuts_the_stream(item):
    event = {"type": "response.output_item.done", "item": item}
    _, failed = read("responses", [stream_of([json.dumps(event).encode()])])
    assert failed is not None and failed.kind == "stream_disconnected"


def test_a_response_whose_item_never_came_whole_is_cut():
    call = {"type": "function_call", "id": "f", "name": "f"}
    events = [
        {"type": "response.output_item.added", "item": call},
        {"type": "response.completed", "response": {"id": "r"}},
    ]
    _, failed = read("responses", [stream_of([json.dumps(event).encode() for event in events])])
    assert failed is not None and failed.kind == "stream_disconnected"


def test_a_call_in_whose_middle_the_model_was_stopped_is_not_used():
    call = {"type": "custom_tool_call", "name": "p", "input": "*** Beg", "status": "incomplete"}
    event = {"type": "response.output_item.done", "item": call}
    events, _ = read("responses", [stream_of([json.dumps(event).encode()])])
    assert not any(isinstance(one, ResponseItemDone) for one in events)


@pytest.mark.parametrize("wire", WIRES)
def test_what_follows_the_end_is_not_read_any_more(wire):
    lines = lines_of(wire, [["hm"], ["x"], ["{}"]], ascii_only=True)
    done = [b"[DONE]"] if wire == "chat" else []
    events, failed = read(wire, [stream_of([*lines, *done, lines[1], b"{nonsense"])])
    assert failed is None
    assert used(events) == ["hm", "x", "{}"]


@pytest.mark.parametrize("wire", WIRES)
def test_a_response_that_never_ends_is_refused_and_not_kept(wire):
    piece = "x" * (1 << 20)
    pieces = [piece] * (MOST_CHARS // len(piece) + 1)
    _, failed = read(wire, [stream_of(lines_of(wire, [["h"], pieces, ["{}"]], ascii_only=True))])
    assert (failed.kind, failed.retryable) == ("bad_response", False)

"""The Responses and the Messages wire as servers other than their makers speak them: every oddity
that is known of the chat wire is read here as well, and no oddity makes an answer out of a gap.
"""

import json

import pytest

from swarm.mailbox.protocol.items import FunctionCall, Message, Origin, Reasoning, text_of
from swarm.worker.gateway.backend import (
    ResponseFinished,
    ResponseItemDone,
    ResponseTextDelta,
    SampleError,
)
from swarm.worker.gateway.messages_stream import MessagesStream
from swarm.worker.gateway.responses_stream import ResponsesStream
from swarm.worker.gateway.sse import SseSplitter

TOOLS = frozenset({"exec_command", "list_dir"})
LS, PWD = '{"cmd":"ls"}', '{"cmd":"pwd"}'
SAID, CALLED = ("text", "Hi"), ("exec_command", {"cmd": "ls"})
BOTH = [SAID, CALLED]


def events_of(wire, payloads):
    ids = iter(range(100))
    how = {"provider": "P", "new_id": lambda: str(next(ids))}
    stream = MessagesStream(**how, slug="m") if wire == "messages" else ResponsesStream(**how)
    stream.offered_tools, stream.origin = TOOLS, Origin(provider="p", model="m")
    told = []
    for payload in payloads:
        told += stream.feed(payload if isinstance(payload, bytes) else json.dumps(payload).encode())
    return [*told, *stream.finish()]


def answer(told):
    """Texts and calls, in their order."""
    made = []
    for event in told:
        match event:
            case ResponseItemDone(item=Message(content=content)):
                made.append(("text", text_of(content)))
            case ResponseItemDone(item=FunctionCall(name=name, arguments=arguments)):
                made.append((name, json.loads(arguments)))
    return made


def usage(told):
    return next(event.usage for event in told if isinstance(event, ResponseFinished))


def fault(wire, payloads):
    with pytest.raises(SampleError) as caught:
        events_of(wire, payloads)
    return caught.value.failure


# --- messages ------------------------------------------------------------------------------------


def start(index, kind, **fields):
    return {"type": "content_block_start", "index": index, "content_block": {"type": kind} | fields}


def grow(index, kind, **fields):
    return {"type": "content_block_delta", "index": index, "delta": {"type": kind} | fields}


def stop(index):
    return {"type": "content_block_stop", "index": index}


def told_end(reason="tool_use", **counts):
    return {"type": "message_delta", "delta": {"stop_reason": reason}, "usage": counts}


BEGUN = {"type": "message_start", "message": {"id": "m", "usage": {"input_tokens": 5}}}
TEXT = [start(0, "text", text=""), grow(0, "text_delta", text="Hi"), stop(0)]
CALL = [
    start(1, "tool_use", id="t1", name="exec_command", input={}),
    grow(1, "input_json_delta", partial_json=LS[:5]),
    grow(1, "input_json_delta", partial_json=LS[5:]),
    stop(1),
]
END = [told_end(), {"type": "message_stop"}]


def numbered(events, index):
    if index is None:
        return [{key: value for key, value in one.items() if key != "index"} for one in events]
    return [one | {"index": index} for one in events]


def with_input(given, *deltas):
    block = start(1, "tool_use", id="t1", name="exec_command", input=given)
    return [BEGUN, *TEXT, block, *(grow(1, "input_json_delta", partial_json=one) for one in deltas),
            stop(1), *END]  # fmt: skip


@pytest.mark.parametrize(
    "events",
    [
        [BEGUN, *numbered([*TEXT, *CALL], None), *END],
        [BEGUN, *numbered([*TEXT, *CALL], 0), *END],
        [BEGUN, *numbered(TEXT, "0"), *numbered(CALL, "1"), *END],
        [BEGUN, *numbered(TEXT, 0.0), *numbered(CALL, 1.0), *END],
        [BEGUN, *numbered(TEXT, 3), *numbered(CALL, 1), *END],
        [*TEXT, *CALL, *END],
        [BEGUN, BEGUN, *TEXT, *CALL, *END],
        [BEGUN, *TEXT, stop(0), *CALL, stop(1), *END, *END],
        [BEGUN, *TEXT, *CALL, told_end(), told_end(), {"type": "message_stop"}],
        [BEGUN, *TEXT, *CALL[:-1], told_end(), stop(1), {"type": "message_stop"}],
        [BEGUN, *TEXT, *CALL, told_end()],
        [BEGUN, *TEXT, *CALL, told_end(), b"[DONE]"],
        [BEGUN, *TEXT, *CALL, b"[DONE]"],
        [BEGUN, *TEXT, *CALL, {"type": "message_stop", "stop_reason": "tool_use"}],
        [BEGUN, *TEXT, *CALL, {"type": "message_delta", "stop_reason": "tool_use"}, END[1]],
        [b"{}", BEGUN, {"type": "ping"}, *TEXT, {"type": "keep_alive"}, b"", b" \n", *CALL, *END],
        [BEGUN, TEXT[0], {**TEXT[1], "delta": None}, {**TEXT[1], "delta": {}},
         grow(0, "text_delta", text=None), grow(0, "text_delta", text=""), *TEXT[1:], *CALL, *END],
        [BEGUN, *TEXT, CALL[0], grow(1, "input_json_delta", partial_json=None),
         grow(1, "text_delta", text=""), *CALL[1:], *END],
        with_input({"cmd": "ls"}),
        with_input({"cmd": "ls"}, LS),
        with_input("", LS),
        with_input(LS),
        with_input({}, {"cmd": "ls"}),
        with_input(None, LS),
    ],
)  # fmt: skip
def test_an_answer_on_the_messages_wire_is_read_as_its_server_meant_it(events):
    assert answer(events_of("messages", events)) == BOTH


def test_blocks_that_arrive_at_the_same_time_are_told_apart_by_their_numbers():
    call = numbered(CALL, 1)
    events = [BEGUN, TEXT[0], call[0], TEXT[1], call[1], call[2], stop(1), stop(0), *END]
    assert answer(events_of("messages", events)) == [CALLED, SAID]


@pytest.mark.parametrize(
    "events",
    [
        [BEGUN, *numbered([TEXT[0], CALL[0], TEXT[1]], None)],
        [BEGUN, TEXT[0], {**TEXT[1], "delta": {"text": "x"}}],
        [BEGUN, TEXT[0], *numbered(TEXT[1:2], None)],
        [BEGUN, *numbered(TEXT[:2], None), {**TEXT[1], "index": 1}],
        [BEGUN, TEXT[0], TEXT[0]],
        [BEGUN, TEXT[0], grow(0, "delta_of_tomorrow", text="x")],
        [BEGUN, *TEXT, grow(0, "text_delta", text="late")],
        [BEGUN, TEXT[0], TEXT[1], {"kind": "content_block_delta"}],
        [BEGUN, TEXT[0], TEXT[1], b"[DONE]"],
        [BEGUN, *TEXT, stop(4)],
        [BEGUN, b"[DONE]"],
    ],
)
def test_what_may_have_lost_a_piece_on_the_messages_wire_cuts_the_stream(events):
    assert fault("messages", events).kind == "stream_disconnected"


def test_usage_counts_wherever_the_messages_wire_tells_it():
    late = {"type": "message_stop", "usage": {"input_tokens": 9, "output_tokens": 2}}
    for events, sent in (
        ([BEGUN, *TEXT, told_end("end_turn"), late], 9),
        ([BEGUN, *TEXT, told_end("end_turn", input_tokens="7"), END[1]], 7),
        ([*TEXT, told_end("end_turn"), END[1]], 0),
    ):
        assert usage(events_of("messages", events)).input_tokens == sent


@pytest.mark.parametrize("reason", ["max_tokens", "length"])
def test_a_message_that_was_stopped_at_its_limit_is_marked(reason):
    told = events_of("messages", [BEGUN, *TEXT, *CALL[:2], stop(1), told_end(reason), END[1]])
    assert answer(told) == [SAID]
    assert told[-1].truncated


# --- responses -----------------------------------------------------------------------------------


def added(item):
    return {"type": "response.output_item.added", "item": item}


def done(item):
    return {"type": "response.output_item.done", "item": item}


def message(text="Hi", **fields):
    content = [{"type": "output_text", "text": text}] if text else []
    return {"type": "message", "id": "m1", "role": "assistant", "content": content} | fields


def call(arguments=LS, **fields):
    names = {"id": "f1", "call_id": "c1", "name": "exec_command"}
    return {"type": "function_call", "arguments": arguments} | names | fields


def without(item, *names):
    return {name: value for name, value in item.items() if name not in names}


def piece(text, **fields):
    return {"type": "response.output_text.delta", "item_id": "m1", "delta": text} | fields


def arguments(text, item_id="f1"):
    kind = "response.function_call_arguments.delta"
    return {"type": kind, "item_id": item_id, "delta": text}


def completed(*output, **fields):
    response = {"id": "r", "usage": {"input_tokens": 5}, "output": list(output)} | fields
    return {"type": "response.completed", "response": response}


BEGUN_BOTH = [
    added(message("")),
    piece("Hi"),
    added(call("")),
    arguments(LS[:5]),
    arguments(LS[5:]),
]
DONE_BOTH = [done(message()), done(call())]


@pytest.mark.parametrize(
    "events",
    [
        [*BEGUN_BOTH, *DONE_BOTH, completed()],
        [*DONE_BOTH, completed(message(), call())],
        [*DONE_BOTH, completed(message(id="other"), call(id="other", call_id="other"))],
        [completed(message(), call())],
        [*BEGUN_BOTH, completed(message(), call())],
        [*BEGUN_BOTH, completed()],
        [*BEGUN_BOTH, done(message()), completed(message(), call())],
        [done(message()), completed(message(), call())],
        [*BEGUN_BOTH, done(message("")), done(call("")), completed()],
        [*BEGUN_BOTH, done(message("")), done(call(None)), completed()],
        [*BEGUN_BOTH, done(message(None)), done(without(call(), "arguments")), completed()],
        [*BEGUN_BOTH, done(message()), done(without(call(), "name", "id")), completed()],
        [done(message()), done(message()), done(call()), done(call()), completed()],
        [*BEGUN_BOTH[:1], *BEGUN_BOTH, BEGUN_BOTH[2], *DONE_BOTH, completed()],
        [*BEGUN_BOTH, *DONE_BOTH, completed(), completed()],
        [*DONE_BOTH, b"[DONE]"],
        [added(message(id=1)), piece("Hi", item_id=1), done(message(id=1)), done(call(id=2)),
         completed()],
        [added(message("", id="a")), piece("Hi", item_id="b"), done(message(id="c")), done(call()),
         completed()],
        [done(without(message(), "id")), done(without(call(), "id", "call_id")), completed()],
        [done(message(content="Hi")), done(call({"cmd": "ls"})), completed()],
        [done(message(content=["Hi"])), done(call(status="in_progress")), completed()],
        [b"{}", {"type": "keepalive"}, added(message("")), piece(None), piece(""), piece("Hi"),
         {"type": "response.heartbeat"}, *DONE_BOTH, completed()],
        [added(message("")), {"type": "response.output_text.done", "item_id": "m1", "text": "Hi"},
         added(call("")), {"type": "response.function_call_arguments.done", "item_id": "f1",
                           "arguments": LS}, done(message("")), done(call("")), completed()],
        [piece("Hi"), added(call("")), arguments(LS), completed()],
        [*DONE_BOTH, {"type": "response.completed"}],
        [*DONE_BOTH, {"type": "response.done", "response": None}],
    ],
)  # fmt: skip
def test_an_answer_on_the_responses_wire_is_read_as_its_server_meant_it(events):
    assert answer(events_of("responses", events)) == BOTH


def test_the_pieces_of_two_calls_stay_with_their_own():
    second = {"id": "f2", "call_id": "c2"}
    begun = [added(call("")), added(call("", **second)), arguments(PWD, "f2"), arguments(LS)]
    both = [CALLED, ("exec_command", {"cmd": "pwd"})]
    for ends in (
        [done(call("")), done(call("", **second)), completed()],
        [done(call("", id=None)), done(call("", id=None, call_id="c2")), completed()],
        [done(call("", id=None, call_id=None)), done(call("", **second)), completed()],
        [completed()],
    ):
        assert answer(events_of("responses", [*begun, *ends])) == both
    ids = [event.item.call_id for event in events_of("responses", [*begun, completed()])
           if isinstance(event, ResponseItemDone)]  # fmt: skip
    assert ids == ["c1", "c2"]


def test_a_text_that_only_its_deltas_hold_is_the_answer_and_is_shown_once():
    told = events_of("responses", [piece("H", item_id=None), piece("i", item_id=None), completed()])
    assert answer(told) == [SAID]
    assert "".join(one.text for one in told if isinstance(one, ResponseTextDelta)) == "Hi"


def test_thoughts_may_be_plain_texts():
    for fields in ({"summary": ["hm"]}, {"summary": "hm"}, {"content": "hm", "summary": []}):
        item = {"type": "reasoning", "id": "r1"} | fields
        told = events_of("responses", [done(item), *DONE_BOTH, completed()])
        thought = told[0].item
        assert isinstance(thought, Reasoning)
        assert thought.summary + thought.content == ("hm",)


@pytest.mark.parametrize(
    "events",
    [
        [added(call("")), arguments(LS[:5]), completed()],
        [added(call("", name=None)), arguments(LS), completed()],
        [*BEGUN_BOTH, done(message()), completed()],
        [added(message("")), completed()],
        [added(message("")), without(piece(""), "delta")],
        [{"item": message()}],
        [*BEGUN_BOTH, b"[DONE]"],
        DONE_BOTH,
    ],
)
def test_what_may_have_lost_a_piece_on_the_responses_wire_cuts_the_stream(events):
    assert fault("responses", events).kind == "stream_disconnected"


@pytest.mark.parametrize(
    "last",
    [
        {"type": "response.incomplete", "response": {"incomplete_details": {"reason": "x"}}},
        completed(status="incomplete"),
    ],
)
def test_a_response_that_was_stopped_keeps_what_was_whole_and_is_marked(last):
    told = events_of("responses", [done(message()), done(call(LS[:5], status="incomplete")), last])
    assert answer(told) == [SAID]
    assert told[-1].truncated
    assert fault("responses", [last]).kind == "incomplete"


def test_usage_counts_wherever_the_responses_wire_tells_it():
    beside = {"type": "response.completed", "usage": {"prompt_tokens": 4}}
    assert usage(events_of("responses", [*DONE_BOTH, beside])).input_tokens == 4
    assert usage(events_of("responses", [*DONE_BOTH, completed(usage=None)])) is None


# --- both ----------------------------------------------------------------------------------------

ERRORS = [
    ({"type": "error", "error": "Overloaded", "code": 503}, "overloaded"),
    ({"error": {"message": "slow down", "code": 429}}, "overloaded"),
    ({"error": "This model's maximum prompt length is 131072 but the request contains 140000"},
     "context_window_exceeded"),
    ({"type": "error", "code": "insufficient_quota", "message": "m"}, "usage_limit_exceeded"),
    ({"type": "error", "message": "upstream is gone"}, "other"),
    ({"type": "error"}, "other"),
    ({"type": "error", "error": {"type": "invalid_request_error", "message": "no"}}, "bad_request"),
]  # fmt: skip


@pytest.mark.parametrize("wire", ["responses", "messages"])
@pytest.mark.parametrize(("event", "kind"), ERRORS)
def test_an_error_in_the_stream_is_known_in_whatever_form_it_comes(wire, event, kind):
    failure = fault(wire, [added(message("")) if wire == "responses" else BEGUN, event])
    assert failure.kind == kind
    said = event.get("message") or event.get("error") or ""
    assert (said if isinstance(said, str) else said["message"]) in failure.message


def test_events_without_a_blank_line_between_them_are_events_of_their_own():
    lines = [json.dumps(one).encode() for one in (added(message("")), piece("Hi"), done(message()))]
    body = b"".join(b"event: x\r\ndata: " + line + b"\r\n" for line in lines)
    splitter = SseSplitter()
    payloads = splitter.feed(body + b": still here\r\ndata:[DONE]\r\n\r\n")
    assert payloads == [*lines, b"[DONE]"]
    assert answer(events_of("responses", payloads)) == [SAID]
    pretty = SseSplitter().feed(b'data: {\ndata: "a": {}\ndata: }\n\n')
    assert [json.loads(one) for one in pretty] == [{"a": {}}]

"""Answers as odd servers stream them: each is read as its server meant it, and asked for once."""

import json

import msgspec
import pytest

from swarm.mailbox.protocol.items import (
    FunctionCall,
    Message,
    Origin,
    Reasoning,
    TokenUsage,
    text_of,
)
from swarm.worker.gateway.backend import ResponseFinished, ResponseItemDone, SampleError
from swarm.worker.gateway.chat_stream import ChatStream
from swarm.worker.gateway.fit.call_names import meant_name, wire_name
from swarm.worker.gateway.leading_thought import LeadingThought, split_thought
from swarm.worker.gateway.messages_stream import MessagesStream
from swarm.worker.gateway.responses_stream import ResponsesStream
from swarm.worker.gateway.token_usage import read_usage
from swarm.worker.gateway.whole_answers import events_of_answer, is_whole_answer

TOOLS = frozenset({"exec_command", "list_dir", "f"})
HERE = Origin(provider="p", model="m")
CMD = '{"cmd":"ls"}'


def stream_of(wire):
    ids = iter(range(100))
    how = {"provider": "P", "new_id": lambda: str(next(ids))}
    match wire:
        case "chat":
            stream = ChatStream(**how, offered=TOOLS, tolerant=False)
        case "messages":
            stream = MessagesStream(**how, slug="m")
        case _:
            stream = ResponsesStream(**how, provider_id="p")
    stream.offered_tools = TOOLS
    stream.origin = HERE
    return stream


def read(wire, payloads):
    stream = stream_of(wire)
    events = []
    for payload in payloads:
        data = payload if isinstance(payload, bytes) else json.dumps(payload).encode()
        events += stream.feed(data)
    events += stream.finish()
    assert isinstance(events[-1], ResponseFinished)
    return [event.item for event in events if isinstance(event, ResponseItemDone)]


def chat(*deltas, end=True):
    chunks = [{"choices": [{"delta": delta}]} for delta in deltas]
    return [*chunks, {"choices": [{"delta": {}, "finish_reason": "stop"}]}] if end else chunks


def entry(name=None, arguments=None, **fields):
    return {**fields, "function": {"name": name, "arguments": arguments}}


def calls(items):
    return [(item.name, item.arguments) for item in items if isinstance(item, FunctionCall)]


TWO = [("exec_command", CMD), ("exec_command", '{"cmd":"pwd"}')]
OTHER = [("exec_command", CMD), ("list_dir", '{"path":"."}')]


@pytest.mark.parametrize(
    ("deltas", "made"),
    [
        ([[entry(*TWO[0]), entry(*TWO[1])]], TWO),
        ([[entry(*TWO[0], index=0, id=""), entry(*TWO[1], index=0, id="")]], TWO),
        ([[entry(*OTHER[0], index=0, id=""), entry(*OTHER[1], index=0, id="")]], OTHER),
        ([[entry(*OTHER[0], index=0)], [entry(*OTHER[1], index=0)]], OTHER),
        ([[entry(*TWO[0])], [entry(*TWO[1])]], TWO),
        ([[entry("exec_command", ""), entry("list_dir", "")], [entry(None, CMD),
          entry(None, '{"path":"."}')]], OTHER),
        ([[entry(*OTHER[0], index=1, id="a")], [entry(*OTHER[1], index=3, id="b")]], OTHER),
        ([[entry(*OTHER[0], index="0", id="a")], [entry(*OTHER[1], index="1", id="b")]], OTHER),
        ([[entry("exec_command", "", index=5, id="a")], [entry(None, CMD, index=5)]], TWO[:1]),
        ([[entry(*OTHER[0], index=0, id="x")], [entry(*OTHER[1], index=1, id="x")]], OTHER),
        ([[entry(*TWO[0], index=0, id=7)], [entry(*TWO[1], index=1, id=8)]], TWO),
        ([[entry("exec_command", '{"cmd"', index=0, id="a1")],
          [entry(None, ':"ls"}', index=0, id="a2")]], TWO[:1]),
        ([[entry("exec_command", '{"cmd"', index=0, id="a1")],
          [entry("exec_command", ':"ls"}', index=0, id="a2")]], TWO[:1]),
        ([[entry(*TWO[0], index=0, id="a1")], [entry(*TWO[1], index=0, id="a2")]], TWO),
        ([[entry("exec_command", ["ls"], index=0, id=1.0)]], [("exec_command", '["ls"]')]),
        ([[entry("exec_command", 5, index=0, id="a")]], [("exec_command", "5")]),
        ([[entry("exec_", None, index=0, id="a")], [entry("command", None, index=0)],
          [entry(None, CMD, index=0)]], TWO[:1]),
        ([[entry("exec", None, index=0, id="a")], [entry("exec_command", CMD, index=0)]], TWO[:1]),
        ([[entry("exec_command", '{"cmd"', index=0, id="a")],
          [entry("exec_command", ':"ls"}', index=0, id="a")],
          [entry("exec_command", "", index=0, id="a")]], TWO[:1]),
        ([[entry(*TWO[0], index=0)], [entry("exec_command", "", index=0)]], TWO[:1]),
        ([[entry("exec_command", "{}", index=0, id="a")], [entry(None, CMD, index=0)]], TWO[:1]),
        ([[{"name": "exec_command", "arguments": {"cmd": "ls"}}]], [("exec_command", CMD)]),
    ],
)  # fmt: skip
def test_the_calls_of_a_chat_are_those_that_the_server_meant(deltas, made):
    items = read("chat", chat(*({"tool_calls": entries} for entries in deltas)))
    found = [(name, json.loads(arguments)) for name, arguments in calls(items)]
    assert found == [(name, json.loads(arguments)) for name, arguments in made]
    ids = [item.call_id for item in items]
    assert len(set(ids)) == len(ids)


def test_a_done_mark_ends_an_answer_whose_calls_are_whole_without_a_finish_reason():
    said = chat({"content": "so"}, {"tool_calls": [entry(*TWO[0], index=0)]}, end=False)
    assert calls(read("chat", [*said, b"[DONE]"])) == TWO[:1]
    for half in ([], chat({"tool_calls": [entry("f", '{"a', index=0)]}, end=False), said[:0]):
        with pytest.raises(SampleError, match="no `finish_reason` came"):
            read("chat", [*half, b"[DONE]"])
    with pytest.raises(SampleError, match="no `finish_reason` came"):
        read("chat", said)


def responses(*items):
    done = [{"type": "response.output_item.done", "item": item} for item in items]
    return [*done, {"type": "response.completed", "response": {}}]


def messages(*blocks):
    pairs = [
        ({"type": "content_block_start", "index": at, "content_block": block},
         {"type": "content_block_stop", "index": at})
        for at, block in enumerate(blocks)
    ]  # fmt: skip
    stop = {"type": "message_delta", "delta": {"stop_reason": "tool_use"}}
    return [*(event for pair in pairs for event in pair), stop, {"type": "message_stop"}]


def test_two_calls_with_one_id_are_two_calls_on_every_wire():
    block = {"type": "tool_use", "id": "x", "name": "f", "input": {}}
    item = {"type": "function_call", "call_id": "x", "name": "f", "arguments": "{}"}
    entries = [entry("f", "{}", index=at, id="x") for at in range(3)]
    for wire, events in (
        ("messages", messages(block, block, block)),
        ("responses", responses(item, item, item)),
        ("chat", chat({"tool_calls": entries})),
    ):
        ids = [item.call_id for item in read(wire, events)]
        assert (len(ids), len(set(ids)), ids[0]) == (3, 3, "x"), wire


@pytest.mark.parametrize(
    ("given", "read_as"), [(None, ""), (["ls"], '["ls"]'), (5, "5"), ({"a": 1}, '{"a": 1}')]
)
def test_arguments_that_are_no_text_are_read_for_the_tool_to_judge(given, read_as):
    item = {"type": "function_call", "call_id": 7, "name": "f", "arguments": given}
    (call,) = read("responses", responses(item))
    assert (call.call_id, call.arguments) == ("7", read_as)


def test_a_content_that_is_one_text_is_the_answer():
    (said,) = read("responses", responses({"type": "message", "content": "hi"}))
    assert text_of(said.content) == "hi"


@pytest.mark.parametrize("count", [12, "12", 12.0])
def test_tokens_are_counted_however_a_server_writes_their_number(count):
    usage = read_usage(msgspec.Raw(json.dumps({"prompt_tokens": count}).encode()))
    assert usage == TokenUsage(input_tokens=12, total_tokens=12)


def test_a_name_in_another_spelling_that_two_tools_may_mean_stays_as_it_is():
    assert meant_name("list dir", frozenset({"list_dir", "listDir"})) == "list dir"


@pytest.mark.parametrize("reason", ["MAX_TOKENS", "max_tokens", "length", "LENGTH"])
def test_an_answer_that_was_cut_off_is_known_by_each_servers_word_for_it(reason):
    begun = chat({"content": "hi"}, {"tool_calls": [entry("f", '{"cm')]}, end=False)
    (said,) = read("chat", [*begun, {"choices": [{"delta": {}, "finish_reason": reason}]}])
    assert text_of(said.content) == "hi"


@pytest.mark.parametrize("reason", [1, "STOP", "end_turn", "tool_use", "eos"])
def test_an_answer_ends_with_any_reason_that_says_no_fault(reason):
    last = {"choices": [{"delta": {}, "finish_reason": reason}]}
    (said,) = read("chat", [*chat({"content": "hi"}, end=False), last])
    assert text_of(said.content) == "hi"


def test_an_answer_whose_call_the_server_threw_away_is_asked_for_again():
    reason = "function_call_filter: MALFORMED_FUNCTION_CALL"
    with pytest.raises(SampleError) as caught:
        read("chat", [{"choices": [{"delta": {}, "finish_reason": reason}]}])
    assert caught.value.failure.retryable


@pytest.mark.parametrize("error", [None, "", False, {}, {"message": "", "code": None, "type": ""}])
def test_a_field_for_errors_that_is_empty_beside_an_answer_is_no_error(error):
    chunks = [{**chunk, "error": error} for chunk in chat({"content": "hi"})]
    assert text_of(read("chat", chunks)[0].content) == "hi"


def test_a_done_mark_ends_a_response_whose_items_are_whole():
    item = {"type": "message", "id": "a", "content": [{"type": "output_text", "text": "x"}]}
    events = [{"type": f"response.output_item.{what}", "item": item} for what in ("added", "done")]
    assert text_of(read("responses", [*events, b"[DONE]"])[0].content) == "x"
    with pytest.raises(SampleError, match=r"no `response\.completed` came"):
        read("responses", [events[0], b"[DONE]"])


def test_what_is_no_part_of_an_answer_may_be_odd():
    odd = {"function_call": {"name": "", "arguments": ""}, "content": "hi"}
    chunks = [{**chunk, "id": 12, "created": "x"} for chunk in chat(odd)]
    assert text_of(read("chat", chunks)[0].content) == "hi"


def test_a_whole_message_at_the_end_repeats_what_was_said_and_adds_what_was_not():
    last = {"message": {"content": "hello", "tool_calls": [entry(*TWO[0], id="a")]}}
    chunks = [
        *chat({"content": "hel"}, end=False),
        {"choices": [{**last, "finish_reason": "stop"}]},
    ]
    said, call = read("chat", chunks)
    assert (text_of(said.content), calls([call])) == ("hello", TWO[:1])
    last["message"]["content"] = "other"
    chunks[-1] = {"choices": [{**last, "finish_reason": "stop"}]}
    with pytest.raises(SampleError):
        read("chat", chunks)


def text_answer(wire, text):
    pieces = [text[at : at + 3] for at in range(0, len(text), 3)]
    match wire:
        case "chat":
            return chat(*({"content": piece} for piece in pieces))
        case "messages":
            delta = "content_block_delta"
            return [
                {"type": "content_block_start", "index": 0, "content_block": {"type": "text"}},
                *({"type": delta, "index": 0, "delta": {"type": "text_delta", "text": piece}}
                  for piece in pieces),
                {"type": "content_block_stop", "index": 0},
                {"type": "message_delta", "delta": {"stop_reason": "end_turn"}},
                {"type": "message_stop"},
            ]  # fmt: skip
        case _:
            item = {"type": "message", "id": "a"}
            whole = {**item, "content": [{"type": "output_text", "text": text}]}
            delta = "response.output_text.delta"
            return [
                {"type": "response.output_item.added", "item": item},
                *({"type": delta, "item_id": "a", "delta": piece} for piece in pieces),
                {"type": "response.output_item.done", "item": whole},
                {"type": "response.completed", "response": {}},
            ]


@pytest.mark.parametrize("wire", ["chat", "messages", "responses"])
@pytest.mark.parametrize(
    ("text", "thought", "answer"),
    [
        ("<think>\nhm <b>\n</think>\n\nThe answer", "\nhm <b>\n", "The answer"),
        ("\n<thinking>a</thinking>b", "a", "b"),
        ("[THINK]a[/THINK]b", "a", "b"),
        ("a is less\n</think>\nb", "a is less", "b"),
        ("<think>\n\n</think>\n\nb", "", "b"),
        ("<think>never ends", "", "<think>never ends"),
        ("Write <think>x</think> so", "", "Write <think>x</think> so"),
        ("Close it with `</think>` at the end", "", "Close it with `</think>` at the end"),
        ("  blank first", "", "  blank first"),
    ],
)
def test_a_leading_thought_is_reasoning_and_no_part_of_the_answer(wire, text, thought, answer):
    items = read(wire, text_answer(wire, text))
    assert "".join(item.content[0] for item in items if isinstance(item, Reasoning)) == thought
    assert "".join(text_of(item.content) for item in items if isinstance(item, Message)) == answer


@pytest.mark.parametrize("size", [1, 2, 5, 40])
def test_a_thought_is_found_however_its_text_is_cut(size):
    text = "<think>a < b</thin></think> c"
    reading, thought, said = LeadingThought(), "", ""
    for at in range(0, len(text), size):
        more = reading.feed(text[at : at + size])
        thought, said = thought + more[0], said + more[1]
    assert (thought, said + reading.finish()[1]) == ("a < b</thin>", "c") == split_thought(text)


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("functions.exec_command", "exec_command"),
        ("exec_command<|channel|>commentary", "exec_command"),
        ("functions.exec_command<|constrain|>json", "exec_command"),
        ("functions.exec_command:0", "exec_command"),
        ("assistant to=functions.list_dir", "list_dir"),
        ("default_api.list_dir", "list_dir"),
        (" list_dir()", "list_dir"),
        ("tools/exec_command", "exec_command"),
        ("functions.container.exec", "container.exec"),
        ("container.exec", "container.exec"),
        ("repo browser", "repo browser"),
        ("exec_command or list_dir", "exec_command or list_dir"),
        ("my_exec_command", "my_exec_command"),
        ("Exec_Command", "exec_command"),
        ("execCommand", "exec_command"),
        ("functions.LIST-DIR", "list_dir"),
        ("Bash", "bash"),
        ("F F", "F F"),
    ],
)
def test_a_name_with_a_prefix_or_a_suffix_means_the_tool_that_is_offered(written, meant):
    assert meant_name(written, TOOLS) == meant
    assert set(wire_name(written)) <= set(
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-"
    )


WHOLE = {
    "chat": {"object": "chat.completion", "choices": [{"index": 0, "finish_reason": "tool_calls",
             "message": {"content": "hi", "tool_calls": [entry(*TWO[0], id="a")]}}]},
    "responses": {"object": "response", "status": "completed", "error": None, "output": [
        {"type": "message", "content": [{"type": "output_text", "text": "hi"}]},
        {"type": "function_call", "name": "exec_command", "arguments": CMD, "call_id": "a"}]},
    "messages": {"type": "message", "stop_reason": "tool_use", "content": [
        {"type": "text", "text": "hi"},
        {"type": "tool_use", "id": "a", "name": "exec_command", "input": {"cmd": "ls"}}]},
}  # fmt: skip


@pytest.mark.parametrize("wire", WHOLE)
def test_a_server_that_answers_with_one_json_object_is_read_as_well(wire):
    body = b"\xef\xbb\xbf \n" + json.dumps(WHOLE[wire], indent=1).encode()
    assert is_whole_answer(body[:6])
    assert not is_whole_answer(b"data: {}\n\n")
    said, call = read(wire, events_of_answer(body, wire))
    assert text_of(said.content) == "hi"
    assert (call.call_id, call.name, json.loads(call.arguments)) == ("a", TWO[0][0], {"cmd": "ls"})
    failed = events_of_answer(b'{"error":{"message":"no luck"}}', wire)
    with pytest.raises(SampleError, match="no luck"):
        read(wire, failed)


@pytest.mark.parametrize(
    "empty",
    [{}, {"name": ""}, {"name": None, "arguments": None}, {"name": "", "arguments": "{}"},
     {"arguments": {}}, None, "", [], False],
)  # fmt: skip
def test_an_obsolete_call_that_is_empty_says_nothing_beside_text_and_beside_calls(empty):
    (said,) = read("chat", chat({"content": "hi", "function_call": empty}))
    assert text_of(said.content) == "hi"
    pieces = [entry("exec_command", "", index="0", id="a"), entry(None, CMD, index="0")]
    deltas = [{"tool_calls": [piece], "function_call": empty} for piece in pieces]
    assert calls(read("chat", chat(*deltas))) == TWO[:1]


def test_an_obsolete_call_beside_the_calls_that_it_repeats_counts_once():
    whole = {"name": "exec_command", "arguments": CMD}
    entries = [entry(*TWO[0], id="a", index=0)]
    assert calls(read("chat", chat({"tool_calls": entries, "function_call": whole}))) == TWO[:1]
    assert calls(read("chat", chat({"tool_calls": entries}, {"function_call": whole}))) == TWO[:1]


@pytest.mark.parametrize(
    ("pieces", "name"),
    [
        (["exec_", "command"], "exec_command"),
        (["exec", "_", "comm", "and"], "exec_command"),
        (["exec", "exec_comm", "exec_command"], "exec_command"),
        (["list", "_dir"], "list_dir"),
        (["ex", "amine", "_it"], "examine_it"),
    ],
)
@pytest.mark.parametrize("fields", [{}, {"id": "a"}, {"index": 0}, {"index": "0", "id": "a"}])
def test_a_name_may_come_in_any_number_of_pieces(pieces, name, fields):
    deltas = [{"tool_calls": [entry(piece, **fields)]} for piece in pieces]
    deltas.append({"tool_calls": [entry(None, CMD, **fields)]})
    assert calls(read("chat", chat(*deltas))) == [(name, CMD)]


@pytest.mark.parametrize("beside", [{}, {"content": ""}, {"content": None, "role": "assistant"}])
def test_a_whole_message_beside_a_delta_that_says_nothing_is_the_answer(beside):
    message = {"content": "hi", "reasoning_content": "hm", "tool_calls": [entry(*TWO[0], id="a")]}
    last = {"choices": [{"delta": beside, "message": message, "finish_reason": "stop"}]}
    thought, said, call = read("chat", [*chat({"role": "assistant"}, end=False), last])
    assert thought.content == ("hm",)
    assert text_of(said.content) == "hi"
    assert (call.name, call.arguments) == TWO[0]
    again = read("chat", [*chat({"content": "h"}, {"content": "i"}, end=False), last])
    assert [text_of(item.content) for item in again if isinstance(item, Message)] == ["hi"]
    assert calls(again) == TWO[:1]


def test_pieces_that_stand_in_delta_and_message_alike_count_once():
    chunks = [
        {"choices": [{"delta": {"content": piece}, "message": {"content": piece}}]}
        for piece in ("one ", "two")
    ]
    (said,) = read("chat", [*chunks, *chat()])
    assert text_of(said.content) == "one two"


@pytest.mark.parametrize("wire", ["chat", "messages", "responses"])
def test_a_number_as_the_answers_id_and_an_index_as_text_do_no_harm(wire):
    events = text_answer(wire, "hello")
    if wire == "messages":
        events.insert(0, {"type": "message_start", "message": {"id": 7}})
    for event in events:
        event |= {"id": 7} if wire == "chat" else {}
        for part in (event, *event.get("choices", ())):
            if "index" in part:
                part["index"] = str(part["index"])
        if "response" in event:
            event["response"] = {"id": 7}
    assert text_of(read(wire, events)[0].content) == "hello"


@pytest.mark.parametrize("index", ["", "x", "-1", "\u00b2", None, "1" * 5_000])
def test_an_index_of_messages_that_is_no_number_cuts_the_stream(index):
    events = text_answer("messages", "hello")
    events[1]["index"] = index
    with pytest.raises(SampleError):
        read("messages", events)


def test_blocks_of_messages_may_have_gaps_in_their_numbers():
    events = text_answer("messages", "hi")
    for event in events:
        if "index" in event:
            event["index"] = 2
    assert text_of(read("messages", events)[0].content) == "hi"


# --- fields that only the provider understands ----------------------------------------------------


def fields_of(item):
    return json.loads(item.origin.fields)


def test_the_fields_of_a_call_that_only_its_provider_understands_are_kept_as_they_came():
    signed = {"google": {"thought_signature": "c2ln"}}
    one = {**entry(*TWO[0], index=0, id="a"), "extra_content": signed}
    two = entry(*TWO[1], index=1, id="b")
    two["function"]["thought_signature"] = "x"
    first, second = read("chat", chat({"tool_calls": [one]}, {"tool_calls": [two]}))
    assert (first.origin.provider, first.origin.model) == ("p", "m")
    assert fields_of(first) == {"extra_content": signed}
    assert fields_of(second) == {"function": {"thought_signature": "x"}}


@pytest.mark.parametrize("name", ["reasoning_content", "reasoning", "reasoning_text"])
def test_reasoning_is_kept_with_the_name_under_which_it_came(name):
    thought, _ = read("chat", chat({name: "h", "role": "assistant"}, {name: "m"}, {"content": "x"}))
    assert thought.content == ("hm",)
    assert fields_of(thought) == {name: None}


def test_details_of_reasoning_are_one_list_of_whole_entries():
    one = {"type": "reasoning.text", "index": 0, "text": "a", "signature": None}
    more = {"type": "reasoning.text", "index": 0, "text": "b", "signature": "s"}
    sealed = {"type": "reasoning.encrypted", "index": 1, "data": "zz"}
    deltas = [{"reasoning_details": [detail]} for detail in (one, more, sealed)]
    thought, _ = read("chat", chat(*deltas, {"content": "x", "opaque_note": {"a": "b"}}))
    assert fields_of(thought) == {
        "reasoning_details": [{**one, "text": "ab", "signature": "s"}, sealed],
        "opaque_note": {"a": "b"},
    }


def test_fields_of_items_and_blocks_are_kept_on_the_other_wires_too():
    call = {"type": "function_call", "name": "f", "arguments": "{}", "call_id": "a", "seal": "q"}
    events = [
        {"type": "response.output_item.done", "item": call},
        {"type": "response.completed", "response": {}},
    ]
    assert fields_of(read("responses", events)[0]) == {"seal": "q"}
    block = {"type": "tool_use", "id": "a", "name": "f", "input": {}, "seal": "q"}
    events = [
        {"type": "content_block_start", "index": 0, "content_block": block},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "tool_use"}},
    ]
    assert fields_of(read("messages", events)[0]) == {"seal": "q"}

"""What a request holds for who receives it: names, ids, arguments, own fields, schemas; and what a
refusal teaches, read from the words of servers.
"""

import json
from pathlib import Path

import msgspec
import pytest

from swarm.mailbox.protocol.items import (
    CustomToolCall,
    FunctionCall,
    FunctionCallOutput,
    InputText,
    Message,
    Origin,
    Reasoning,
    text_message,
)
from swarm.mailbox.protocol.sampling import ModelInfo, ToolSpec
from swarm.worker.gateway import chat_request, messages_head, messages_request, responses_request
from swarm.worker.gateway.fit.call_ids import short_id
from swarm.worker.gateway.fit.dialect import PLAIN, Dialect, LearnedDialects, known_dialect
from swarm.worker.gateway.fit.item_fitting import object_text
from swarm.worker.gateway.fit.neighbours import arrange_items
from swarm.worker.gateway.fit.refusals import read_refusal
from swarm.worker.gateway.fit.tool_schemas import fit_schema
from swarm.worker.gateway.request_encoding import EncodingContext, HeadKey, RequestHeadCache

WIRES = ("responses", "chat", "messages")
HERE, THERE = Origin(provider="p", model="m"), Origin(provider="q", model="m")


def model_of(wire):
    return ModelInfo(slug="m", provider="p", wire=wire)


def body_of(wire, items, dialect=PLAIN, **key):
    context = EncodingContext(blobs_dir=Path("/nowhere"), model=model_of(wire), dialect=dialect)
    module, head = {
        "responses": (responses_request.ResponsesStore, responses_request.encode_head),
        "chat": (chat_request.ChatStore, chat_request.encode_head),
        "messages": (messages_request.MessagesStore, messages_head.encode_head),
    }[wire]
    store = module(context, RequestHeadCache(head))
    for item in items:
        store.append(item)
    settings = {"model": model_of(wire), "instructions": "I", "dialect": dialect, **key}
    return json.loads(b"".join(store.body(HeadKey(**settings), "agent")))


def calls_in(wire, body):
    """Id, name and arguments of each call, and the ids of the outputs."""
    match wire:
        case "responses":
            calls = [
                (one["call_id"], one["name"], json.loads(one["arguments"]))
                for one in body["input"]
                if one["type"] == "function_call"
            ]
            outputs = [one["call_id"] for one in body["input"] if one["type"].endswith("output")]
        case "chat":
            calls = [
                (one["id"], one["function"]["name"], json.loads(one["function"]["arguments"]))
                for message in body["messages"]
                for one in message.get("tool_calls", ())
            ]
            outputs = [one["tool_call_id"] for one in body["messages"] if one["role"] == "tool"]
        case _:
            blocks = [block for one in body["messages"] for block in one["content"]]
            calls = [
                (one["id"], one["name"], one["input"])
                for one in blocks
                if one["type"] == "tool_use"
            ]
            outputs = [one["tool_use_id"] for one in blocks if one["type"] == "tool_result"]
    return calls, outputs


def call(call_id, name="f", arguments="{}", origin=None):
    return FunctionCall(call_id=call_id, name=name, arguments=arguments, origin=origin)


def output(call_id):
    return FunctionCallOutput(call_id=call_id, output="o")


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize(
    ("arguments", "sent"),
    [
        ('{"a":1}', {"a": 1}),
        ("", {}),
        ("  ", {}),
        ('{"cmd": "ls', {"unreadable_arguments": '{"cmd": "ls'}),
        ("[1, 2]", {"unreadable_arguments": "[1, 2]"}),
        ("null", {}),
        ("ls -l", {"unreadable_arguments": "ls -l"}),
        ('{"a": NaN}', {"unreadable_arguments": '{"a": NaN}'}),
        ('{"a":1}{"a":2}', {"unreadable_arguments": '{"a":1}{"a":2}'}),
        (json.dumps('{"a":1}'), {"a": 1}),
    ],
)
def test_arguments_that_are_no_object_are_sent_in_one(wire, arguments, sent):
    items = [text_message("user", "go"), call("call_1", arguments=arguments), output("call_1")]
    calls, outputs = calls_in(wire, body_of(wire, items))
    assert (calls, outputs) == ([("call_1", "f", sent)], ["call_1"])
    assert json.loads(object_text(arguments)) == sent


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize(
    "name", ["container.exec", "repo browser", "exec<|channel|>x", "", "n" * 99, "naïve"]
)
def test_a_name_is_sent_in_signs_that_every_server_takes(wire, name):
    items = [text_message("user", "go"), call("call_1", name), output("call_1")]
    ((_, sent, _),), _ = calls_in(wire, body_of(wire, items))
    assert sent
    assert len(sent) <= 64
    assert set(sent) <= set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-")


LONG = "toolu:" + "x|" * 45


@pytest.mark.parametrize("wire", WIRES)
def test_ids_of_another_provider_are_short_stable_and_each_its_own(wire):
    items = [
        text_message("user", "go"),
        call(LONG, origin=THERE), call(LONG + "2"), call("call_1"), output(LONG),
        output(LONG + "2"), output("call_1"),
        call("call_1"), output("call_1"),
    ]  # fmt: skip
    calls, outputs = calls_in(wire, body_of(wire, items))
    ids = [made[0] for made in calls]
    assert ids == outputs
    assert ids[:3] == [short_id(LONG), short_id(LONG + "2"), "call_1"]
    assert len(set(ids)) == 4  # an id that comes again gets one of its own
    assert calls_in(wire, body_of(wire, items)) == (calls, outputs)


@pytest.mark.parametrize("wire", ["responses", "chat"])
def test_an_odd_id_goes_back_to_its_own_provider_as_it_came(wire):
    items = [
        text_message("user", "go"),
        call("functions.f:0", origin=HERE),
        output("functions.f:0"),
    ]
    assert calls_in(wire, body_of(wire, items))[0][0][0] == "functions.f:0"
    short = body_of(wire, items, Dialect(short_ids=True))
    assert calls_in(wire, short)[0][0][0] == short_id("functions.f:0")


@pytest.mark.parametrize("wire", WIRES)
def test_own_fields_of_a_call_go_back_to_their_model_alone(wire):
    own = msgspec.structs.replace(HERE, fields='{"extra_content":{"s":"x"}}')
    for origin, dialect, kept in (
        (own, PLAIN, True),
        (msgspec.structs.replace(own, provider="q"), PLAIN, False),
        (msgspec.structs.replace(own, model="n"), PLAIN, False),
        (own, Dialect(left_out=frozenset({"extra_content"})), False),
        (own, Dialect(returns_fields=False), False),
    ):
        items = [text_message("user", "go"), call("c1", origin=origin), output("c1")]
        body = json.dumps(body_of(wire, items, dialect))
        assert ('"extra_content": {"s": "x"}' in body) is kept
        assert "origin" not in body


def test_reasoning_goes_back_under_the_name_by_which_it_came():
    own = msgspec.structs.replace(HERE, fields='{"reasoning_content":null,"details":[1]}')
    items = [text_message("user", "go"), Reasoning(content=("hm",), origin=own), call("c1")]
    message = body_of("chat", items)["messages"][2]
    assert (message["reasoning_content"], message["details"]) == ("hm", [1])
    assert "reasoning" not in message
    foreign = [items[0], msgspec.structs.replace(items[1], origin=THERE), items[2]]
    message = body_of("chat", foreign)["messages"][2]
    assert set(message) == {"role", "content", "tool_calls"}
    needs = Dialect(needs_reasoning="reasoning_content", needs_signature=True)
    message = body_of("chat", foreign, needs)["messages"][2]
    assert message["reasoning_content"]
    assert "skip_thought_signature" in str(message["tool_calls"][0]["extra_content"])


def test_sealed_reasoning_of_another_provider_is_not_sent():
    for origin, count in ((HERE, 2), (None, 2), (THERE, 1)):
        items = [text_message("user", "x"), Reasoning(encrypted_content="E", origin=origin)]
        assert len(body_of("responses", items)["input"]) == count


def test_freeform_calls_are_functions_where_the_server_takes_none():
    items = [CustomToolCall(call_id="c1", name="apply_patch", input="*"), output("c1")]
    body = body_of("responses", items, Dialect(custom_tools=False))
    assert calls_in("responses", body) == ([("c1", "apply_patch", {"input": "*"})], ["c1"])


# --- neighbours ----------------------------------------------------------------------------------


def roles_of(items):
    return [item.role if isinstance(item, Message) else "tool" for item in items]


def test_neighbours_are_joined_and_an_answer_stands_between_an_output_and_the_user():
    items = [
        text_message("developer", "rules"), text_message("user", "a"), text_message("user", "b"),
        output("c"), text_message("developer", "later"), text_message("user", "c"),
    ]  # fmt: skip
    assert arrange_items(items, PLAIN) == items
    strict = Dialect(alternates=True, user_after_tool=False, later_developer=False)
    arranged = arrange_items(items, strict)
    assert roles_of(arranged) == ["developer", "user", "tool", "assistant", "user"]
    assert arranged[1].content == (InputText(text="a"), InputText(text="b"))
    body = body_of("chat", items[:3], strict)
    assert [one["role"] for one in body["messages"]] == ["system", "user"]


def test_a_text_and_an_image_of_the_user_are_one_message():
    items = [text_message("user", "a"), text_message("user", "b")]
    assert body_of("chat", items)["messages"][1:] == [{"role": "user", "content": "a\n\nb"}]


def test_the_templates_of_mistral_and_gemma_are_known_by_the_names_of_their_models():
    for name in ("devstral-small-2", "mistralai/Mistral-Large", "codestral:22b"):
        assert known_dialect(name).short_ids
    assert known_dialect("google/gemma-3-12b-it").alternates
    assert known_dialect("gpt-5") == PLAIN


# --- schemas -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("schema", "sent"),
    [
        ({"type": "object", "properties": {"a": {"type": "array"}}},
         {"type": "object", "properties": {"a": {"type": "array", "items": {}}}}),
        ({"type": "object", "properties": {"a": {"type": ["array", "null"]}}},
         {"type": "object", "properties": {"a": {"type": ["array", "null"], "items": {}}}}),
        ({"anyOf": [{"properties": {"a": {"type": "string"}}, "required": ["a"]},
                    {"properties": {"b": {"type": "integer"}, "a": {"type": "string"}},
                     "required": ["a", "b"]}]},
         {"type": "object", "required": ["a"],
          "properties": {"a": {"type": "string"}, "b": {"type": "integer"}}}),
        ({"type": "object", "allOf": [{"properties": {"a": {}}, "required": ["a"]},
                                      {"properties": {"b": {}}, "required": ["b"]}]},
         {"type": "object", "properties": {"a": {}, "b": {}}, "required": ["a", "b"]}),
        ({"type": "object", "oneOf": [{"properties": {"a": {"const": 1}}},
                                      {"properties": {"a": {"const": 2}}}]},
         {"type": "object", "properties": {"a": {"anyOf": [{"const": 1}, {"const": 2}]}}}),
        ({"$ref": "#/$defs/x", "$defs": {"x": {"type": "object", "properties": {"a": {}}}}},
         {"type": "object", "properties": {"a": {}},
          "$defs": {"x": {"type": "object", "properties": {"a": {}}}}}),
        ({"type": ["object", "null"], "not": {"required": ["a"]}},
         {"type": "object", "properties": {}}),
        ({}, {"type": "object", "properties": {}}),
        ({"type": "object"}, {"type": "object", "properties": {}}),
        ({"properties": {"a": {}}}, {"type": "object", "properties": {"a": {}}}),
        ({"type": "object", "properties": None, "required": True},
         {"type": "object", "properties": {}}),
        ({"type": "object", "properties": {"a": {"type": "string", "required": True}}},
         {"type": "object", "properties": {"a": {"type": "string"}}}),
        ({"type": "object", "properties": {"required": {"type": "boolean"}}},
         {"type": "object", "properties": {"required": {"type": "boolean"}}}),
    ],
)  # fmt: skip
def test_the_top_of_a_schema_is_a_plain_object_and_arrays_say_what_they_hold(schema, sent):
    assert json.loads(fit_schema(json.dumps(schema).encode())) == sent


def test_a_schema_that_every_server_takes_keeps_its_bytes():
    schema = b'{"type": "object", "properties": {"a": {"anyOf": [{"type": "string"}]}}}'
    assert fit_schema(schema) == schema


def test_a_plain_schema_has_the_simplest_keywords_alone():
    schema = {
        "type": "object", "additionalProperties": False, "required": ["a", "gone"],
        "properties": {
            "a": {"anyOf": [{"type": "null"}, {"type": "string", "format": "uri"}]},
            "b": {"type": ["integer", "null"], "minimum": 1}, "c": {"$ref": "#/$defs/c"},
            "d": {"type": "array"}, "const": {"enum": [1, 2], "type": "integer"},
            "e": {"type": "string", "enum": ["", "x"]}, "f": {"type": "string", "enum": [""]},
        },
        "$defs": {"c": {"type": "object", "properties": {"x": {"type": "string"}}}},
    }  # fmt: skip
    assert json.loads(fit_schema(json.dumps(schema).encode(), is_plain=True)) == {
        "type": "object",
        "required": ["a"],
        "properties": {
            "a": {"type": "string"},
            "b": {"type": "integer"},
            "c": {"type": "object", "properties": {"x": {"type": "string"}}},
            "d": {"type": "array", "items": {"type": "string"}},
            "const": {"type": "integer"},
            "e": {"type": "string", "enum": ["x"]},
            "f": {"type": "string"},
        },
    }


def test_a_schema_that_refers_to_itself_ends():
    schema = b'{"$ref":"#/$defs/a","$defs":{"a":{"anyOf":[{"$ref":"#/$defs/a"}]}}}'
    for is_plain in (False, True):
        assert json.loads(fit_schema(schema, is_plain=is_plain))["type"] == "object"


@pytest.mark.parametrize("wire", WIRES)
def test_a_tool_that_is_left_out_costs_itself_alone(wire):
    tools = (ToolSpec(name="a", description=""), ToolSpec(name="b", description=""))
    items = [text_message("user", "go")]
    body = body_of(wire, items, Dialect(left_out_tools=frozenset({"a"})), tools=tools)
    names = [tool.get("function", tool)["name"] for tool in body["tools"]]
    assert names == ["b"]


# --- refusals ------------------------------------------------------------------------------------

TOOLS = (
    ToolSpec(name="exec_command", description=""),
    ToolSpec(name="mcp__x__odd", description=""),
)
SENT = {
    "chat": {"model": "m", "stream": True, "stream_options": {"include_usage": True},
             "verbosity": 1, "reasoning_effort": "low", "messages": [
                 {"role": "assistant", "content": None, "extra_content": {}, "reasoning": "x",
                  "tool_calls": [{"id": "a", "function": {"name": "f"}, "seal": 1}]}]},
    "responses": {"model": "m", "include": [], "store": False, "text": {"verbosity": "low"},
                  "reasoning": {"effort": "low", "summary": "auto"}, "prompt_cache_key": "k",
                  "input": [{"type": "reasoning", "encrypted_content": "E"}]},
    "messages": {"model": "m", "max_tokens": 128000, "thinking": {"type": "x"}, "top_k": 1,
                 "messages": []},
}  # fmt: skip


@pytest.mark.parametrize(
    ("wire", "said", "change"),
    [
        ("chat", "Unrecognized request argument supplied: stream_options",
         {"refused_fields": {"stream_options"}}),
        ("chat", "body.stream_options\nExtra inputs are not permitted",
         {"refused_fields": {"stream_options"}}),
        ("chat", "stream_options.include_usage is not supported",
         {"refused_fields": {"stream_options.include_usage"}}),
        ("chat", "Unsupported parameter: 'verbosity'", {"refused_fields": {"verbosity"}}),
        ("chat", "reasoning_effort is not supported with this model",
         {"refused_fields": {"reasoning_effort"}}),
        ("responses", "Unsupported parameter: 'reasoning.summary'",
         {"refused_fields": {"reasoning.summary"}}),
        ("responses", "Unknown parameter: 'include'", {"refused_fields": {"include"}}),
        ("responses", "prompt_cache_key: Extra inputs are not permitted",
         {"refused_fields": {"prompt_cache_key"}}),
        ("responses", "messages must include text to store", None),
        ("messages", "max_tokens: 128000 > 64000, which is the maximum allowed number of output "
         "tokens", {"max_output_tokens": 64000}),
        ("messages", "thinking: Extra inputs are not permitted", {"refused_fields": {"thinking"}}),
        ("messages", "cache_control is not supported", {"refused_fields": {"cache_control"}}),
        ("chat", "property 'reasoning' is unsupported", {"left_out": {"reasoning"}}),
        ("chat", "unknown field `seal`", {"left_out": {"seal"}}),
        ("chat", "messages.0.extra_content: Extra inputs are not permitted",
         {"left_out": {"extra_content"}}),
        ("responses", "The encrypted content could not be verified", {"returns_fields": False}),
        ("chat", "content must be a string, not null", {"empty_content": "text"}),
        ("chat", "messages: text content blocks must be non-empty", {"empty_content": "absent"}),
        ("chat", "reasoning_content is missing in assistant tool call message at index 2",
         {"needs_reasoning": "reasoning_content"}),
        ("chat", "Function call is missing a thought_signature", {"needs_signature": True}),
        ("chat", "tool_call_id: must be 9 characters", {"short_ids": True}),
        ("chat", "System role not supported",
         {"system": False, "alternates": True, "later_developer": False}),
        ("chat", "Unexpected role 'user' after role 'tool'",
         {"user_after_tool": False, "later_developer": False}),
        ("chat", "Conversation roles must alternate user/assistant/...",
         {"alternates": True, "user_after_tool": False, "later_developer": False}),
        ("responses", "System message must be at the beginning",
         {"developer": False, "later_developer": False}),
        ("responses", "Invalid value: 'developer'. Supported values are: 'system', 'user'",
         {"developer": False, "later_developer": False}),
        ("chat", "Invalid schema for function 'mcp__x__odd': array schema missing items",
         {"plain_schemas": True}),
        ("responses", "Invalid value: 'custom'. Supported values are: 'function'",
         {"custom_tools": False}),
        ("chat", "something is wrong", None),
        ("chat", "you are not allowed to do this", None),
    ],
)  # fmt: skip
def test_what_a_refusal_names_is_learned(wire, said, change):
    lesson = read_refusal(
        said, wire=wire, sent=json.dumps(SENT[wire]).encode(), tools=TOOLS, dialect=PLAIN
    )
    if change is None:
        assert lesson is None
        return
    kept = {name: frozenset(one) if isinstance(one, set) else one for name, one in change.items()}
    assert lesson.dialect == Dialect(**kept)
    assert lesson.notice


@pytest.mark.parametrize(
    "said",
    [
        "Invalid schema for function 'mcp__x__odd': array schema missing items",
        "tools.1.custom.input_schema: JSON schema is invalid",
        "Invalid JSON payload: Unknown name in tools[1].function_declarations: parameters",
    ],
)
def test_a_tool_that_is_refused_in_its_simplest_form_too_is_left_out(said):
    dialect, sent = Dialect(plain_schemas=True), json.dumps(SENT["chat"]).encode()
    lesson = read_refusal(said, wire="chat", sent=sent, tools=TOOLS, dialect=dialect)
    assert lesson.dialect.left_out_tools == {"mcp__x__odd"}
    assert "`mcp__x__odd`" in lesson.notice
    again = read_refusal(said, wire="chat", sent=sent, tools=TOOLS[:1], dialect=lesson.dialect)
    assert again is None or again.dialect.left_out_tools == {"mcp__x__odd"}


def test_what_was_learned_holds_for_one_server_and_model_and_is_told_once():
    learned, model = LearnedDialects(), model_of("chat")
    learned.learn(model, Dialect(alternates=True), "joins")
    assert learned.of(model).alternates
    assert learned.of(msgspec.structs.replace(model, slug="n")) == PLAIN
    assert learned.of(msgspec.structs.replace(model, provider="q")) == PLAIN
    assert (learned.take_notices(model), learned.take_notices(model)) == (("joins",), ())

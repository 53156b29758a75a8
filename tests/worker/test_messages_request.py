"""What is sent on the Messages wire: order, grouping, thinking, marks, bytes that stay."""

import base64
import hashlib
import json
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from swarm.mailbox.protocol.items import (
    CustomToolCall,
    CustomToolCallOutput,
    FunctionCall,
    FunctionCallOutput,
    InputImage,
    InputText,
    Message,
    Reasoning,
    text_message,
)
from swarm.mailbox.protocol.sampling import ModelInfo, ToolSpec
from swarm.worker.gateway import responses_request
from swarm.worker.gateway.encoding import HeadKey, Heads, Rendering
from swarm.worker.gateway.messages_head import encode_head, has_grammar
from swarm.worker.gateway.messages_request import (
    BEGINNING,
    GO_ON,
    MARK,
    NO_OUTPUT,
    NO_WORDS,
    MessagesStore,
)
from swarm.worker.gateway.thinking import (
    RedactedThinking,
    Thinking,
    ask_thinking,
    keep_block,
    nearest_effort,
    open_block,
)

MODEL = ModelInfo(slug="m", provider="p", wire="messages", max_output_tokens=32_000)
TOOLS = (
    ToolSpec(name="f", description="d", parameters=b'{"type":"object"}'),
    ToolSpec(name="patch", description="p", parameters=b'{"properties":{}}', grammar="start: X"),
)
CLOSED = b'{"type":"object","properties":{"a":{"type":"string"}},"required":["a"],"additionalProperties":false}'  # noqa: E501


def store_of(*items, model=MODEL, blobs_dir=Path("/nowhere")):
    store = MessagesStore(Rendering(blobs_dir=blobs_dir, model=model), Heads(encode_head))
    for item in items:
        store.append(item)
    return store


def raw_of(store, **key):
    settings = {"model": MODEL, "instructions": "Be brief.", **key}
    return b"".join(store.body(HeadKey(**settings), "agent"))


def body_of(store, **key):
    return json.loads(raw_of(store, **key))


def messages(*items, **settings):
    """Each message as (role, blocks), marks left out."""
    raw = raw_of(store_of(*items, **settings)).replace(MARK, b"")
    return [(one["role"], one["content"]) for one in json.loads(raw)["messages"]]


def text(words):
    return {"type": "text", "text": words}


def call(call_id, name="f", arguments='{"a":1}'):
    return FunctionCall(call_id=call_id, name=name, arguments=arguments)


def output(call_id, words="o", *, success=True):
    return FunctionCallOutput(call_id=call_id, output=words, success=success)


def use(call_id, name="f", given=None):
    given = {"a": 1} if given is None else given
    return {"type": "tool_use", "id": call_id, "name": name, "input": given}


def result(call_id, words="o"):
    return {"type": "tool_result", "tool_use_id": call_id, "content": words}


def thought(words="hm", signature="SIG", slug="m"):
    block = Thinking(thinking=words, signature=signature)
    return keep_block(block, slug=slug, item_id="rs")


def say(words):
    return text_message("assistant", words)


def ask(words):
    return text_message("user", words)


# --- order and grouping ------------------------------------------------------------------------


def test_all_outputs_of_a_turn_stand_first_in_one_message_and_what_came_between_follows():
    assert messages(
        ask("go"), say("I look."), call("a"), call("b"), ask("hurry"), output("b"), output("a")
    ) == [
        ("user", [text("go")]),
        ("assistant", [text("I look."), use("a"), use("b")]),
        ("user", [result("a"), result("b"), text("hurry")]),
    ]


def test_a_call_without_an_output_is_answered_as_interrupted():
    lost = result("a", NO_OUTPUT) | {"is_error": True}
    assert messages(ask("go"), call("a"), call("b"), output("b"))[-1] == (
        "user",
        [lost, result("b")],
    )


def test_an_output_without_its_call_is_not_sent():
    assert messages(ask("go"), output("x")) == [("user", [text("go")])]


def test_a_request_begins_and_ends_with_a_user():
    assert messages(say("hello")) == [
        ("user", [text(BEGINNING)]),
        ("assistant", [text("hello")]),
        ("user", [text(GO_ON)]),
    ]
    assert messages() == [("user", [text(BEGINNING)])]


def test_leading_developer_words_join_the_system_and_later_ones_are_marked():
    store = store_of(
        text_message("developer", "rules"), ask("go"), text_message("developer", "new rule")
    )
    body = body_of(store)
    assert [block["text"] for block in body["system"]] == ["Be brief.", "rules"]
    assert body["messages"][0]["content"][1]["text"] == "<developer>\nnew rule\n</developer>"


def test_a_letter_of_another_agent_is_told_and_never_the_models_own_word():
    letter = Message(role="assistant", content=(InputText(text="done"),), author="/root/a")
    assert messages(ask("go"), letter) == [("user", [text("go"), text("done")])]


def test_blank_texts_which_the_wire_refuses_are_left_out():
    store = store_of(ask("go"), say("  \n"), ask(""), text_message("developer", " "))
    assert [len(one["content"]) for one in body_of(store)["messages"]] == [1]


def test_failed_outputs_say_so_and_odd_ids_are_made_fit():
    sent = messages(ask("go"), call("a:1/2"), output("a:1/2", "no", success=False))
    assert sent[1][1] == [use("a_1_2")]
    assert sent[2][1] == [result("a_1_2", "no") | {"is_error": True}]


@pytest.mark.parametrize("arguments", ['{"cut', "[1]", "", "7", '"text"'])
def test_arguments_that_are_no_object_are_still_sent_as_one(arguments):
    (block,) = messages(ask("go"), call("a", arguments=arguments))[1][1]
    assert block["input"] == ({"unreadable_arguments": arguments} if arguments else {})


def test_freeform_tools_are_functions_here():
    sent = messages(
        ask("go"),
        CustomToolCall(call_id="c", name="patch", input="*** Begin"),
        CustomToolCallOutput(call_id="c", output="done"),
    )
    assert sent[1][1] == [use("c", "patch", {"input": "*** Begin"})]
    assert sent[2][1] == [result("c", "done")]


# --- images ------------------------------------------------------------------------------------


def blob(folder, data, mime):
    name = hashlib.sha256(data).hexdigest()
    (folder / name).write_bytes(data)
    return InputImage(image_url=f"blob:{name};{mime}")


def test_images_are_sent_as_their_bytes_in_messages_and_in_outputs(tmp_path):
    picture = blob(tmp_path, b"PNG", "image/png")
    source = {
        "type": "base64",
        "media_type": "image/png",
        "data": base64.b64encode(b"PNG").decode(),
    }
    shown = {"type": "image", "source": source}
    asked = Message(role="user", content=(InputText(text="see"), picture))
    seen = FunctionCallOutput(call_id="a", output=(picture,), success=False)
    sent = messages(asked, call("a"), seen, blobs_dir=tmp_path)
    assert sent[0] == ("user", [text("see"), shown])
    assert sent[2] == ("user", [result("a", [shown])])  # an error may hold text only


def test_an_image_of_a_kind_that_the_wire_does_not_know_is_told_in_words(tmp_path):
    asked = Message(role="user", content=(blob(tmp_path, b"<svg/>", "image/svg+xml"),))
    ((_, (block,)),) = messages(asked, blobs_dir=tmp_path)
    assert "image/svg+xml" in block["text"]


def test_an_image_at_an_address_is_sent_as_the_address():
    asked = Message(role="user", content=(InputImage(image_url="https://x.example/a.png"),))
    ((_, (block,)),) = messages(asked)
    assert block["source"] == {"type": "url", "url": "https://x.example/a.png"}


# --- thinking ----------------------------------------------------------------------------------


@given(st.text(), st.text(min_size=1))
def test_a_thinking_block_comes_back_as_it_was(words, signature):
    block = Thinking(thinking=words, signature=signature)
    assert open_block(keep_block(block, slug="m-1", item_id="x"), slug="m-1") == block
    hidden = RedactedThinking(data=signature)
    assert open_block(keep_block(hidden, slug="m-1", item_id="x"), slug="m-1") == hidden


@pytest.mark.parametrize(
    "item",
    [
        thought(slug="other"),
        Reasoning(content=("from chat",)),
        Reasoning(summary=("from responses",), encrypted_content="gAAAA"),
        Reasoning(encrypted_content="messages.thinking;m;"),
        Reasoning(encrypted_content="messages."),
    ],
)
def test_thinking_of_another_model_or_wire_is_not_sent(item):
    assert open_block(item, slug="m") is None
    assert messages(ask("go"), item, say("yes"), ask("on"))[1] == ("assistant", [text("yes")])


def test_thinking_stands_before_what_it_led_to():
    hidden = keep_block(RedactedThinking(data="XX"), slug="m", item_id="r")
    sent = messages(ask("go"), thought(), hidden, call("a"), output("a"), thought("2"), say("done"))
    first = {"type": "thinking", "thinking": "hm", "signature": "SIG"}
    assert sent[1] == ("assistant", [first, {"type": "redacted_thinking", "data": "XX"}, use("a")])
    assert sent[3] == ("assistant", [{**first, "thinking": "2"}, text("done")])


@pytest.mark.parametrize("after", [(ask("so?"),), ()])
def test_thinking_that_led_to_nothing_is_kept_and_followed_by_a_word(after):
    sent = messages(ask("go"), thought(), *after)
    assert [block["type"] for block in sent[1][1]] == ["thinking", "text"]
    assert sent[1][1][1] == text(NO_WORDS)


def test_a_server_that_does_not_take_thinking_back_gets_the_same_without_it():
    store = store_of(ask("go"), thought(), call("a"), output("a"), thought("2"), say("x"), ask("y"))
    before = json.loads(raw_of(store).replace(MARK, b""))
    key = HeadKey(model=MODEL, instructions="Be brief.")
    after = json.loads(b"".join(store.without_thinking(key, "agent")).replace(MARK, b""))
    for message in before["messages"]:
        message["content"] = [one for one in message["content"] if one["type"] != "thinking"]
    assert after == before
    assert store.without_thinking(key, "agent") == ()
    store.append(thought("new"))
    store.append(say("z"))
    assert b'"thinking":"new"' in raw_of(store)


def test_signed_thinking_is_not_shown_to_the_responses_wire():
    rendering = Rendering(blobs_dir=Path("/nowhere"), model=MODEL)
    store = responses_request.ResponsesStore(rendering, Heads(responses_request.encode_head))
    for item in (thought(), ask("go"), thought(), say("yes")):
        store.append(item)
    body = json.loads(b"".join(store.body(HeadKey(model=MODEL, instructions=""), "a")))
    assert [one["type"] for one in body["input"]] == ["message", "message"]


# --- the head ----------------------------------------------------------------------------------


def thinker(kind, **more):
    return msgspec.structs.replace(MODEL, reasoning=True, thinking=kind, **more)


LEVELS = ("low", "medium", "high", "xhigh", "max")


@pytest.mark.parametrize(
    ("model", "effort", "thinking", "asked"),
    [
        (MODEL, "high", None, None),
        (thinker(""), "high", None, None),
        (thinker("budget"), None, 12_288, None),
        (thinker("budget"), "low", 4_096, None),
        (thinker("budget"), "xhigh", 27_904, None),  # leaves 4,096 of 32,000 for the answer
        (thinker("budget"), "none", None, None),
        (thinker("budget", max_output_tokens=4_500), "high", None, None),
        (thinker("budget", default_effort="low"), None, 4_096, None),
        (thinker("adaptive", efforts=LEVELS), None, "adaptive", None),
        (thinker("adaptive", efforts=LEVELS), "minimal", "adaptive", "low"),
        (thinker("adaptive", efforts=("low", "high")), "medium", "adaptive", "low"),
        (thinker("adaptive", efforts=LEVELS), "none", "disabled", None),
        (thinker("always", efforts=LEVELS), "none", "adaptive", "low"),
        (thinker("always", efforts=LEVELS), "max", "adaptive", "max"),
        (thinker("always", efforts=LEVELS), "loud", "adaptive", None),
        (thinker("always"), "high", "adaptive", None),
    ],
)
def test_an_effort_is_told_in_the_words_of_the_models_kind_of_thinking(
    model, effort, thinking, asked
):
    said = ask_thinking(model, effort, max_tokens=model.max_output_tokens)
    shown = None if said.thinking is None else said.thinking.get("budget_tokens") or (
        said.thinking["type"]
    )  # fmt: skip
    assert (shown, said.effort) == (thinking, asked)


@given(st.sampled_from(["none", "minimal", *LEVELS]), st.sets(st.sampled_from(LEVELS)))
def test_an_effort_is_never_raised_above_what_was_asked_where_a_lower_one_exists(wanted, known):
    chosen = nearest_effort(wanted, tuple(known))
    assert (chosen is None) == (not known)
    ranks = ["none", "minimal", *LEVELS]
    if chosen is not None and any(ranks.index(one) <= ranks.index(wanted) for one in known):
        assert ranks.index(chosen) <= ranks.index(wanted)


def test_the_head_names_model_limit_tools_and_instructions():
    body = body_of(store_of(ask("go")), tools=TOOLS)
    assert list(body) == ["model", "max_tokens", "stream", "tools", "system", "messages"]
    assert body["max_tokens"] == 32_000
    assert body["tools"][0] == {
        "name": "f",
        "description": "d",
        "input_schema": {"type": "object"},
    }
    assert body["tools"][1]["input_schema"] == {"type": "object", "properties": {}}


def test_a_model_that_no_entry_names_gets_a_limit_that_all_allow():
    model = msgspec.structs.replace(MODEL, max_output_tokens=None)
    assert body_of(store_of(ask("go")), model=model)["max_tokens"] == 8_192


def test_parallel_calls_are_switched_off_only_where_there_are_tools():
    model = msgspec.structs.replace(MODEL, parallel_tool_calls=False)
    choice = {"type": "auto", "disable_parallel_tool_use": True}
    assert body_of(store_of(ask("go")), model=model, tools=TOOLS)["tool_choice"] == choice
    assert "tool_choice" not in body_of(store_of(ask("go")), model=model)
    none = msgspec.structs.replace(model, can_call_tools=False)
    assert "tools" not in body_of(store_of(ask("go")), model=none, tools=TOOLS)


def test_a_schema_is_a_grammar_where_that_can_be_and_words_elsewhere():
    able = msgspec.structs.replace(MODEL, structured_output=True)
    strict = body_of(store_of(ask("go")), model=able, output_schema=CLOSED)
    form = {"type": "json_schema", "schema": json.loads(CLOSED)}
    assert strict["output_config"] == {"format": form}
    for model, schema in ((MODEL, CLOSED), (able, b'{"type":"object"}')):
        body = body_of(store_of(ask("go")), model=model, output_schema=schema)
        assert "output_config" not in body
        assert body["system"][1]["text"].endswith(schema.decode())


@pytest.mark.parametrize(
    ("schema", "can"),
    [
        (CLOSED, True),
        (b'{"type":"string"}', True),
        (b'{"type":"string","minLength":3}', False),
        (b'{"type":"object","properties":{"pattern":{"type":"string"}},"required":["pattern"],"additionalProperties":false}', True),  # noqa: E501
        (b'{"type":"array","items":{"type":"integer","maximum":3}}', False),
        (b'{"$ref":"#"}', False),
        (b"not json", False),
    ],
)  # fmt: skip
def test_only_schemas_that_the_server_can_turn_into_a_grammar_are_sent_as_one(schema, can):
    assert has_grammar(schema) is can


# --- the prefix and its marks ------------------------------------------------------------------

ids = st.sampled_from(["a", "b", "c", "d"])
items = st.one_of(
    st.sampled_from(["x", " "]).map(ask),
    st.sampled_from(["y", ""]).map(say),
    st.just(text_message("developer", "dev")),
    st.sampled_from(["1", "2"]).map(thought),
    st.just(thought(slug="other")),
    ids.map(call),
    ids.map(output),
)


@given(st.lists(st.lists(items, max_size=6), min_size=1, max_size=6))
def test_any_history_makes_requests_that_the_wire_takes_and_that_only_grow(turns):
    store, before = store_of(), b""
    for turn in turns:
        for item in turn:
            store.append(item)
        raw = raw_of(store, tools=TOOLS)
        assert raw.count(MARK) <= 4
        plain = raw.replace(MARK, b"")
        if store._leading == [] or before.count(b"dev") == plain.count(b"dev"):
            assert plain.startswith(before[:-4])  # all but what closes the last message
        before = plain
        check_order(json.loads(plain)["messages"])


def check_order(sent):
    assert [one["role"] for one in sent] == [
        ("user", "assistant")[place % 2] for place in range(len(sent))
    ]
    assert sent[-1]["role"] == "user"
    for place, message in enumerate(sent):
        kinds = [block["type"] for block in message["content"]]
        assert kinds
        assert all(block["text"].strip() for block in message["content"] if "text" in block)
        if message["role"] == "assistant":
            assert kinds[-1] not in {"thinking", "redacted_thinking"}
            wanted = [block["id"] for block in message["content"] if "id" in block]
            answers = sent[place + 1]["content"][: len(wanted)]
            assert [block.get("tool_use_id") for block in answers] == wanted
        else:
            assert kinds == sorted(kinds, key=lambda kind: kind != "tool_result")


def test_marks_stand_after_tools_instructions_the_last_request_and_this_one():
    store = store_of(ask("one"))
    marked = marks_of(body_of(store, tools=TOOLS))
    assert marked == ["tool patch", "Be brief.", "one"]
    store.append(say("two"))
    store.append(ask("three"))
    assert marks_of(body_of(store, tools=TOOLS)) == ["tool patch", "Be brief.", "one", "three"]
    assert marks_of(body_of(store, tools=TOOLS)) == ["tool patch", "Be brief.", "one", "three"]
    store.append(ask("four"))
    assert marks_of(body_of(store, tools=TOOLS)) == ["tool patch", "Be brief.", "three", "four"]


def marks_of(body):
    found = [f"tool {tool['name']}" for tool in body.get("tools", ()) if "cache_control" in tool]
    blocks = [*body["system"], *(one for each in body["messages"] for one in each["content"])]
    found += [block["text"] for block in blocks if "cache_control" in block]
    return found


def test_an_item_is_encoded_once_however_often_it_is_sent(monkeypatch):
    encoded = []
    real = msgspec.json.Encoder().encode
    monkeypatch.setattr(
        "swarm.worker.gateway.messages_request.to_json",
        lambda value: encoded.append(value) or real(value),
    )
    store = store_of()
    for number in range(50):
        store.append(ask(f"text {number}"))
        raw_of(store)
    assert len(encoded) == 50

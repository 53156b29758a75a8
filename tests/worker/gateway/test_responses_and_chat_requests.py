"""What is sent on the two wires: items, heads, images, and the grouping that chat servers want."""

import base64
import hashlib
import itertools
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
    OutputText,
    Reasoning,
    text_message,
)
from swarm.mailbox.protocol.sampling import ModelInfo, ToolSpec
from swarm.worker.gateway import chat_request, responses_request
from swarm.worker.gateway.request_encoding import EncodingContext, HeadKey, RequestHeadCache

MODEL = ModelInfo(slug="m", provider="p", wire="responses")


def store_of(module, *, model=MODEL, tolerant=False, blobs_dir=Path("/nowhere")):
    rendering = EncodingContext(blobs_dir=blobs_dir, model=model, tolerant=tolerant)
    kind = module.ResponsesStore if module is responses_request else module.ChatStore
    return kind(rendering, RequestHeadCache(module.encode_head))


def body_of(store, **key):
    settings = {"model": MODEL, "instructions": "I", **key}
    return json.loads(b"".join(store.body(HeadKey(**settings), "agent")))


def sent(module, *items, **settings):
    store = store_of(module, **settings)
    for item in items:
        store.append(item)
    return body_of(store)["input" if module is responses_request else "messages"]


def call(call_id, name="f"):
    return FunctionCall(call_id=call_id, name=name, arguments="{}", id="fc_1")


def output(call_id, text="o"):
    return FunctionCallOutput(call_id=call_id, output=text, success=True)


# --- Responses, sent ---------------------------------------------------------------------------


def test_items_are_sent_without_what_is_ours_alone():
    mail = Message(role="user", content=(InputText(text="hi"),), id="x", phase="commentary")
    assert sent(
        responses_request,
        mail,
        Reasoning(summary=("s",), content=("raw",), encrypted_content="E", id="rs"),
        call("c1"),
        CustomToolCall(call_id="c2", name="patch", input="*"),
        output("c1"),
        CustomToolCallOutput(call_id="c2", output=(InputText(text="t"),), success=False),
    ) == [
        {
            "type": "message",
            "role": "user",
            "content": [{"type": "input_text", "text": "hi"}],
            "phase": "commentary",
        },
        {
            "type": "reasoning",
            "summary": [{"type": "summary_text", "text": "s"}],
            "encrypted_content": "E",
        },
        {"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{}"},
        {"type": "custom_tool_call", "call_id": "c2", "name": "patch", "input": "*"},
        {"type": "function_call_output", "call_id": "c1", "output": "o"},
        {
            "type": "custom_tool_call_output",
            "call_id": "c2",
            "output": [{"type": "input_text", "text": "t"}],
        },
    ]


def test_each_request_begins_with_the_bytes_of_the_one_before():
    store = store_of(responses_request)
    bodies = []
    for number in range(5):
        store.append(text_message("user", f"text {number}"))
        bodies.append(b"".join(store.body(HeadKey(model=MODEL, instructions="I"), "a")))
    for before, after in itertools.pairwise(bodies):
        common = before.index(b'],"prompt_cache_key"')
        assert after[:common] == before[:common]


def test_tools_schema_and_effort_have_their_places():
    model = msgspec.structs.replace(MODEL, freeform_tools=True, reasoning=True)
    tools = (
        ToolSpec(name="f", description="d", parameters=b'{"type":"object"}'),
        ToolSpec(name="patch", description="p", grammar="start: X"),
    )
    body = body_of(
        store_of(responses_request), model=model, tools=tools, effort="high", output_schema=b"{}"
    )
    assert body["tools"] == [
        {
            "type": "function",
            "name": "f",
            "description": "d",
            "strict": False,
            "parameters": {"properties": {}, "type": "object"},
        },
        {
            "type": "custom",
            "name": "patch",
            "description": "p",
            "format": {"type": "grammar", "syntax": "lark", "definition": "start: X"},
        },
    ]
    assert body["reasoning"] == {"effort": "high", "summary": "auto"}
    assert body["text"]["format"]["type"] == "json_schema"
    assert list(body)[-3:] == ["text", "input", "prompt_cache_key"]


def test_a_model_that_cannot_call_tools_is_offered_none():
    model = msgspec.structs.replace(MODEL, can_call_tools=False)
    tools = (ToolSpec(name="f", description="d"),)
    assert body_of(store_of(responses_request), model=model, tools=tools)["tools"] == []
    assert "tools" not in body_of(store_of(chat_request), model=model, tools=tools)


def test_an_image_is_sent_as_a_data_url_made_of_the_stored_bytes(tmp_path):
    data = b"\x89PNG fake"
    name = hashlib.sha256(data).hexdigest()
    (tmp_path / name).write_bytes(data)
    image = InputImage(image_url=f"blob:{name};image/png", detail="high")
    url = "data:image/png;base64," + base64.b64encode(data).decode()
    message = Message(role="user", content=(InputText(text="see"), image))
    (item,) = sent(responses_request, message, blobs_dir=tmp_path)
    assert item["content"][1] == {"type": "input_image", "image_url": url, "detail": "high"}
    _, item = sent(chat_request, message, blobs_dir=tmp_path)
    assert item["content"][1] == {"type": "image_url", "image_url": {"url": url}}


@pytest.mark.parametrize(
    "reference",
    [
        "blob:" + "0" * 64 + ";image/png",
        "blob:../../../etc/passwd;image/png",
        "blob:" + "0" * 64 + ";text/html",
        "file:///etc/passwd",
        "http://169.254.169.254/",
    ],
)
def test_a_reference_that_is_no_stored_image_becomes_a_word(reference, tmp_path):
    message = Message(role="user", content=(InputImage(image_url=reference),))
    (item,) = sent(responses_request, message, blobs_dir=tmp_path)
    assert item["content"][0]["type"] == "input_text"
    assert "/etc/passwd" not in json.dumps(item)


def test_a_model_without_eyes_is_told_that_there_was_an_image():
    model = msgspec.structs.replace(MODEL, image_input=False)
    message = Message(role="user", content=(InputImage(image_url="https://x/y.png"),))
    (item,) = sent(responses_request, message, model=model)
    assert "reads no images" in item["content"][0]["text"]


def test_mail_of_other_agents_is_the_users_unless_the_catalogue_says_otherwise():
    mail = Message(role="assistant", content=(OutputText(text="NEWS"),), author="/root/a")
    (item,) = sent(responses_request, mail)
    assert item == {
        "type": "message",
        "role": "user",
        "content": [{"type": "input_text", "text": "NEWS"}],
    }
    trained = msgspec.structs.replace(MODEL, mail_role="assistant")
    (item,) = sent(responses_request, mail, model=trained)
    assert item["role"] == "assistant"
    assert item["content"] == [{"type": "output_text", "text": "NEWS"}]


# --- Chat, sent --------------------------------------------------------------------------------


def roles(messages):
    return [message["role"] for message in messages]


def test_calls_of_a_response_are_one_message_and_their_outputs_follow_at_once():
    messages = sent(
        chat_request,
        text_message("user", "go"),
        text_message("assistant", "looking"),
        call("a"),
        call("b"),
        text_message("user", "steered"),
        output("b", "second"),
        output("a", "first"),
        text_message("assistant", "done"),
    )
    assert roles(messages) == [
        *("system", "user", "assistant", "tool", "tool", "user", "assistant"),
    ]
    assert [made["id"] for made in messages[2]["tool_calls"]] == ["a", "b"]
    assert messages[2]["content"] == "looking"
    assert [messages[3]["content"], messages[4]["content"]] == ["first", "second"]
    assert messages[5]["content"] == "steered"


def test_leading_developer_messages_join_the_system_message_and_later_ones_are_a_users():
    items = [text_message("developer", "rules"), text_message("user", "go")]
    items.append(text_message("developer", "changed"))
    assert sent(chat_request, *items)[0] == {"role": "system", "content": "I\n\nrules"}
    assert sent(chat_request, *items)[1:] == [
        {"role": "user", "content": "go\n\n<developer>\nchanged\n</developer>"}
    ]


def test_no_call_goes_without_an_output_and_no_output_without_a_call():
    messages = sent(chat_request, text_message("user", "go"), output("lost"), call("a"))
    assert roles(messages) == ["system", "user", "assistant", "tool"]
    assert "interrupted" in messages[-1]["content"]


def test_raw_reasoning_goes_back_with_the_message_it_led_to():
    messages = sent(
        chat_request, text_message("user", "q"), Reasoning(content=("hm",)), call("a"), output("a")
    )
    assert messages[2]["reasoning"] == "hm"


steps = st.lists(st.sampled_from(["user", "assistant", "call", "reason", "out"]), max_size=25)


@given(steps, st.integers(0, 25))
def test_chat_is_valid_at_every_moment_and_settled_messages_never_change(script, look):
    store = store_of(chat_request)
    open_calls = []
    count = 0
    for number, step in enumerate(script):
        match step:
            case "call":
                count += 1
                open_calls.append(f"c{count}")
                store.append(call(f"c{count}"))
            case "out" if open_calls:
                store.append(output(open_calls.pop()))
            case "reason":
                store.append(Reasoning(content=("r",)))
            case "user" | "assistant":
                store.append(text_message(step, f"t{number}"))
        if number % 5 == look % 5:
            check_chat(body_of(store)["messages"])
    check_chat(body_of(store)["messages"])


def check_chat(messages):
    waiting = []
    for message in messages[1:]:
        if waiting:
            assert message["role"] == "tool"
            assert message["tool_call_id"] == waiting.pop(0)
            continue
        assert message["role"] in {"user", "assistant"}
        waiting = [made["id"] for made in message.get("tool_calls", ())]
    assert not waiting

"""What is sent on the Messages wire: order, grouping, images, marks, bytes that stay."""

import base64
import hashlib
import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.messages_items import (
    TOOLS,
    ask,
    body_of,
    call,
    messages,
    output,
    raw_of,
    result,
    say,
    store_of,
    text,
    thought,
    use,
)
from swarm.mailbox.protocol.items import (
    CustomToolCall,
    CustomToolCallOutput,
    FunctionCallOutput,
    InputImage,
    InputText,
    Message,
    text_message,
)
from swarm.worker.gateway.messages_request import BEGINNING, CACHE_MARK, GO_ON, NO_OUTPUT

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


def test_a_mail_of_another_agent_is_told_and_never_the_models_own_word():
    message = Message(role="assistant", content=(InputText(text="done"),), author="/root/a")
    assert messages(ask("go"), message) == [("user", [text("go"), text("done")])]


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
        assert raw.count(CACHE_MARK) <= 4
        plain = raw.replace(CACHE_MARK, b"")
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

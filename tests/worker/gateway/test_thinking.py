"""Thinking and the head on the Messages wire: what is kept, what goes back, what is asked for."""

import json
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.messages_items import (
    CLOSED,
    MODEL,
    TOOLS,
    ask,
    body_of,
    call,
    messages,
    output,
    raw_of,
    say,
    store_of,
    text,
    thought,
    use,
)
from swarm.mailbox.protocol.items import Reasoning
from swarm.worker.gateway import responses_request
from swarm.worker.gateway.effort_choice import nearest_effort
from swarm.worker.gateway.messages_head import has_grammar, thinking_parameters
from swarm.worker.gateway.messages_request import CACHE_MARK, NO_TEXT
from swarm.worker.gateway.request_encoding import (
    EncodingContext,
    HeadKey,
    RedactedThinking,
    RequestHeadCache,
    Thinking,
    seal_block,
    unseal_block,
)

# --- thinking ----------------------------------------------------------------------------------


@given(st.text(), st.text(min_size=1))
def test_a_thinking_block_comes_back_as_it_was(words, signature):
    block = Thinking(thinking=words, signature=signature)
    assert unseal_block(seal_block(block, slug="m-1", item_id="x"), slug="m-1") == block
    hidden = RedactedThinking(data=signature)
    assert unseal_block(seal_block(hidden, slug="m-1", item_id="x"), slug="m-1") == hidden


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
    assert unseal_block(item, slug="m") is None
    assert messages(ask("go"), item, say("yes"), ask("on"))[1] == ("assistant", [text("yes")])


def test_thinking_stands_before_what_it_led_to():
    hidden = seal_block(RedactedThinking(data="XX"), slug="m", item_id="r")
    sent = messages(ask("go"), thought(), hidden, call("a"), output("a"), thought("2"), say("done"))
    first = {"type": "thinking", "thinking": "hm", "signature": "SIG"}
    assert sent[1] == ("assistant", [first, {"type": "redacted_thinking", "data": "XX"}, use("a")])
    assert sent[3] == ("assistant", [{**first, "thinking": "2"}, text("done")])


@pytest.mark.parametrize("after", [(ask("so?"),), ()])
def test_thinking_that_led_to_nothing_is_kept_and_followed_by_a_word(after):
    sent = messages(ask("go"), thought(), *after)
    assert [block["type"] for block in sent[1][1]] == ["thinking", "text"]
    assert sent[1][1][1] == text(NO_TEXT)


def test_a_server_that_does_not_take_thinking_back_gets_the_same_without_it():
    store = store_of(ask("go"), thought(), call("a"), output("a"), thought("2"), say("x"), ask("y"))
    before = json.loads(raw_of(store).replace(CACHE_MARK, b""))
    key = HeadKey(model=MODEL, instructions="Be brief.")
    after = json.loads(b"".join(store.without_thinking(key, "agent")).replace(CACHE_MARK, b""))
    for message in before["messages"]:
        message["content"] = [one for one in message["content"] if one["type"] != "thinking"]
    assert after == before
    assert store.without_thinking(key, "agent") == ()
    store.append(thought("new"))
    store.append(say("z"))
    assert b'"thinking":"new"' in raw_of(store)


def test_signed_thinking_is_not_shown_to_the_responses_wire():
    rendering = EncodingContext(blobs_dir=Path("/nowhere"), model=MODEL)
    store = responses_request.ResponsesStore(
        rendering, RequestHeadCache(responses_request.encode_head)
    )
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
    said = thinking_parameters(model, effort, max_tokens=model.max_output_tokens)
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


def test_thinking_is_not_shown_to_those_who_want_no_summary():
    model = thinker("always")
    for summary, display in (
        ("none", "omitted"),
        ("auto", "summarized"),
        ("detailed", "summarized"),
    ):
        body = body_of(store_of(ask("go")), model=model, summary=summary)
        assert body["thinking"] == {"type": "adaptive", "display": display}


def test_the_head_names_model_limit_tools_and_instructions():
    body = body_of(store_of(ask("go")), tools=TOOLS)
    assert list(body) == ["model", "max_tokens", "stream", "tools", "system", "messages"]
    assert body["max_tokens"] == 32_000
    assert body["tools"][0] == {
        "name": "f",
        "description": "d",
        "input_schema": {"properties": {}, "type": "object"},
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

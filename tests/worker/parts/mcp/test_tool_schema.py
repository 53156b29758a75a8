"""Descriptions and schemas of servers are cleaned and bounded before a model sees them."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from swarm.worker.parts.mcp.tool_schema import MAX_SCHEMA_BYTES, clean_schema, clean_text

ANY_OBJECT = {"type": "object", "properties": {}}
JSON = st.recursive(
    st.none() | st.booleans() | st.floats(allow_nan=True) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=30,
)


def deep(levels):
    return {"type": "object", "properties": {"a": deep(levels - 1)}} if levels else {}


def cleaned(schema):
    return msgspec.json.decode(clean_schema(schema))


def test_a_plain_schema_stays_as_it_is():
    schema = {
        "type": "object",
        "properties": {"q": {"type": "string", "maxLength": 3}},
        "required": ["q"],
        "additionalProperties": False,
    }
    assert cleaned(schema) == schema


def test_equal_schemas_have_equal_bytes():
    one = {"properties": {"a": {}, "b": {}}, "type": "object"}
    other = {"type": "object", "properties": {"b": {}, "a": {}}}
    assert clean_schema(one) == clean_schema(other)


@pytest.mark.parametrize(
    "schema",
    [
        None, "text", [], {"type": "string"}, deep(50), {"description": "x" * 10_000,
        "properties": {str(number): {"description": "y" * 1_000} for number in range(50)}},
        {"type": "object", "enum": list(range(5_000))},
    ],
)  # fmt: skip
def test_what_is_no_schema_of_an_object_or_too_large_accepts_any_object(schema):
    assert cleaned(schema) == ANY_OBJECT


@given(JSON)
def test_every_value_becomes_a_bounded_schema_of_an_object(schema):
    data = clean_schema(schema)
    assert len(data) <= MAX_SCHEMA_BYTES
    assert msgspec.json.decode(data)["type"] == "object"


def test_characters_that_steer_a_terminal_or_turn_text_around_are_left_out():
    assert clean_text("\x1b[31mred\x1b[0m \u202edeb\u2066 \ue000\tb\nc") == "[31mred[0m deb \tb\nc"


def test_a_long_text_is_cut():
    assert clean_text("x" * 5_000, limit=10) == "x" * 9 + "…"

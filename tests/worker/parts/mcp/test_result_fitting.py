"""An odd entry of a server's answer is put right or costs itself, never its neighbours."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp_types.methods import validate_server_result
from pydantic import ValidationError

from swarm.worker.parts.mcp.result_fitting import describe_validation, fit_result

OLD, NEW = "2025-11-25", "2026-07-28"
GOOD = {"name": "good", "inputSchema": {"type": "object"}}
PAGE = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}


def texts_of(result):
    return [part["text"] for part in result["content"]]


def test_an_answer_of_the_protocols_form_is_left_as_it_is():
    for result in ({"tools": [GOOD]}, {"content": []}, {"anything": 1}, {}):
        assert fit_result(result, OLD).result is result


@pytest.mark.parametrize(
    ("odd", "fitted"),
    [
        ({"name": "a"}, {"name": "a", "inputSchema": {"type": "object"}}),
        ({"name": "a", "inputSchema": {}}, {"name": "a", "inputSchema": {"type": "object"}}),
        ({"name": "a", "inputSchema": None}, {"name": "a", "inputSchema": {"type": "object"}}),
        (
            {"name": "a", "inputSchema": {"properties": {"x": {}}}},
            {"name": "a", "inputSchema": {"type": "object", "properties": {"x": {}}}},
        ),
        (
            {**GOOD, "outputSchema": {"type": "string"}, "title": 5, "annotations": {"title": 3}},
            {**GOOD, "annotations": {}},
        ),
        (
            {**GOOD, "annotations": {"readOnlyHint": "maybe", "destructiveHint": True}},
            {**GOOD, "annotations": {"destructiveHint": True}},
        ),
        ({"name": 7, "inputSchema": {"type": "object"}}, None),
        ("text", None),
        (None, None),
    ],
)
@pytest.mark.parametrize("version", [OLD, NEW])
def test_an_odd_tool_is_fitted_or_left_out_and_said(odd, fitted, version):
    told = fit_result({"tools": [odd, GOOD]}, version)
    assert told.result == {**PAGE, "tools": [*([fitted] if fitted else []), GOOD]}
    assert len(told.notes) == 1
    assert "left out" in told.notes[0] if fitted is None else "fitted" in told.notes[0]


def test_lists_of_prompts_and_resources_are_fitted_alike():
    prompts = fit_result({"prompts": [{"name": "p", "arguments": [{"name": "x"}, 3]}, {}]}, OLD)
    assert prompts.result["prompts"] == [
        {"name": "p", "arguments": [{"name": "x", "required": False}]}
    ]
    found = fit_result({"resources": [{"uri": "a://b"}, {"name": "no uri"}]}, OLD)
    assert found.result["resources"] == [{"uri": "a://b", "name": "a://b"}]


def test_an_unreadable_cursor_or_list_ends_the_list():
    assert fit_result({"tools": [GOOD], "nextCursor": 4}, OLD).result == {**PAGE, "tools": [GOOD]}
    assert fit_result({"tools": None}, OLD).result == {**PAGE, "tools": []}


@pytest.mark.parametrize(
    ("result", "texts", "is_error"),
    [
        ({"content": "plain"}, ["plain"], False),
        ({"content": [{"type": "hologram", "x": 1}]}, ['{"type":"hologram","x":1}'], False),
        ({"content": [{"text": "no type"}]}, ["no type"], False),
        ({"content": [], "structuredContent": [1]}, ["[1]"], False),
        ({"content": None, "structuredContent": {}, "isError": "true"}, [], True),
    ],
)
def test_a_part_that_the_protocol_does_not_know_is_passed_on_as_text(result, texts, is_error):
    told = fit_result(result, OLD).result
    assert texts_of(told) == texts
    assert told["isError"] is is_error


def test_a_handshake_that_leaves_things_out_is_understood():
    given = {"protocolVersion": OLD, "capabilities": {"tools": True, "prompts": None}}
    assert fit_result(given, "").result == {
        "protocolVersion": OLD,
        "capabilities": {"tools": {}},
        "serverInfo": {"name": "unknown", "version": ""},
    }


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=6,
)
KEYS = st.sampled_from(
    ["name", "description", "inputSchema", "outputSchema", "annotations", "_meta"]
)


@given(st.lists(values | st.dictionaries(KEYS, values), max_size=4), st.sampled_from([OLD, NEW]))
def test_whatever_the_entries_are_a_good_one_stays_and_the_answer_can_be_read(entries, version):
    told = fit_result({"tools": [*entries, GOOD]}, version)
    assert GOOD in told.result["tools"]
    validate_server_result("tools/list", version, {**PAGE, **told.result})


def test_what_is_wrong_is_said_without_the_librarys_words():
    with pytest.raises(ValidationError) as caught:
        validate_server_result("tools/list", OLD, {"tools": [{"name": 5}]})
    told = describe_validation(caught.value)
    assert "tools.0.name: input should be a valid string" in told
    assert "pydantic" not in told

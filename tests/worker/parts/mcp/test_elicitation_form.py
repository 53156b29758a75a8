"""What a server asks a person is read whole and bounded, or refused."""

import mcp_types
import pytest
from hypothesis import given
from hypothesis import strategies as st

from swarm.mailbox.protocol.elicitation import FormChoice, FormField
from swarm.worker.parts.mcp.elicitation_form import (
    MAX_FIELDS,
    ElicitationRefused,
    check_url,
    read_elicitation,
    read_fields,
)


def fields(**properties):
    return read_fields({"type": "object", "properties": properties, "required": ["a"]})


@pytest.mark.parametrize(
    ("rule", "field"),
    [
        ({"type": "string"}, FormField(name="a", required=True)),
        (
            {"type": "string", "format": "email", "minLength": 3, "default": "a@b"},
            FormField(name="a", required=True, text_format="email", least=3, default=("a@b",)),
        ),
        (
            {"type": "integer", "maximum": 9, "default": 0},
            FormField(name="a", required=True, kind="integer", most=9, default=("0",)),
        ),
        (
            {"type": "boolean", "default": False},
            FormField(name="a", required=True, kind="boolean", default=("no",)),
        ),
        (
            {"type": "string", "enum": ["x", "y"], "enumNames": ["X"], "default": "y"},
            FormField(
                name="a",
                required=True,
                kind="choice",
                choices=(FormChoice(value="x", title="X"), FormChoice(value="y")),
                default=("y",),
            ),
        ),
        (
            {"type": "array", "items": {"anyOf": [{"const": "x", "title": "X"}]}, "minItems": 1,
             "default": ["x"]},
            FormField(
                name="a",
                required=True,
                kind="choices",
                least=1,
                choices=(FormChoice(value="x", title="X"),),
                default=("x",),
            ),
        ),
        # a default that is none of its kind is left out
        ({"type": "integer", "default": "x"}, FormField(name="a", required=True, kind="integer")),
        ({"type": "number", "default": True}, FormField(name="a", required=True, kind="number")),
        (
            {"type": "string", "enum": ["x"], "default": "z"},
            FormField(name="a", required=True, kind="choice", choices=(FormChoice(value="x"),)),
        ),
    ],
)  # fmt: skip
def test_a_field_of_each_kind_is_read(rule, field):
    assert fields(a=rule) == (field,)


@pytest.mark.parametrize(
    "schema",
    [
        None,
        [],
        {"type": "array"},
        {"properties": []},
        {"properties": {"a": True}},
        {"properties": {"a": {"type": "object"}}},
        {"properties": {"a": {"type": "array", "items": {"type": "string"}}}},
        {"properties": {"a": {"type": "string", "enum": []}}},
        {"properties": {"a": {"type": "string", "enum": [1]}}},
        {"properties": {"a": {"type": "string", "enum": ["\x1b[31m"]}}},
        {"properties": {"a": {"type": "string", "enum": [str(at) for at in range(101)]}}},
        {"properties": {"a=b": {"type": "string"}}},
        {"properties": {"": {"type": "string"}}},
        {"properties": {"\x1b[2J": {"type": "string"}}},
        {"properties": {"x" * 101: {"type": "string"}}},
        {"properties": {f"f{at}": {"type": "string"} for at in range(MAX_FIELDS + 1)}},
    ],
)
def test_a_form_outside_of_the_bounds_is_refused_whole(schema):
    with pytest.raises(ElicitationRefused):
        read_fields(schema)


@given(
    st.recursive(
        st.none() | st.booleans() | st.floats() | st.integers() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
        max_leaves=20,
    )
)
def test_any_json_is_a_form_or_refused(value):
    rule = {"type": "string", "enum": value, "default": value, "title": value, "minLength": value}
    for schema in (value, {"properties": value}, {"properties": {"a": rule, "b": value}}):
        try:
            assert all(field.name for field in read_fields(schema))
        except ElicitationRefused:
            continue


@pytest.mark.parametrize(
    ("url", "host"),
    [
        ("https://example.org", "example.org"),
        ("https://Example.ORG:8443/a?b=c#d", "example.org"),
        ("http://127.0.0.1:8080/x", "127.0.0.1"),
        ("http://[::1]/x", "::1"),
        ("https://xn--bnk-5cd.org/", "xn--bnk-5cd.org"),
    ],
)
def test_a_page_that_can_be_asked_for_has_its_host_named(url, host):
    assert check_url(url) == host


@pytest.mark.parametrize(
    "url",
    [
        "",
        "javascript:alert(1)",
        "data:text/html,x",
        "file:///etc/passwd",
        "FILE://host/x",
        "http://example.org",
        "http://localhost.example.org/",
        "https://user@example.org/",
        "https://bank.org:pw@evil.org/",
        "https://@evil.org/",
        "https://b\u0430nk.org/",
        "https://example.org/a b",
        "https://example.org\\@evil.org/",
        "https://example.org/\x1b[31m",
        "https:///path",
        "https://example.org:99999/",
        "https://[::1",
        "//example.org",
        "https://e.org/" + "x" * 2_000,
    ],
)
def test_a_page_that_could_deceive_is_refused(url):
    with pytest.raises(ElicitationRefused):
        check_url(url)


def test_texts_are_cleaned():
    params = mcp_types.ElicitRequestFormParams(
        message="\x1b[2Jhello \u202eevil" + "x" * 5_000,
        requested_schema={"properties": {"a": {"type": "string", "title": "\x07t"}}},
    )
    action = read_elicitation(params, server="s", tool="\x1bt")
    assert action.message.startswith("[2Jhello evilx")
    assert len(action.message) == 2_000
    assert (action.tool, action.fields[0].title) == ("t", "t")

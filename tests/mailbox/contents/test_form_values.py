"""Typed answers become values that fit the form, or are refused with a reason."""

import pytest

from swarm.mailbox.contents.form_values import (
    FormAnswerRefused,
    as_typed,
    form_content,
    form_schema,
    looks_secret,
)
from swarm.mailbox.protocol.elicitation import FormChoice, FormField

COLOURS = (FormChoice(value="r", title="Red"), FormChoice(value="g"))


@pytest.mark.parametrize(
    ("field", "texts", "value"),
    [
        (FormField(name="x"), (" as it is ",), " as it is "),
        (FormField(name="x", kind="integer"), (" 18 ",), 18),
        (FormField(name="x", kind="integer"), ("3.0",), 3),
        (FormField(name="x", kind="number", least=0.5), ("0.5",), 0.5),
        (FormField(name="x", kind="boolean"), ("Yes",), True),
        (FormField(name="x", kind="boolean"), ("0",), False),
        (FormField(name="x", kind="choice", choices=COLOURS), ("red",), "r"),
        (FormField(name="x", kind="choice", choices=COLOURS), ("2",), "g"),
        (FormField(name="x", kind="choices", choices=COLOURS), ("r, g",), ["r", "g"]),
        (FormField(name="x", kind="choices", choices=COLOURS), ("g", "g"), ["g"]),
        (FormField(name="x", text_format="email"), ("a@b.org",), "a@b.org"),
        (FormField(name="x", text_format="date"), ("2026-11-24",), "2026-11-24"),
    ],
)
def test_a_text_becomes_the_value_that_its_field_wants(field, texts, value):
    assert form_content((field,), {"x": texts}) == {"x": value}


@pytest.mark.parametrize(
    ("field", "texts"),
    [
        (FormField(name="x", least=2), ("a",)),
        (FormField(name="x", most=2), ("abc",)),
        (FormField(name="x", text_format="email"), ("nobody",)),
        (FormField(name="x", text_format="uri"), ("not a uri",)),
        (FormField(name="x", text_format="date-time"), ("yesterday",)),
        (FormField(name="x"), ("two", "texts")),
        (FormField(name="x", kind="integer"), ("1.5",)),
        (FormField(name="x", kind="integer"), ("ten",)),
        (FormField(name="x", kind="integer", most=3), ("4",)),
        (FormField(name="x", kind="number"), ("nan",)),
        (FormField(name="x", kind="number"), ("1e999",)),
        (FormField(name="x", kind="boolean"), ("perhaps",)),
        (FormField(name="x", kind="choice", choices=COLOURS), ("blue",)),
        (FormField(name="x", kind="choice", choices=COLOURS), ("0",)),
        (FormField(name="x", kind="choices", choices=COLOURS, most=1), ("r,g",)),
    ],
)
def test_a_value_that_does_not_fit_is_refused_and_its_field_named(field, texts):
    with pytest.raises(FormAnswerRefused, match=r"^x"):
        form_content((field,), {"x": texts})


def test_what_was_not_answered_has_its_default_or_is_left_out_unless_it_is_required():
    fields = (
        FormField(name="a", kind="integer", default=("7",)),
        FormField(name="b"),
        FormField(name="c", kind="boolean", default=("no",), required=True),
    )
    assert form_content(fields, {}) == {"a": 7, "c": False}
    assert form_content(fields, {"a": (), "b": ("x",)}) == {"a": 7, "b": "x", "c": False}
    with pytest.raises(FormAnswerRefused, match="requires it"):
        form_content((FormField(name="d", required=True),), {})
    with pytest.raises(FormAnswerRefused, match="no field 'z'"):
        form_content(fields, {"z": ("1",)})


def test_values_of_a_client_s_form_mean_what_they_would_if_they_were_typed():
    fields = (
        FormField(name="a", kind="boolean"),
        FormField(name="b", kind="number"),
        FormField(name="c", kind="choices", choices=COLOURS),
    )
    content = {"a": True, "b": 1.5, "c": ["r", "g"]}
    assert form_content(fields, as_typed({**content, "d": {"no": "value"}})) == content


def test_the_schema_of_a_form_has_only_what_the_protocol_allows():
    fields = (
        FormField(name="a", title="A", least=2, most=9, required=True, default=("xy",)),
        FormField(name="b", kind="choice", choices=COLOURS),
    )
    assert form_schema(fields) == {
        "type": "object",
        "properties": {
            "a": {"title": "A", "type": "string", "minLength": 2, "maxLength": 9, "default": "xy"},
            "b": {
                "type": "string",
                "oneOf": [{"const": "r", "title": "Red"}, {"const": "g", "title": "g"}],
            },
        },
        "required": ["a"],
    }


@pytest.mark.parametrize(
    "name", ["password", "API_key", "GitHub token", "pin", "credit card number"]
)
def test_a_field_that_asks_for_a_secret_is_known(name):
    assert looks_secret(FormField(name=name))
    assert looks_secret(FormField(name="x", description=f"Your {name}"))


@pytest.mark.parametrize("name", ["name", "pinned", "city", "spinner", "keyboard"])
def test_an_ordinary_field_is_not_taken_for_a_secret(name):
    assert not looks_secret(FormField(name=name))

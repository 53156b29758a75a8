"""Errors about wrong values: in a person's words, with the values that fit."""

from typing import Literal

import msgspec
import pytest

from swarm.roles.config.validation_words import choices_at, explain_mismatch


class Inner(msgspec.Struct):
    level: Literal["low", "high"] | None = None


class Outer(msgspec.Struct, rename="kebab"):
    size: int | None = None
    inner: Inner | None = None
    by_name: dict[str, Inner] = {}
    several: tuple[Inner, ...] = ()


@pytest.mark.parametrize(
    ("text", "steps", "said"),
    [
        ("Expected `int | null`, got `str`", ["size"], "must be a whole number, not a text"),
        ("Expected `str | object`, got `int`", [], "must be a text or a table, not a whole number"),
        ("Expected `int` >= 1", [], "must be a whole number >= 1"),
        ("Invalid enum value 'x'", ["inner", "level"], "'x' is not known; there are high, low"),
        ("Invalid enum value 'x'", ["nowhere"], "Invalid enum value 'x'"),
        ("Something else", ["size"], "Something else"),
    ],
)
def test_what_is_wrong_is_said_in_words(text, steps, said):
    assert explain_mismatch(text, steps, Outer) == said


@pytest.mark.parametrize(
    "steps", [["inner", "level"], ["by-name", "any", "level"], ["several", "level"]]
)
def test_values_are_found_below_tables_and_lists(steps):
    assert choices_at(Outer, steps) == ("high", "low")


@pytest.mark.parametrize(
    ("value", "kind"), [({"size": "x"}, Outer), ({"inner": {"level": "x"}}, Outer)]
)
def test_the_words_fit_what_the_library_says(value, kind):
    with pytest.raises(msgspec.ValidationError) as raised:
        msgspec.convert(value, kind)
    text = str(raised.value).partition(" - at")[0]
    steps = str(raised.value).partition("$.")[2].rstrip("`").split(".")
    assert explain_mismatch(text, steps, kind) != text

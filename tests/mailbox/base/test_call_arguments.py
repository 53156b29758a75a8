"""Arguments as models write them: null is left out, and text may hold the list that is wanted."""

import json
from typing import Annotated, Literal

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from swarm.mailbox.base.call_arguments import decode_call_arguments


class Part(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    weight: int = 7
    more: tuple[str, ...] = ("m",)


class Order(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    text: str = "t"
    number: Annotated[int, msgspec.Meta(description="n")] = 3
    flag: bool = True
    mode: Literal["a", "b"] = "a"
    parts: tuple[Part, ...] = ()
    nested: Part | None = None
    by_name: dict[str, Part] = {}
    free: dict[str, object] = {}
    raw: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    either: str | int | None = None
    words: list[str] | None = None
    named: Annotated[int, msgspec.Meta(ge=0)] = msgspec.field(default=1, name="otherName")


class Needs(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    parts: tuple[Part, ...]
    raw: msgspec.Raw = msgspec.Raw(b"{}")


FIELDS = [field.encode_name for field in msgspec.structs.fields(Order)]
NESTED = Part(name="x")


@pytest.mark.parametrize("name", FIELDS)
@pytest.mark.parametrize("null", ["null", '{"%s": null}', '{"%s" : null }'])
def test_null_is_what_is_left_out(name, null):
    text = null % name if "%s" in null else null
    assert decode_call_arguments(text, Order) == Order()


@pytest.mark.parametrize("text", ["", " \n", "{}", " null "])
def test_nothing_at_all_is_an_empty_object(text):
    assert decode_call_arguments(text, Order) == Order()


@pytest.mark.parametrize(
    ("text", "order"),
    [
        ('{"parts": [{"name": "x", "weight": null, "more": null}]}', Order(parts=(NESTED,))),
        ('{"nested": {"name": "x", "weight": null}}', Order(nested=NESTED)),
        ('{"by_name": {"k": {"name": "x", "more": null}}}', Order(by_name={"k": NESTED})),
    ],
)
def test_null_is_left_out_at_every_depth(text, order):
    assert decode_call_arguments(text, Order) == order


@pytest.mark.parametrize(
    ("value", "order"),
    [
        ({"parts": json.dumps([{"name": "x", "weight": None}])}, Order(parts=(NESTED,))),
        ({"parts": [json.dumps({"name": "x", "more": '["m"]'})]}, Order(parts=(NESTED,))),
        ({"nested": json.dumps({"name": "x"})}, Order(nested=NESTED)),
        ({"nested": " null "}, Order()),
        ({"by_name": json.dumps({"k": {"name": "x"}})}, Order(by_name={"k": NESTED})),
        ({"free": '{"a": null}'}, Order(free={"a": None})),
        ({"words": ' ["a"]\n'}, Order(words=["a"])),
        ({"number": "5", "flag": "false", "otherName": 2.0}, Order(number=5, flag=False, named=2)),
        ({"number": "null", "mode": "null"}, Order()),
        (json.dumps({"words": ["a"]}), Order(words=["a"])),
    ],
)
def test_text_that_holds_what_is_wanted_is_read_as_that(value, order):
    assert decode_call_arguments(json.dumps(value), Order) == order


@pytest.mark.parametrize("text", ["null", "[1]", '{"a": null}', '"null"'])
def test_text_that_is_wanted_as_text_stays_text(text):
    written = json.dumps({"text": text, "either": text, "nested": None})
    assert decode_call_arguments(written, Order) == Order(text=text, either=text)


def test_values_whose_type_is_open_are_never_looked_into():
    inner = '{"a": null, "b": "[1]", "c": {"d": null}, "e": [null]}'
    read = decode_call_arguments(f'{{"free": {inner}, "raw": {inner}, "text": null}}', Order)
    assert read == Order(free=json.loads(inner), raw=msgspec.Raw(inner.encode()))


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ('{"name": null, "parts": []}', r"got `null` - at `\$\.name`"),
        ('{"name": "n", "parts": null}', r"got `null` - at `\$\.parts`"),
        ('{"name": "n", "parts": "null"}', r"got `null` - at `\$\.parts`"),
        ('{"name": "n", "parts": [{"name": null}]}', r"at `\$\.parts\[0\]\.name`"),
        ('{"name": "n", "parts": [null]}', r"at `\$\.parts\[\.\.\.\]|at `\$\.parts\[0\]`"),
        ('{"name": "n", "parts": "[1"}', r"Expected `array`, got `str` - at `\$\.parts`"),
        ('{"name": "n", "parts": "\\"[]\\""}', r"Expected `array`, got `str`"),
        ('{"parts": []}', "missing required field `name`"),
        ("null", "missing required field `name`"),
        ('{"name": null', "Input data was truncated"),
    ],
)
def test_what_is_required_is_an_error_that_names_its_place(text, place):
    with pytest.raises(msgspec.DecodeError, match=place):
        decode_call_arguments(text, Needs)


def test_a_field_that_nobody_knows_stays_an_error():
    with pytest.raises(msgspec.ValidationError, match="unknown field `strange`"):
        decode_call_arguments('{"strange": null}', Order)


@pytest.mark.parametrize(
    "text",
    [
        '{"free": null, "words": ' + "[" * 100_000,
        '{"words": ' + json.dumps("[" * 100_000) + "}",
        '{"free": ' + json.dumps('{"a":' * 100_000) + "}",
        json.dumps('{"free": {"a":' + "[" * 100_000),
    ],
)
def test_what_is_nested_too_deeply_is_an_error_like_any_other(text):
    with pytest.raises(msgspec.DecodeError):
        decode_call_arguments(text, Order)


def test_text_is_opened_once_in_each_place():
    text: object = ["a"]
    for _ in range(2):
        text = json.dumps(text)
    with pytest.raises(msgspec.ValidationError, match="words"):
        decode_call_arguments(json.dumps({"words": text}), Order)


@given(
    st.builds(
        Part,
        name=st.text(st.characters(codec="utf-8")),
        weight=st.integers(-1000, 1000),
        more=st.lists(st.text(st.characters(codec="utf-8"), max_size=9), max_size=3).map(tuple),
    )
)
def test_what_is_written_right_is_read_as_it_is_written(part):
    order = Order(parts=(part,), nested=part, words=list(part.more), either=part.name)
    text = msgspec.json.encode(order).decode()
    assert decode_call_arguments(text, Order) == order
    with_null = text.replace('"number":3,', '"number":null,', 1)
    assert decode_call_arguments(with_null, Order) == order

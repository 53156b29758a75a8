"""A schema whose references multiply is refused for a value that would never end."""

import pytest

from swarm.mailbox.base.schema_check import SchemaUnusable, find_violation, open_validator
from swarm.mailbox.base.schema_cost import SchemaCost


def doubled(n, keyword="allOf", **inside):
    """Each part refers to the next one twice, for the same value or for what is in it."""
    parts = {
        f"d{k}": {keyword: [{"$ref": f"#/$defs/d{k + 1}", **inside}, {"$ref": f"#/$defs/d{k + 1}"}]}
        for k in range(n)
    }
    parts[f"d{n}"] = {"type": "string"}
    return {"$ref": "#/$defs/d0", "$defs": parts}


NODE = {"properties": {"value": {"type": "integer"}, "next": {"$ref": "#"},
                       "children": {"type": "array", "items": {"$ref": "#"}}}}  # fmt: skip
ANY_JSON = {
    "anyOf": [
        {"type": ["string", "number", "boolean", "null"]},
        {"type": "array", "items": {"$ref": "#"}},
        {"type": "object", "additionalProperties": {"$ref": "#"}},
    ]
}
TWICE = {"anyOf": [{"type": "array", "items": {"$ref": "#"}},
                   {"type": ["array", "string"], "items": {"$ref": "#"}}]}  # fmt: skip


def nested(depth, last):
    for _ in range(depth):
        last = [last]
    return last


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        (doubled(60), "x"), (doubled(60, "anyOf"), 1), (doubled(60, "oneOf"), "x"),
        (TWICE, nested(60, 1)),
        ({**TWICE, "$dynamicAnchor": "n"}, nested(60, 1)),
        ({"$defs": {"a b": doubled(1), **doubled(60)["$defs"]}, "$ref": "#/$defs/d0"}, "x"),
        ({"items": doubled(60), "$defs": doubled(60)["$defs"]}, ["x"]),
        ({"properties": {"a": {"not": {"$ref": "#/$defs/d0"}}}, "$defs": doubled(60)["$defs"]},
         {"a": "x"}),
    ],
)  # fmt: skip
def test_references_that_multiply_are_refused_before_anything_is_compared(schema, value):
    assert SchemaCost(schema).count(value) > 1 << 50
    assert "comparisons" in find_violation(value, open_validator(schema, linear=True))


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        (NODE, {"value": 1, "children": [{"value": n, "children": []} for n in range(5_000)]}),
        (ANY_JSON, {f"k{n}": [n, {"a": [n]}] for n in range(2_000)}),
        (ANY_JSON, nested(60, "x")), (doubled(6), "x"),
        ({"items": {"$ref": "#/$defs/s"}, "$defs": {"s": {"type": "string"}}}, ["x"] * 50_000),
        ({"allOf": [{"$ref": "#"}]}, 1),
        ({"$ref": "#/$defs/a~1b", "$defs": {"a/b": {"type": "integer"}}}, 1),
        ({"$ref": "#here", "$defs": {"x": {"$anchor": "here", "type": "integer"}}}, 1),
    ],
)  # fmt: skip
def test_ordinary_references_are_followed(schema, value):
    assert find_violation(value, open_validator(schema, linear=True)) is None


def test_a_value_that_does_not_fit_is_told_as_before():
    found = find_violation({"next": {"value": "x"}}, open_validator(NODE, linear=True))
    assert found == 'at next/value: "x" is not of type "integer"'


def test_what_cannot_be_counted_is_unusable_of_a_stranger_and_usable_of_a_person():
    schema = {"$ref": "part", "$defs": {"p": {"$id": "part", "type": "integer"}}}
    schema = {"$id": "https://x.example/", **schema}
    assert find_violation(1, open_validator(schema)) is None
    with pytest.raises(SchemaUnusable, match="address"):
        open_validator(schema, linear=True)

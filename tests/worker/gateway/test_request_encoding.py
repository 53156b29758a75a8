"""A provider is asked for strict answers only where it cannot refuse the schema for it."""

import json

import pytest

from swarm.supervisor.parts.guardian.assessment import SCHEMA
from swarm.worker.gateway.request_encoding import is_strict

CLOSED = {
    "type": "object",
    "properties": {"a": {"type": "string"}},
    "required": ["a"],
    "additionalProperties": False,
}


@pytest.mark.parametrize(
    ("schema", "strict"),
    [
        (CLOSED, True),
        ({"type": "string"}, True),
        (CLOSED | {"required": []}, False),
        (CLOSED | {"additionalProperties": True}, False),
        ({key: value for key, value in CLOSED.items() if key != "additionalProperties"}, False),
        (CLOSED | {"properties": {"a": CLOSED}}, True),
        (CLOSED | {"properties": {"a": CLOSED | {"required": []}}}, False),
        ({"anyOf": [CLOSED, CLOSED | {"required": "a"}]}, False),
    ],
)
def test_only_a_schema_without_optional_or_open_properties_is_strict(schema, strict):
    assert is_strict(json.dumps(schema).encode()) is strict


def test_what_is_no_json_is_not_strict():
    assert not is_strict(b"{")
    assert not is_strict(b"[" * 100_000)


def test_the_reviewers_schema_leaves_all_but_the_outcome_optional():
    assert not is_strict(SCHEMA)

"""JSON Schema of the configuration, for editors; generated from the structs of `schema.py`. Pure.

It forbids unknown keys, and contains only what the structs define. Codex's keys that have no effect
here are allowed with any value.
"""

from typing import cast

import msgspec

from .key_path import TABLES_WITH_CHOSEN_NAMES
from .schema import CODEX_INNER_KEYS, CODEX_KEYS, Config

DRAFT = "https://json-schema.org/draft/2020-12/schema"
NO_EFFECT = {"description": "A key of Codex; it has no effect here."}
_REFERENCE = "#/$defs/{name}"


def config_schema() -> dict[str, object]:
    """The whole schema; equal calls give equal values."""
    kinds = [Config, *(kind for pair in TABLES_WITH_CHOSEN_NAMES.values() for kind in pair)]
    _, parts = msgspec.json.schema_components(kinds, ref_template=_REFERENCE, schema_hook=_any)
    parts = dict(sorted(parts.items()))
    for part in parts.values():
        _close(part)
    for key, (fixed, chosen) in TABLES_WITH_CHOSEN_NAMES.items():
        table = parts[fixed.__name__]
        table["additionalProperties"] = {"$ref": _REFERENCE.format(name=chosen.__name__)}
        for inner in sorted(CODEX_INNER_KEYS):
            prefix, _, name = inner.rpartition(".")
            if prefix == key:
                table["properties"].setdefault(name, NO_EFFECT)
        parts[Config.__name__]["properties"][key] = {"$ref": _REFERENCE.format(name=fixed.__name__)}
    parts = {name: cast("dict[str, object]", _without_null(part)) for name, part in parts.items()}
    whole = parts.pop(Config.__name__)
    properties = cast("dict[str, object]", whole["properties"])
    for name in sorted(CODEX_KEYS):
        properties.setdefault(name, NO_EFFECT)
    return {"$schema": DRAFT, **whole, "title": "swarm's config.toml", "$defs": parts}


def render_schema() -> str:
    return msgspec.json.format(msgspec.json.encode(config_schema()), indent=1).decode() + "\n"


def _without_null(schema: object) -> object:
    """Remove null types: TOML has no null, so an optional key is only not required."""
    if isinstance(schema, list):
        return [_without_null(one) for one in cast("list[object]", schema)]
    if not isinstance(schema, dict):
        return schema
    table = cast("dict[str, object]", schema)
    kept = {key: _without_null(value) for key, value in table.items() if value is not None}
    kinds = cast("list[object]", kept.get("anyOf", []))
    left = [kind for kind in kinds if kind != {"type": "null"}]
    if len(left) == 1 and isinstance(left[0], dict):
        del kept["anyOf"]
        return cast("dict[str, object]", left[0]) | kept
    return kept | {"anyOf": left} if left else kept


def _close(part: dict[str, object]) -> None:
    if isinstance(words := part.get("description"), str):
        part["description"] = " ".join(
            words.split()
        )  # Python versions indent docstrings differently
    if "properties" in part:
        part.setdefault("additionalProperties", False)
        if not part.get("required"):
            part.pop("required", None)


def _any(_kind: type) -> dict[str, object]:
    """The schema of a value that other code checks."""
    return {"description": "Any value; it is read elsewhere."}

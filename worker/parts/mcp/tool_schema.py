"""A tool's description and schema as models may get them: cleaned, bounded, an object. Pure.

Both come from a server, which may be hostile: control characters could steer a terminal, and a
schema could be of any size and depth.
"""

import unicodedata
from typing import cast

import msgspec

MAX_SCHEMA_BYTES = 16 << 10
MAX_DESCRIPTION = 2_000  # characters
MAX_DEPTH = 12
_MAX_ENTRIES = 2_000
ANY_OBJECT = b'{"type":"object","properties":{}}'
_KEPT_BLANKS = "\n\t"


def clean_text(text: str, *, limit: int = MAX_DESCRIPTION) -> str:
    """The text without control, format and private characters, cut to `limit` characters."""
    kept = "".join(
        char
        for char in text[: 4 * limit]
        if char in _KEPT_BLANKS or unicodedata.category(char)[0] != "C"
    ).strip()
    return kept if len(kept) <= limit else f"{kept[: limit - 1]}…"


def clean_schema(schema: object) -> bytes:
    """The JSON of a schema of an object, with sorted keys; its bytes are the same for equal ones.

    One that is no object's schema, too large, or too deep is replaced by one that accepts any
    object: the server still checks its arguments itself.
    """
    if not isinstance(schema, dict):
        return ANY_OBJECT
    counter = _Counter()
    table = cast("dict[str, object]", _clean(cast("object", schema), 0, counter))
    if counter.exceeded or table.get("type", "object") != "object":
        return ANY_OBJECT
    table["type"] = "object"
    if not isinstance(table.get("properties"), dict):
        table["properties"] = {}
    for noise in ("$schema", "$id", "title"):
        table.pop(noise, None)
    try:
        data = msgspec.json.encode(table, order="sorted")
    except (TypeError, ValueError, msgspec.MsgspecError):
        return ANY_OBJECT
    return data if len(data) <= MAX_SCHEMA_BYTES else ANY_OBJECT


class _Counter:
    def __init__(self) -> None:
        self.entries = 0
        self.exceeded = False


def _clean(value: object, depth: int, counter: _Counter) -> object:
    counter.entries += 1
    if depth > MAX_DEPTH or counter.entries > _MAX_ENTRIES:
        counter.exceeded = True
        return None
    if isinstance(value, str):
        return clean_text(value)
    if isinstance(value, dict):
        table = cast("dict[object, object]", value)
        return {
            clean_text(str(key), limit=200): _clean(inner, depth + 1, counter)
            for key, inner in table.items()
        }
    if isinstance(value, list):
        return [_clean(inner, depth + 1, counter) for inner in cast("list[object]", value)]
    return value if isinstance(value, int | float | bool) else None

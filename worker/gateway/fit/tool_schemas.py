"""Tools as who receives them takes them: schemas that no server refuses, without what it refused.

Pure. The model sees the fitted schema; whoever runs the call checks the whole one. On every wire an
array says what it holds, and the top of a schema is a plain object: its alternatives are joined to
one list of properties. A server that refuses more gets the simplest keywords alone.
"""

from collections.abc import Iterator
from typing import cast

import msgspec

from swarm.mailbox.protocol.sampling import ToolSpec

from .dialect import Dialect

JsonObject = dict[str, object]
_COMBINED = ("allOf", "anyOf", "oneOf")
_NOT_AT_TOP = frozenset({*_COMBINED, "not", "enum", "const", "if", "then", "else", "$ref"})
# What nearly all servers take in a schema.
_SIMPLE = frozenset({"type", "description", "properties", "required", "items", "enum"})
_MOST_DEPTH = 20
_encode = msgspec.json.Encoder(order="sorted").encode
_decode = msgspec.json.Decoder(JsonObject).decode


def fit_tools(tools: tuple[ToolSpec, ...], dialect: Dialect) -> tuple[ToolSpec, ...]:
    """The tools that are offered, with schemas that are taken."""
    return tuple(
        fitted
        for tool in tools
        if tool.name not in dialect.left_out_tools
        for fitted in (_fit_tool(tool, dialect),)
    )


def _fit_tool(tool: ToolSpec, dialect: Dialect) -> ToolSpec:
    fitted = fit_schema(tool.parameters, is_plain=dialect.plain_schemas)
    if fitted == tool.parameters:
        return tool
    return msgspec.structs.replace(tool, parameters=fitted)


def fit_schema(schema: bytes, *, is_plain: bool = False) -> bytes:
    """The schema of a tool's arguments as every server takes it; the same bytes if it is so."""
    try:
        table = _decode(schema)
    except (msgspec.DecodeError, RecursionError):
        return b'{"properties":{},"type":"object"}'
    top = _plain_top(table, table)
    filled = cast("JsonObject", _filled(top, 0))
    if is_plain:
        filled = _simplified(filled, filled, 0)
    return schema if filled == table else _encode(filled)


def _plain_top(table: JsonObject, root: JsonObject) -> JsonObject:
    """The object at the top, with the properties of its alternatives."""
    if not _NOT_AT_TOP & table.keys() and table.get("type", "object") == "object":
        is_whole = "type" in table and isinstance(table.get("properties"), dict)
        properties = table.get("properties") if is_whole else _gathered(table, root, 0)[0]
        return table if is_whole else table | {"type": "object", "properties": properties}
    properties, required = _gathered(table, root, 0)
    kept = {name: value for name, value in table.items() if name not in _NOT_AT_TOP}
    kept |= {"type": "object", "properties": properties}
    kept.pop("required", None)
    if required:
        kept["required"] = sorted(required)
    return kept


def _gathered(table: JsonObject, root: JsonObject, depth: int) -> tuple[JsonObject, set[str]]:
    """All properties of an object and its alternatives, and those that every one requires."""
    own, listed = table.get("properties"), table.get("required")
    properties = dict(cast("JsonObject", own)) if isinstance(own, dict) else {}
    named = cast("list[object]", listed) if isinstance(listed, list) else []
    required = {name for name in named if isinstance(name, str)}
    if depth >= _MOST_DEPTH:
        return properties, required
    if (target := _referred(table, root)) is not None:
        more, needed = _gathered(target, root, depth + 1)
        properties, required = more | properties, required | needed
    for keyword in _COMBINED:
        shared: set[str] | None = None
        for branch in _tables(table.get(keyword)):
            more, needed = _gathered(branch, root, depth + 1)
            for name, value in more.items():
                properties[name] = _either(properties.get(name), value)
            shared = needed if shared is None else shared & needed
            required |= needed if keyword == "allOf" else set()
        required |= shared or set()
    return properties, required & properties.keys()


def _either(before: object, value: object) -> object:
    """What a property is that two alternatives describe."""
    if before is None or before == value:
        return value
    forms: list[object] = [before]
    if isinstance(before, dict) and set(cast("JsonObject", before)) == {"anyOf"}:
        forms = cast("list[object]", cast("JsonObject", before)["anyOf"])
    return {"anyOf": forms if value in forms else [*forms, value]}


def _tables(value: object) -> Iterator[JsonObject]:
    for inner in cast("list[object]", value) if isinstance(value, list) else ():
        if isinstance(inner, dict):
            yield cast("JsonObject", inner)


def _inner(value: object, name: str) -> object:
    return cast("JsonObject", value).get(name) if isinstance(value, dict) else None


def _referred(table: JsonObject, root: JsonObject) -> JsonObject | None:
    """What a `$ref` within the schema names."""
    name = table.get("$ref")
    if not isinstance(name, str) or not name.startswith("#"):
        return None
    found: object = root
    for step in name.removeprefix("#").split("/")[1:]:
        found = _inner(found, step.replace("~1", "/").replace("~0", "~"))
    return cast("JsonObject", found) if isinstance(found, dict) else None


def _filled(value: object, depth: int) -> object:
    """The schema with `items` at each array."""
    if depth > 2 * _MOST_DEPTH:
        return value
    if isinstance(value, list):
        return [_filled(inner, depth + 1) for inner in cast("list[object]", value)]
    if not isinstance(value, dict):
        return value
    table = {name: _filled(inner, depth + 1) for name, inner in cast("JsonObject", value).items()}
    kind = table.get("type")
    is_array = kind == "array" or (isinstance(kind, list) and "array" in kind)
    if is_array and not isinstance(table.get("items"), dict):
        table["items"] = {}
    if isinstance(table.get("required"), bool):  # as the third draft has it
        del table["required"]
    return table


def _simplified(table: JsonObject, root: JsonObject, depth: int) -> JsonObject:
    """The simplest keywords alone: one type, no alternatives, no references."""
    if depth > _MOST_DEPTH:
        return {}
    target = _referred(table, root)
    if target is not None:
        return _simplified(target | {"description": table.get("description", "")}, root, depth + 1)
    branches = [branch for key in _COMBINED for branch in _tables(table.get(key))]
    chosen = next((one for one in branches if one.get("type") != "null"), None)
    if chosen is not None and "type" not in table:
        return _simplified({**chosen, **_described(table)}, root, depth + 1)
    kept = {name: value for name, value in table.items() if name in _SIMPLE and value != ""}
    kind = kept.get("type")
    if isinstance(kind, list):
        kinds = [one for one in cast("list[object]", kind) if one != "null"]
        kept["type"] = kinds[0] if kinds else "string"
    properties = kept.get("properties")
    if isinstance(properties, dict):
        inner = cast("JsonObject", properties)
        kept["properties"] = {
            name: _simplified(cast("JsonObject", value), root, depth + 1)
            for name, value in inner.items()
            if isinstance(value, dict)
        }
        needed = kept.get("required")
        if isinstance(needed, list):
            kept["required"] = [name for name in cast("list[object]", needed) if name in inner]
    if isinstance(kept.get("items"), dict):
        items = _simplified(cast("JsonObject", kept["items"]), root, depth + 1)
        kept["items"] = items or {"type": "string"}
    choices = kept.get("enum")
    if isinstance(choices, list):
        listed = cast("list[object]", choices)
        kept["enum"] = [one for one in listed if one != ""]  # Gemini's takes no empty one
        if not kept["enum"] or not all(isinstance(one, str) for one in listed):
            del kept["enum"]
    return kept


def _described(table: JsonObject) -> JsonObject:
    return {"description": table["description"]} if "description" in table else {}

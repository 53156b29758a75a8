"""Answers that are not quite of the protocol's form, fitted entry by entry. Pure.

The SDK checks an answer as a whole: one tool with an empty schema would cost its server all tools.
Here each entry of a list is checked alone. What can be understood is put right, what cannot costs
itself, and both are told in words for people.
"""

from collections.abc import Callable, Mapping
from typing import Literal, NamedTuple, TypeGuard, cast

import mcp_types
import msgspec
from mcp_types.methods import validate_server_result
from mcp_types.version import KNOWN_PROTOCOL_VERSIONS, LATEST_HANDSHAKE_VERSION
from pydantic import ValidationError

Json = dict[str, object]
_Method = Literal[
    "tools/list", "prompts/list", "resources/list", "resources/templates/list",
    "tools/call", "initialize",
]  # fmt: skip
MAX_NOTES = 20  # of one answer
MAX_ENTRIES = 5_000  # of one answer that are looked at
_PAGE_DEFAULTS: Json = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}


class FittedResult(NamedTuple):
    """The answer as the SDK takes it, and what was changed in it or left out."""

    result: Json
    notes: tuple[str, ...] = ()


def fit_result(result: Json, version: str) -> FittedResult:
    """The answer of a server, by its shape; the same object where nothing is odd.

    Args:
        result: Of a JSON-RPC answer. Not changed.
        version: The negotiated revision of the protocol; before that, any that is known.
    """
    method = _method_of(result)
    if method is None or _is_valid(method, version, result):
        return FittedResult(result)
    if method == "tools/call":
        return _fit_call(result)
    if method == "initialize":
        return _fit_handshake(result)
    return _fit_list(method, version, result)


def describe_validation(error: ValidationError) -> str:
    """What is wrong with an answer, without the library's own words about itself."""
    found = error.errors(include_url=False, include_input=False, include_context=False)
    places = [f"{'.'.join(map(str, one['loc'])) or 'it'}: {one['msg'].lower()}" for one in found]
    more = f" (and {len(places) - 3} more)" if len(places) > 3 else ""
    return f"its answer is not of the protocol's form: {'; '.join(places[:3])}{more}"


def _method_of(result: Json) -> _Method | None:
    if "protocolVersion" in result:
        return "initialize"
    for key, kind in _LISTS.items():
        if key in result:
            return kind.method
    if "content" in result or ("structuredContent" in result and "role" not in result):
        return None if "role" in result else "tools/call"
    return None


def _is_valid(method: str, version: str, result: Mapping[str, object]) -> bool:
    if version not in KNOWN_PROTOCOL_VERSIONS:
        version = LATEST_HANDSHAKE_VERSION
    try:
        validate_server_result(method, version, result)
        _MODELS[method].model_validate(result, by_name=False)
    except KeyError:  # this revision has no such method
        return True
    except ValueError:
        return False
    return True


_MODELS: dict[str, type[mcp_types.Result]] = {
    "tools/list": mcp_types.ListToolsResult,
    "prompts/list": mcp_types.ListPromptsResult,
    "resources/list": mcp_types.ListResourcesResult,
    "resources/templates/list": mcp_types.ListResourceTemplatesResult,
    "tools/call": mcp_types.CallToolResult,
    "initialize": mcp_types.InitializeResult,
}


# --- lists -----------------------------------------------------------------------------------


def _fit_list(method: _Method, version: str, result: Json) -> FittedResult:
    key = next(key for key, kind in _LISTS.items() if kind.method == method)
    kind = _LISTS[key]
    cursor = result.get("nextCursor")
    page: Json = {**_PAGE_DEFAULTS}
    if isinstance(cursor, str):
        page["nextCursor"] = cursor
    page |= {
        name: result[name]
        for name in _PAGE_DEFAULTS
        if name in result and _is_valid(method, version, {**page, key: [], name: result[name]})
    }
    given = result[key]
    entries = cast("list[object]", given) if isinstance(given, list) else []
    notes: list[str] = [] if isinstance(given, list) else [f"its list of {key} is not a list"]
    kept: list[object] = []
    for entry in entries[:MAX_ENTRIES]:
        for candidate in (entry, kind.reduce(entry)):
            if candidate is not None and _is_valid(method, version, {**page, key: [candidate]}):
                kept.append(candidate)
                if candidate is not entry:
                    notes.append(f"{_named(kind, entry)} is described in an odd way and was fitted")
                break
        else:
            notes.append(f"{_named(kind, entry)} is left out: its description cannot be read")
    return FittedResult({**page, key: kept}, tuple(notes[:MAX_NOTES]))


def _named(kind: "_ListKind", entry: object) -> str:
    name = entry.get(kind.name) if _is_table(entry) else None
    return f"{kind.word} `{name:.80}`" if isinstance(name, str) else f"a {kind.word} without a name"


def _reduce_tool(entry: object) -> Json | None:
    if not _is_table(entry):
        return None
    given = entry.get("inputSchema", entry.get("input_schema", entry.get("parameters")))
    reduced = _texts(entry, "name", "title", "description")
    reduced["inputSchema"] = _object_schema(given)
    hints = entry.get("annotations")
    if _is_table(hints):
        reduced["annotations"] = {
            name: value
            for name, value in hints.items()
            if isinstance(value, bool) or (name == "title" and isinstance(value, str))
        }
    return reduced


def _object_schema(schema: object) -> Json:
    """A schema of an object; `type` is added where it is missing or a list with `object`."""
    if not _is_table(schema):
        return {"type": "object"}
    kind = schema.get("type")
    if kind == "object":
        return schema
    listed = isinstance(kind, list) and "object" in kind
    if kind is None or kind == "" or listed:
        return {**schema, "type": "object"}
    return {"type": "object"}


def _reduce_prompt(entry: object) -> Json | None:
    if not _is_table(entry):
        return None
    reduced = _texts(entry, "name", "title", "description")
    given = entry.get("arguments")
    if isinstance(given, list):
        reduced["arguments"] = [
            _texts(one, "name", "description") | {"required": one.get("required") is True}
            for one in cast("list[object]", given)
            if _is_table(one) and isinstance(one.get("name"), str)
        ]
    return reduced


def _reduce_resource(entry: object) -> Json | None:
    if not _is_table(entry):
        return None
    reduced = _texts(entry, "uri", "uriTemplate", "name", "title", "description", "mimeType")
    reduced.setdefault("name", reduced.get("uri", reduced.get("uriTemplate", "")))
    return reduced


def _texts(entry: Json, *names: str) -> Json:
    return {name: entry[name] for name in names if isinstance(entry.get(name), str)}


class _ListKind(NamedTuple):
    method: _Method
    word: str
    name: str  # the field that names an entry
    reduce: Callable[[object], Json | None]


_LISTS = {
    "tools": _ListKind("tools/list", "tool", "name", _reduce_tool),
    "prompts": _ListKind("prompts/list", "prompt", "name", _reduce_prompt),
    "resources": _ListKind("resources/list", "resource", "uri", _reduce_resource),
    "resourceTemplates": _ListKind(
        "resources/templates/list", "resource template", "uriTemplate", _reduce_resource
    ),
}


# --- the answer to a call and to the handshake -----------------------------------------------


def _fit_call(result: Json) -> FittedResult:
    given = result.get("content")
    blocks = cast("list[object]", given) if isinstance(given, list) else [given]
    fitted: Json = {
        "content": [_fit_block(block) for block in blocks if block is not None],
        "isError": result.get("isError") in (True, "true", 1),
        "resultType": "complete",
    }
    structured = result.get("structuredContent")
    if _is_table(structured):
        fitted["structuredContent"] = structured
    elif structured is not None:
        text = msgspec.json.encode(structured).decode()
        fitted["content"] = [*cast("list[object]", fitted["content"]), _text_block(text)]
    return FittedResult(fitted, ("the answer to a call was not of the protocol's form",))


def _fit_block(block: object) -> object:
    """A part of an answer as it is if the protocol knows it, else its JSON as text."""
    if isinstance(block, str):
        return _text_block(block)
    if _is_valid("tools/call", LATEST_HANDSHAKE_VERSION, {"content": [block]}):
        return block
    if _is_table(block) and isinstance(text := block.get("text"), str):
        return _text_block(text)
    return _text_block(msgspec.json.encode(block).decode())


def _text_block(text: str) -> Json:
    return {"type": "text", "text": text}


def _fit_handshake(result: Json) -> FittedResult:
    able = result.get("capabilities")
    told = result.get("serverInfo")
    info = told if _is_table(told) else {}
    fitted: Json = {
        "protocolVersion": result["protocolVersion"],
        "capabilities": {
            name: value if _is_table(value) else {}
            for name, value in (able if _is_table(able) else {}).items()
            if value not in (None, False)
        },
        "serverInfo": {"name": "unknown", "version": ""} | _texts(info, "name", "version"),
    }
    if isinstance(words := result.get("instructions"), str):
        fitted["instructions"] = words
    return FittedResult(fitted)


def _is_table(value: object) -> TypeGuard[Json]:
    return isinstance(value, dict)

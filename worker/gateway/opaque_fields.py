"""Fields of an answer that only its provider understands, put together from their pieces. Pure.

A signature, encrypted reasoning or details of it must come back to their own server unchanged,
under the name by which they came. So all fields that this program does not use are kept, whatever
their names are, except what is known to say nothing to the server later.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import cast

import msgspec

from .sse import DecodedEvent, UnreadableEvent, describe_decode_error

MAX_OPAQUE_BYTES = 1 << 20
_MOST_ARRIVED_BYTES = 4 * MAX_OPAQUE_BYTES  # a server may tell all of it in each event
# Of messages and calls: what is used, and what no server wants back.
_NO_NEWS = frozenset(
    {
        "role", "content", "tool_calls", "function_call", "refusal", "name", "audio",
        "annotations", "index", "id", "type", "function", "logprobs", "token_ids", "tokens",
        "stop_reason", "matched_stop", "usage", "citations", "arguments", "images", "call_id",
        "status", "input", "object",
    }
)  # fmt: skip
# Texts of reasoning details of which each event holds a further piece.
_GROWING = frozenset({"text", "summary", "data"})

_decode = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder().encode
JsonObject = dict[str, object]


class OpaqueFields:
    """The fields of one message or call."""

    def __init__(self) -> None:
        self._fields: JsonObject = {}
        self._size_bytes = 0  # of all that came

    def add(
        self,
        fields: Mapping[str, msgspec.Raw],
        read: DecodedEvent[object],
        *,
        known: Iterable[str] = (),
    ) -> None:
        """Add what one event holds, without the `known` names. Raises UnreadableEvent."""
        used = _NO_NEWS.union(known)
        for name, raw in fields.items():
            if name in used:
                continue
            self._size_bytes += len(raw)
            if self._size_bytes > _MOST_ARRIVED_BYTES:
                continue  # it is not kept: nothing of it need be held, or joined again and again
            value = _with_halves(_value(raw), read)
            if value and not isinstance(value, bool | int | float):
                self._fields[name] = _joined(self._fields.get(name), value)

    def set_own_text(self, name: str, text: str) -> None:
        """Where this field is the item's own text, it is not kept twice: null stands for it."""
        if self._fields.get(name) == text:
            self._fields[name] = None

    def nest(self, name: str, inner: "OpaqueFields") -> None:
        """Keep the fields of an inner object under its name."""
        if inner._fields:
            self._fields[name] = dict(inner._fields)

    def names_of_texts(self) -> tuple[str, ...]:
        """The names of the fields that are plain texts."""
        return tuple(name for name, value in self._fields.items() if isinstance(value, str))

    def json(self) -> str:
        """The fields as a JSON object; "" if there are none, or they cannot be kept."""
        whole = {name: _whole(value) for name, value in self._fields.items()}
        if not whole or self._size_bytes > _MOST_ARRIVED_BYTES:
            return ""
        try:
            data = _encode(whole)
        except (UnicodeEncodeError, RecursionError):
            return ""
        return data.decode() if len(data) <= MAX_OPAQUE_BYTES else ""


def _value(raw: msgspec.Raw) -> object:
    try:
        return cast("object", _decode(raw))
    except (msgspec.DecodeError, RecursionError) as error:
        raise UnreadableEvent(describe_decode_error(error)) from None


def _with_halves(value: object, read: DecodedEvent[object]) -> object:
    if not read.has_halves:
        return value
    return _mapped(value, read.text)


def _whole(value: object) -> object:
    """The value with the halves of its characters joined."""
    return _mapped(value, _join_halves)


def _join_halves(text: str) -> str:
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _mapped(value: object, change: Callable[[str], str]) -> object:
    match value:
        case str():
            return change(value)
        case dict():
            table = cast("JsonObject", value)
            return {name: _mapped(inner, change) for name, inner in table.items()}
        case list():
            return [_mapped(inner, change) for inner in cast("list[object]", value)]
        case _:
            return value


def _joined(before: object, value: object) -> object:
    """A value that came in pieces: texts and lists grow, objects field by field."""
    if before is None or before == value:
        return value
    match before, value:
        case str(), str():
            return before + value
        case list(), list():
            grown = list(cast("list[object]", before))
            for entry in cast("list[object]", value):
                _add_entry(grown, entry)
            return grown
        case dict(), dict():
            return _joined_tables(cast("JsonObject", before), cast("JsonObject", value))
        case _:
            return value


def _joined_tables(before: JsonObject, value: JsonObject) -> JsonObject:
    return before | {name: _joined(before.get(name), inner) for name, inner in value.items()}


def _add_entry(entries: list[object], entry: object) -> None:
    """Add an entry of reasoning details: one with the index of the last goes on with it."""
    last = entries[-1] if entries else None
    if not (isinstance(last, dict) and isinstance(entry, dict)):
        entries += [entry]
        return
    old, new = cast("JsonObject", last), cast("JsonObject", entry)
    is_same = "index" in new and (old.get("index"), old.get("type")) == (
        new["index"],
        new.get("type"),
    )
    if not is_same:
        entries.append(new)
        return
    merged = dict(old)
    for name, value in new.items():
        known = merged.get(name)
        if name in _GROWING and isinstance(known, str) and isinstance(value, str):
            merged[name] = known + value
        elif value is not None:
            merged[name] = value
    entries[-1] = merged

"""Redaction of structs: every text in them is redacted before anything is encoded.

All records, recordings and shown values pass through here. A struct without secrets stays the same
object. Tags, literals and numbers are never changed, so redacted values can be decoded again.
"""

import types
from collections.abc import Callable
from functools import cache
from typing import Literal, TypeVar, Union, cast, get_args, get_origin, get_type_hints

import msgspec

from .redact import Counts, Redactor

S = TypeVar("S", bound=msgspec.Struct)
_PLAIN = (int, float, bool, type(None))
_MAX_DEPTH = 100
_LONG_BYTES = 65_536  # longer records are redacted directly, without the quick check


class _FieldPlan:
    """Which fields of a struct type may hold text, and which may hold bytes."""

    def __init__(self, struct: type[msgspec.Struct]) -> None:
        hints = get_type_hints(struct)
        names = struct.__struct_fields__
        self.fields = tuple(name for name in names if _may_hold_text(hints[name]))
        self.with_bytes = tuple(name for name in names if _may_hold_bytes(hints[name], ()))


def redact_struct(redactor: Redactor, value: S, counts: Counts | None = None) -> S:
    """The struct with every text in it redacted, at any depth, including mapping keys."""
    cleaned = _redact_value(redactor, value, counts, 0)
    assert isinstance(cleaned, type(value))
    return cleaned


def redact_encoded(
    redactor: Redactor, value: S, encode: Callable[[S], bytes], counts: Counts | None = None
) -> tuple[S, bytes]:
    """The redacted struct and its JSON. Fast if there is nothing to hide."""
    encoded = encode(value)
    is_long = len(encoded) > _LONG_BYTES
    if not is_long and not redactor.may_hold_secret(encoded) and not _holds_bytes(value):
        return value, encoded
    cleaned = redact_struct(redactor, value, counts)
    return (value, encoded) if cleaned is value else (cleaned, encode(cleaned))


def redact_json(redactor: Redactor, line: bytes) -> bytes:
    """Redact the texts in any JSON; input that is no JSON is redacted as text.

    Returns the same object if there was nothing to hide.
    """
    try:
        value = msgspec.json.decode(line)
    except (msgspec.DecodeError, RecursionError):
        text = line.decode("utf-8", "surrogateescape")
        cleaned = redactor.redact(text)
        return line if cleaned is text else cleaned.encode("utf-8", "surrogateescape")
    clean = _redact_value(redactor, value, None, 0)
    if clean is value:
        return line
    return msgspec.json.encode(clean) + (b"\n" if line.endswith(b"\n") else b"")


def _redact_value(redactor: Redactor, value: object, counts: Counts | None, depth: int) -> object:
    if isinstance(value, str):
        return redactor.redact(value, counts)
    if isinstance(value, _PLAIN):
        return value
    if depth > _MAX_DEPTH:
        return None  # no real value nests this deep; unchecked content is not shown
    if isinstance(value, msgspec.Struct):
        return _redact_fields(redactor, value, counts, depth)
    if isinstance(value, bytes):
        return _redact_bytes(redactor, value, counts)
    if isinstance(value, (tuple, list)):
        whole = cast("tuple[object, ...] | list[object]", value)
        items = [_redact_value(redactor, one, counts, depth + 1) for one in whole]
        if all(new is old for new, old in zip(items, whole, strict=True)):
            return whole
        return tuple(items) if isinstance(value, tuple) else items
    if isinstance(value, dict):
        rows = cast("dict[object, object]", value)
        pairs = [
            (
                _redact_value(redactor, key, counts, depth + 1),
                _redact_value(redactor, one, counts, depth + 1),
            )
            for key, one in rows.items()
        ]
        same = all(
            new[0] is old[0] and new[1] is old[1]
            for new, old in zip(pairs, rows.items(), strict=True)
        )
        return rows if same else dict(pairs)
    return value


def _redact_fields(
    redactor: Redactor, value: msgspec.Struct, counts: Counts | None, depth: int
) -> msgspec.Struct:
    changed: dict[str, object] = {}
    for name in _field_plan(type(value)).fields:
        old = getattr(value, name)
        new = _redact_value(redactor, old, counts, depth + 1)
        if new is not old:
            changed[name] = new
    return msgspec.structs.replace(value, **changed) if changed else value


def _redact_bytes(redactor: Redactor, data: bytes, counts: Counts | None) -> bytes:
    """Bytes are encoded text: schemas, results."""
    text = data.decode("utf-8", "surrogateescape")
    cleaned = redactor.redact(text, counts)
    return data if cleaned is text else cleaned.encode("utf-8", "surrogateescape")


@cache
def _field_plan(struct: type[msgspec.Struct]) -> _FieldPlan:
    return _FieldPlan(struct)


def _may_hold_text(hint: object) -> bool:
    origin = get_origin(hint)
    if origin is Literal or any(hint is plain for plain in _PLAIN):
        return False
    if origin in (Union, types.UnionType, tuple, list, dict):
        return any(_may_hold_text(one) for one in get_args(hint) if one is not ...)
    return True


def _may_hold_bytes(hint: object, above: tuple[object, ...]) -> bool:
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        if hint in above:
            return True  # recursive type: decided by the values
        inner = get_type_hints(hint)
        return any(_may_hold_bytes(inner[name], (*above, hint)) for name in hint.__struct_fields__)
    return hint in (bytes, object) or any(_may_hold_bytes(one, above) for one in get_args(hint))


def _holds_bytes(value: object) -> bool:
    """True if the value holds text encoded as bytes, which its JSON does not show."""
    if isinstance(value, msgspec.Struct):
        return any(
            _holds_bytes(getattr(value, name)) for name in _field_plan(type(value)).with_bytes
        )
    if isinstance(value, (tuple, list)):
        return any(map(_holds_bytes, cast("tuple[object, ...] | list[object]", value)))
    if isinstance(value, dict):
        return any(map(_holds_bytes, cast("dict[object, object]", value).values()))
    return isinstance(value, bytes) and bool(value)

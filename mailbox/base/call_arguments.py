"""Arguments of a tool, as models write them, read as the tool's struct. Pure.

Models write null for what they leave out, and lists and objects as text that holds JSON. Both are
read as they are meant; whatever else does not fit is an error that names its place. Values whose
type the struct leaves open (the arguments of an MCP tool, say) are never looked into.
"""

from typing import Final, TypeVar

import msgspec
from msgspec import inspect

_Arguments = TypeVar("_Arguments")
_NULL: Final = b"null"
_OPEN = inspect.StrType | inspect.AnyType | inspect.RawType  # any text fits as it is
_NESTED = inspect.StructType | inspect.DictType | inspect.VarTupleType | inspect.ListType


def decode_call_arguments(text: str, kind: type[_Arguments]) -> _Arguments:
    """Return the arguments of a call.

    - Nothing at all, and null, count as an empty object.
    - null for a field that has a default is the field left out, at every depth of the struct.
    - Text where a list or an object belongs is opened if it holds one: once in each place, so the
      depth of the struct bounds how often.
    - Numbers may be text or 1000.0, truth values text.

    Raises:
        msgspec.DecodeError: no JSON, nested too deeply, or not the struct's.
        UnicodeEncodeError: half a character stands alone in the text.
    """
    data = text.encode().strip() or b"{}"
    try:
        if _NULL not in data:
            try:
                return msgspec.json.decode(data, type=kind, strict=False)
            except msgspec.ValidationError:
                pass  # perhaps a list as text
        given = _fitted(data, inspect.type_info(kind))
        return msgspec.json.decode(b"{}" if given == _NULL else given, type=kind, strict=False)
    except RecursionError as error:
        raise msgspec.DecodeError("nested too deeply") from error


def _fitted(given: bytes, wanted: inspect.Type) -> bytes:
    """The JSON value as its type wants it; unchanged if it cannot be made to fit."""
    kinds = _kinds_of(wanted)
    if given.startswith(b'"') and not any(isinstance(kind, _OPEN) for kind in kinds):
        given = _opened(given, may_nest=any(isinstance(kind, _NESTED) for kind in kinds))
    for kind in kinds:
        match kind:
            case inspect.StructType() if given.startswith(b"{"):
                return _fitted_fields(given, kind)
            case inspect.DictType() if given.startswith(b"{"):
                values = msgspec.json.decode(given, type=dict[str, msgspec.Raw])
                return msgspec.json.encode(
                    {key: _raw(value, kind.value_type) for key, value in values.items()}
                )
            case inspect.VarTupleType() | inspect.ListType() if given.startswith(b"["):
                members = msgspec.json.decode(given, type=list[msgspec.Raw])
                return msgspec.json.encode([_raw(one, kind.item_type) for one in members])
            case _:
                pass
    return given


def _kinds_of(wanted: inspect.Type) -> tuple[inspect.Type, ...]:
    if isinstance(wanted, inspect.Metadata):
        return _kinds_of(wanted.type)
    if isinstance(wanted, inspect.UnionType):
        return tuple(kind for one in wanted.types for kind in _kinds_of(one))
    return (wanted,)


def _fitted_fields(given: bytes, struct: inspect.StructType) -> bytes:
    fields = {field.encode_name: field for field in struct.fields}
    kept: dict[str, msgspec.Raw] = {}
    for name, value in msgspec.json.decode(given, type=dict[str, msgspec.Raw]).items():
        field = fields.get(name)
        fitted = value if field is None else _raw(value, field.type)
        if field is None or field.required or bytes(fitted) != _NULL:
            kept[name] = fitted
    return msgspec.json.encode(kept)


def _raw(value: msgspec.Raw, wanted: inspect.Type) -> msgspec.Raw:
    return msgspec.Raw(_fitted(bytes(value).strip(), wanted))


def _opened(given: bytes, *, may_nest: bool) -> bytes:
    """The list, object or null in a JSON text; the text itself if it holds none of them."""
    inner = msgspec.json.decode(given, type=str).strip()
    if inner != "null" and not (may_nest and inner.startswith(("{", "["))):
        return given
    try:
        return bytes(msgspec.json.decode(inner, type=msgspec.Raw))
    except (msgspec.DecodeError, UnicodeEncodeError):
        return given

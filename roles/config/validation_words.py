"""What msgspec says about a wrong value, in a person's words. Pure.

Expected `int | null`, got `str`  →  must be a whole number, not a text
Invalid enum value 'all'          →  'all' is not known; there are read-only, workspace-write
"""

import re
from collections.abc import Sequence

import msgspec

_EXPECTED = re.compile(r"Expected `([^`]+)`(.*?)(?:, got `([^`]+)`)?$")
_AT = re.compile(r" - at `\$\.?([^`]*)`")
_KINDS = {
    "int": "a whole number",
    "float": "a number",
    "str": "a text",
    "bool": "true or false",
    "array": "a list",
    "object": "a table",
    "null": "nothing",
}


def explain_mismatch(text: str, steps: Sequence[str], kind: type) -> str:
    """The same in a person's words; `text` itself if it is unknown.

    Args:
        text: Of a `msgspec.ValidationError`, without its place (` - at …`).
        steps: The keys that lead to the value, from the outermost; lists' indices left out.
        kind: What the whole was converted to.
    """
    found = _EXPECTED.match(text.strip())
    if found is not None:
        wanted = [_KINDS.get(one, one) for one in found[1].split(" | ") if one != "null"]
        if "an" in found[2] or not wanted:
            return text
        but = f", not {_KINDS.get(found[3], found[3])}" if found[3] else ""
        return f"must be {' or '.join(wanted)}{found[2]}{but}"
    if text.startswith("Invalid enum value"):
        value = text.removeprefix("Invalid enum value").strip()
        known = [str(one) for one in choices_at(kind, steps) if one != ""]
        return f"{value} is not known; there are {', '.join(known)}" if known else text
    return text


def explain_conversion(error: msgspec.ValidationError, kind: type) -> str:
    """`KEY: what is wrong`, for a value that has no file of its own."""
    text = str(error)
    found = _AT.search(text)
    place = (found[1] if found else "").replace("[...]", ".*")
    inner = [re.sub(r"\[\d+\]", "", step) for step in place.split(".") if step]
    sentence = explain_mismatch(text[: found.start()] if found else text, inner, kind)
    return f"{'.'.join(inner)}: {sentence}" if inner else sentence


def choices_at(kind: type, steps: Sequence[str]) -> tuple[str | int, ...]:
    """The values of the enumeration that stands there; () if none does."""
    return _choices(msgspec.inspect.type_info(kind), tuple(steps))


def _choices(info: msgspec.inspect.Type, steps: tuple[str, ...]) -> tuple[str | int, ...]:
    match info:
        case msgspec.inspect.UnionType(types=types):
            return tuple(choice for one in types for choice in _choices(one, steps))
        case (
            msgspec.inspect.ListType(item_type=inner)
            | msgspec.inspect.VarTupleType(item_type=inner)
        ):
            return _choices(inner, steps)
        case msgspec.inspect.LiteralType(values=values) if not steps:
            return tuple(one for one in values if one is not None)
        case msgspec.inspect.EnumType(cls=cls) if not steps:
            return tuple(one.value for one in cls)
        case msgspec.inspect.DictType(value_type=inner) if steps:
            return _choices(inner, steps[1:])
        case msgspec.inspect.StructType(fields=fields) if steps:
            return tuple(
                choice
                for field in fields
                if field.encode_name == steps[0]
                for choice in _choices(field.type, steps[1:])
            )
        case _:
            return ()

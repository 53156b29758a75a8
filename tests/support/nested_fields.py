"""Changes fields of a struct that nests others, named as if it were flat."""

from typing import TypeVar

import msgspec

# Structs with a meaning of their own: a test changes them whole.
_WHOLE = frozenset({"role", "limits", "rules", "mcp", "budget", "parts", "network", "sandbox"})
S = TypeVar("S", bound=msgspec.Struct)


def with_fields(struct: S, **changes: object) -> S:
    """The struct with other values in fields of its own, or of the struct inside that has them."""
    result = struct
    for name, value in changes.items():
        group = _group_of(struct, name)
        if not group:
            result = msgspec.structs.replace(result, **{name: value})
            continue
        inner = msgspec.structs.replace(getattr(result, group), **{name: value})
        result = msgspec.structs.replace(result, **{group: inner})
    return result


def field_of(struct: msgspec.Struct, name: str) -> object:
    """The value of such a field."""
    group = _group_of(struct, name)
    return getattr(getattr(struct, group) if group else struct, name)


def _group_of(struct: msgspec.Struct, name: str) -> str:
    """The field with the struct that has this one; "": it is the struct's own."""
    own = struct.__struct_fields__
    if name in own:
        return ""
    inner = {one: getattr(getattr(struct, one), "__struct_fields__", ()) for one in own}
    found = [one for one in own if one not in _WHOLE and name in inner[one]]
    assert len(found) == 1, f"{type(struct).__name__}: {name} is in {found}"
    return found[0]

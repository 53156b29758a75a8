"""Which configuration keys there are: checks a key and names the nearest. Pure.

The valid keys follow from the structs of `schema.py` only.
"""

from collections.abc import Iterator, Sequence
from difflib import get_close_matches

import msgspec
from msgspec import inspect

from swarm.mailbox.base.errors import UsageError

from .dotted_key import format_key
from .schema import CODEX_INNER_KEYS, CODEX_KEYS, AgentsTable, Config, RoleTable

# Tables with fixed keys and with names that a person chooses: the struct of the fixed keys, and
# that of a chosen name's table.
TABLES_WITH_CHOSEN_NAMES: dict[str, tuple[type[msgspec.Struct], type[msgspec.Struct]]] = {
    "agents": (AgentsTable, RoleTable)
}


def check_key(steps: Sequence[str]) -> None:
    """Raises UsageError, with the nearest key, if neither swarm nor Codex has this key."""
    if steps[0] in CODEX_KEYS or ".".join(steps) in CODEX_INNER_KEYS:
        return
    kinds: tuple[inspect.Type, ...] = (inspect.type_info(Config),)
    for depth, step in enumerate(steps):
        fields, names, free = _keys_below(steps[:depth], kinds)
        if not fields and not free:
            raise UsageError(f"{format_key(steps[:depth])} is not a table: it has no key {step}")
        if step in fields:
            kinds = fields[step]
        elif free:
            kinds = free
        else:
            if depth == 0:
                names = [*names, *CODEX_KEYS]
            raise UsageError(f"no such key: {format_key(steps)}{_hint(steps, depth, names)}")


def _hint(steps: Sequence[str], depth: int, names: Sequence[str]) -> str:
    near = get_close_matches(steps[depth], names, n=1)
    if not near:
        return "; `swarm config list` shows all"
    return f"; did you mean {format_key([*steps[:depth], near[0]])}?"


_Kinds = tuple[inspect.Type, ...]


def _keys_below(
    above: Sequence[str], kinds: _Kinds
) -> tuple[dict[str, _Kinds], Sequence[str], _Kinds]:
    """What is allowed below a key: fixed keys with types, their names, types for chosen names."""
    if mixed := TABLES_WITH_CHOSEN_NAMES.get(".".join(above)):
        fixed, chosen = (inspect.type_info(kind) for kind in mixed)
        fields = dict(_fields((fixed,)))
        return fields, list(fields), (chosen,)
    fields = dict(_fields(kinds))
    free = [
        k.value_type
        for kind in kinds
        for k in _flatten_union(kind)
        if isinstance(k, inspect.DictType)
    ]
    return fields, list(fields), tuple(free)


def _fields(kinds: _Kinds) -> Iterator[tuple[str, _Kinds]]:
    for kind in kinds:
        for one in _flatten_union(kind):
            if isinstance(one, inspect.StructType):
                for field in one.fields:
                    yield field.encode_name, (field.type,)


def _flatten_union(kind: inspect.Type) -> Iterator[inspect.Type]:
    if isinstance(kind, inspect.UnionType):
        for one in kind.types:
            yield from _flatten_union(one)
    elif isinstance(kind, inspect.AnyType):  # a table that other code checks
        yield inspect.DictType(key_type=inspect.StrType(), value_type=inspect.AnyType())
    else:
        yield kind

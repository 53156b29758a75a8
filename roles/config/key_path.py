"""Dotted configuration keys: parsing, formatting and checking. Pure.

The valid keys follow from the structs of `schema.py` only.
"""

import json
import re
from collections.abc import Iterator, Sequence
from difflib import get_close_matches

import msgspec
from msgspec import inspect

from swarm.mailbox.errors import UsageError

from .schema import CODEX_INNER_KEYS, CODEX_KEYS, AgentsTable, Config, RoleTable

MAX_STEPS = 16
_BARE = re.compile(r"[A-Za-z0-9_-]+\Z")
_STEP = re.compile(r"""\s*(?:"((?:[^"\\]|\\.)*)"|'([^']*)'|([^\s."'\[\]=]+))\s*(\.|\Z)""")
# Tables with fixed keys and with names that a person chooses: the struct of the fixed keys, and
# that of a chosen name's table.
TABLES_WITH_CHOSEN_NAMES: dict[str, tuple[type[msgspec.Struct], type[msgspec.Struct]]] = {
    "agents": (AgentsTable, RoleTable)
}


def parse_key(text: str) -> tuple[str, ...]:
    """Split `projects."/a.b".trust_level` into its steps; a step may be quoted as in TOML.

    Raises UsageError for text that is no key.
    """
    steps: list[str] = []
    place = 0
    while found := _STEP.match(text, place):
        double, single, bare, dot = found.groups()
        steps.append(_unescape(double, text) if double is not None else single or bare or "")
        if not dot:
            break
        place = found.end()
    if not text.strip():
        raise UsageError("the key must not be empty")
    if found is None or not all(steps) or len(steps) > MAX_STEPS:
        raise UsageError(
            f'{text!r} is no key; write model, agents.max_depth or projects."/a.b".trust_level'
        )
    return tuple(steps)


def _unescape(quoted: str, text: str) -> str:
    try:
        return str(json.loads(f'"{quoted}"'))
    except json.JSONDecodeError as error:
        raise UsageError(f"{text!r} is no key: {error.msg}") from error


def format_key(steps: Sequence[str]) -> str:
    """The steps as a dotted TOML key."""
    return ".".join(s if _BARE.match(s) else json.dumps(s, ensure_ascii=False) for s in steps)


def check_key(steps: Sequence[str]) -> None:
    """Raises UsageError, with the nearest key, if neither swarm nor Codex has this key."""
    if steps[0] in CODEX_KEYS or ".".join(steps) in CODEX_INNER_KEYS:
        return
    kinds: tuple[inspect.Type, ...] = (inspect.type_info(Config),)
    for depth, step in enumerate(steps):
        fields, names, free = _keys_below(steps[:depth], kinds)
        if not fields and not free:
            raise UsageError(f"{format_key(steps[:depth])} is no table: it has no key {step}")
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

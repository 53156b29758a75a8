"""Layers → one table, with the origin of every leaf. Pure: tables in, tables out.

Rule: a table over a table is merged key by key; anything else is replaced whole. Arrays never
concatenate.
"""

import tomllib
from collections.abc import Iterator, Sequence
from typing import TypeGuard

from swarm.mailbox.errors import UsageError
from swarm.mailbox.protocol.base import Value

from .schema import Toml


class Layer(Value):
    """One source of values. `name` is what a person is told; `source` a file, or empty."""

    name: str
    source: str = ""
    values: Toml = {}
    ignored: str = ""  # why it contributes nothing; empty = it counts
    exists: bool = True


class Merged(Value):
    """What all layers say together; `origins` maps each dotted leaf to its layer."""

    values: Toml = {}
    origins: dict[str, str] = {}


def merge_layers(layers: Sequence[Layer]) -> Merged:
    """Merge from the lowest to the highest; ignored layers contribute nothing."""
    values: Toml = {}
    origins: dict[str, str] = {}
    for layer in layers:
        if layer.ignored:
            continue
        values = merge_tables(values, layer.values)
        label = f"{layer.name} ({layer.source})" if layer.source else layer.name
        for leaf in dotted_leaves(layer.values):
            for shadowed in [old for old in origins if _covers(leaf, old)]:
                del origins[shadowed]
            origins[leaf] = label
    return Merged(values=values, origins=origins)


def _covers(leaf: str, old: str) -> bool:
    return old.startswith(f"{leaf}.") or leaf.startswith(f"{old}.")


def merge_tables(low: Toml, high: Toml) -> Toml:
    """A new table; neither argument is changed."""
    merged = dict(low)
    for key, value in high.items():
        below = merged.get(key)
        if is_table(below) and is_table(value):
            merged[key] = merge_tables(as_table(below), as_table(value))
        else:
            merged[key] = value
    return merged


def is_table(value: object) -> TypeGuard[dict[object, object]]:
    """True for a table. (`isinstance` alone leaves its insides unknown to a type checker.)"""
    return isinstance(value, dict)


def as_table(value: object) -> Toml:
    """The value as a table; an empty one if it is none."""
    return {str(key): entry for key, entry in value.items()} if is_table(value) else {}


def dotted_leaves(table: Toml, prefix: str = "") -> Iterator[str]:
    """The dotted path of every value that is not a non-empty table."""
    for key, value in table.items():
        if is_table(value) and value:
            yield from dotted_leaves(as_table(value), f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}"


def look_up(table: Toml, dotted: str) -> object:
    """The value at a dotted key; None if there is none."""
    here: object = table
    for step in dotted.split("."):
        if not is_table(here) or step not in here:
            return None
        here = as_table(here)[step]
    return here


def parse_override(raw: str) -> Toml:
    """`-c key=value` as a table. The value is TOML; what is no TOML is text.

    Raises UsageError for a missing `=` or an empty key.
    Source: Codex `config_override.rs`; a key that itself holds a dot needs an inline table.
    """
    key, equals, text = raw.partition("=")
    steps = [step.strip() for step in key.split(".")]
    if not equals:
        raise UsageError(f"Invalid override (missing '='): {raw}")
    if not all(steps):
        raise UsageError(f"Empty key in override: {raw}")
    value: object
    try:
        value = tomllib.loads(f"value = {text.strip()}")["value"]
    except tomllib.TOMLDecodeError:
        value = text.strip().strip("\"'")
    for step in reversed(steps):
        value = {step: value}
    return as_table(value)

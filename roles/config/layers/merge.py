"""Merges layers into one table, with the origin of every leaf. No I/O.

Two tables are merged key by key; any other value is replaced as a whole. Arrays are never
concatenated.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import TypeGuard

from swarm.mailbox.base.bounded_formats import parse_toml_text
from swarm.mailbox.protocol.values.base import Value

from ...parts.plugins.files.plugin_parts import PluginParts
from ..dotted_key import parse_assignment
from ..key_positions import KeyPath
from ..schema import Toml


class Layer(Value):
    """One source of values. `name` is shown to people; `source` is a file, or empty."""

    name: str
    source: str = ""
    values: Toml = {}
    ignored: str = ""  # why its values are not used; empty = they are
    exists: bool = True
    text: str = ""  # of the file, as it was read; used to look up positions
    broken: str = ""  # why the file could not be read; no run starts with such a layer
    warnings: tuple[str, ...] = ()  # about its folder, or about removed keys
    files: dict[str, bytes] | None = None  # of a project: all its files by path, read once
    project_folder: str = ""  # of a project: the folder that holds `.swarm`
    plugin: PluginParts | None = None  # of a plugin: what it brings beside its values


class ValueOrigin(Value):
    """Where a value comes from."""

    layer: str
    file: str = ""
    line: int = 0  # if known already; else it is looked up in the layer's text


class MergedConfig(Value):
    """The merged values of all layers; `origins` maps the path of each leaf to its layer."""

    values: Toml = {}
    origins: dict[KeyPath, ValueOrigin] = {}

    def origin(self, path: KeyPath) -> ValueOrigin | None:
        """The origin of a leaf, or of a table with leaves of one layer; None: built in or mixed."""
        below = {one for leaf, one in self.origins.items() if leaf[: len(path)] == path}
        return below.pop() if len(below) == 1 else None


def merge_layers(layers: Sequence[Layer]) -> MergedConfig:
    """Merge from the lowest to the highest layer, without ignored layers."""
    values: Toml = {}
    origins: dict[KeyPath, ValueOrigin] = {}
    for layer in layers:
        if not layer.ignored:
            values = merge_tables(values, layer.values)
            _note_origins(layer, origins)
    return MergedConfig(values=values, origins=origins)


def _note_origins(layer: Layer, origins: dict[KeyPath, ValueOrigin]) -> None:
    """A leaf takes the place of those above it and below it: a table of a value, or the reverse."""
    origin = ValueOrigin(layer=layer.name, file=layer.source)
    below = _leaves_below(origins)
    for leaf, value in leaves(layer.values):
        shadowed = below.get(leaf, [])
        if value == {} and (shadowed or leaf in origins):
            continue  # an empty table merged into a table changes nothing
        for old in (*shadowed, *(leaf[:length] for length in range(1, len(leaf) + 1))):
            origins.pop(old, None)
        origins[leaf] = origin


def _leaves_below(origins: Mapping[KeyPath, ValueOrigin]) -> dict[KeyPath, list[KeyPath]]:
    """The leaves of each table. A layer's own leaves never lie above each other."""
    below: dict[KeyPath, list[KeyPath]] = {}
    for leaf in origins:
        for length in range(1, len(leaf)):
            below.setdefault(leaf[:length], []).append(leaf)
    return below


def merge_tables(low: Toml, high: Toml) -> Toml:
    """Merge two tables into a new one; neither argument is changed."""
    merged = dict(low)
    for key, value in high.items():
        below = merged.get(key)
        if is_table(below) and is_table(value):
            merged[key] = merge_tables(as_table(below), as_table(value))
        else:
            merged[key] = value
    return merged


def is_table(value: object) -> TypeGuard[dict[object, object]]:
    """True for a table. (With `isinstance` alone a type checker does not know its contents.)"""
    return isinstance(value, dict)


def as_table(value: object) -> Toml:
    """The value as a table; an empty table for any other value."""
    return {str(key): entry for key, entry in value.items()} if is_table(value) else {}


def leaves(table: Toml, above: KeyPath = ()) -> Iterator[tuple[KeyPath, object]]:
    """(path, value) of every value that is not a non-empty table."""
    for key, value in table.items():
        if is_table(value) and value:
            yield from leaves(as_table(value), (*above, key))
        else:
            yield (*above, key), value


def get_value(table: Toml, key: str | KeyPath) -> object:
    """The value at a dotted key or path; None if there is none."""
    here: object = table
    for step in key.split(".") if isinstance(key, str) else key:
        if not is_table(here) or step not in here:
            return None
        here = here[step]  # no copy: somebody asks for each key of a large table
    return here


def parse_override(raw: str) -> Toml:
    """`-c key=value` as a table. The value is TOML; any other text is a string.

    Raises UsageError for a missing `=` or for what is no key. Source: Codex `config_override.rs`;
    differs in that a step of the key may be quoted as in TOML.
    """
    steps, text = parse_assignment(raw)
    value: object
    try:
        table = parse_toml_text(f"value = {text.strip()}")
    except ValueError:  # not TOML, or an impossible number or date
        table = {}
    value = table["value"] if len(table) == 1 else text.strip().strip("\"'")
    for step in reversed(steps):
        value = {step: value}
    return as_table(value)

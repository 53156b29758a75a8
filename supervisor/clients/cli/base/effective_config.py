"""The effective configuration as rows: each value with the layer, file and line that it comes from.

No row contains a secret; a hidden value is still listed by name.
"""

from collections.abc import Iterator

import msgspec

from swarm.mailbox.protocol.values.base import Value
from swarm.roles.config.dotted_key import format_key
from swarm.roles.config.key_positions import KeyPath
from swarm.roles.config.layers.config_loader import LoadedConfig
from swarm.roles.config.layers.layer_check import find_key_position
from swarm.roles.config.layers.merge import as_table, get_value, leaves
from swarm.roles.config.layers.requirements import Requirements

_SECRET_TABLES = ("http_headers", "query_params")
_SECRET_NAMES = ("TOKEN", "SECRET", "PASSWORD", "API_KEY", "APIKEY")
_NAMES_ONLY = ("env_key", "env_http_headers", "env_key_instructions")


class ConfigRow(Value):
    """One leaf. `line` counts from 1; 0 if there is none."""

    key: str
    value: object
    layer: str = "built-in"
    file: str = ""
    line: int = 0

    @property
    def place(self) -> str:
        """`user /path/config.toml:3`, or the layer alone."""
        if not self.file:
            return self.layer
        return f"{self.layer} {self.file}:{self.line}" if self.line else f"{self.layer} {self.file}"

    @property
    def origin(self) -> str:
        return f"{self.layer} ({self.file})" if self.file else self.layer


def effective_rows(loaded: LoadedConfig) -> list[ConfigRow]:
    """Every leaf that a layer sets, and every built-in default, sorted by key."""
    merged = loaded.merged
    configured = [_configured_row(loaded, path) for path, _ in leaves(merged.values)]
    defaults: dict[str, object] = {}
    _fill_defaults(defaults, type(loaded.config))
    built_in = [
        ConfigRow(key=format_key(path), value=get_value(defaults, path))
        for path in _default_paths(defaults, list(merged.origins))
    ]
    return sorted([*configured, *built_in], key=lambda row: row.key)


def requirement_files(required: Requirements) -> list[tuple[str, str]]:
    """(file, its effective keys) for each requirements file."""
    found: dict[str, list[str]] = {}
    for key, place in required.places.items():
        if "." in key:
            continue  # part of one of the others
        found.setdefault(place.rpartition(", line ")[0] or place, []).append(key)
    return [(file, ", ".join(keys)) for file, keys in found.items()]


def _configured_row(loaded: LoadedConfig, path: KeyPath) -> ConfigRow:
    merged = loaded.merged
    value = "(hidden)" if _is_secret(path) else get_value(merged.values, path)
    origin = merged.origins.get(path)
    row = ConfigRow(key=format_key(path), value=value)
    if origin is None:
        return row
    line = origin.line
    for layer in loaded.layers if not line else ():
        if (layer.name, layer.source) == (origin.layer, origin.file):
            place = find_key_position(layer, path)
            line = place.line if place else 0
    return msgspec.structs.replace(row, layer=origin.layer, file=origin.file, line=line)


def _is_secret(path: KeyPath) -> bool:
    if any(step in _NAMES_ONLY for step in path):
        return False
    if any(step in _SECRET_TABLES for step in path[:-1]):
        return True
    return (
        any(mark in path[-1].upper() for mark in _SECRET_NAMES)
        and path[-1] not in _TOKEN_COUNT_KEYS
    )


_TOKEN_COUNT_KEYS = (  # not secrets, though their names look like it
    "tokens", "model_auto_compact_token_limit", "tool_output_token_limit",
)  # fmt: skip


def _fill_defaults(table: dict[str, object], kind: type[msgspec.Struct]) -> None:
    """Add the default values, which the struct leaves out when it is encoded."""
    blank = msgspec.convert({}, kind)
    names = zip(kind.__struct_fields__, kind.__struct_encode_fields__, strict=True)
    for field, name in names:
        value = getattr(blank, field)
        if isinstance(value, msgspec.Struct):
            inner: dict[str, object] = {}
            _fill_defaults(inner, type(value))
            table[name] = inner
        else:
            table[name] = msgspec.to_builtins(value)


def _default_paths(defaults: dict[str, object], configured: list[KeyPath]) -> Iterator[KeyPath]:
    for path, _ in leaves(as_table(defaults)):
        if not any(
            other[: len(path)] == path or path[: len(other)] == other for other in configured
        ):
            yield path

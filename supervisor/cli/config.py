"""`swarm config`: effective values and where each is from; editing is in `config_edit`."""

import os
from typing import Any

import click
import msgspec

from swarm.mailbox.errors import UsageError
from swarm.roles.config.keypath import check_key, parse_key
from swarm.roles.config.load import Loaded, load_config, read_layers
from swarm.roles.config.merge import as_table, dotted_leaves, look_up

from ..places import find_places
from .config_edit import set_key, show_schema, show_version, unset_key
from .doors import DoorCommand
from .printing import print_columns, print_json
from .settings import find_cwd, override_layer

_SECRET = ("experimental_bearer_token", "http_headers.")


@click.group("config")
def config() -> None:
    """The effective configuration and where it is from.

    \b
    Example:
      swarm config list
    """


for _command in (set_key, unset_key, show_version, show_schema):
    config.add_command(_command)


def _load(overrides: tuple[str, ...]) -> Loaded:
    cwd = find_cwd(None)
    files = read_layers(config_folder=find_places(dict(os.environ)).config, cwd=cwd)
    return load_config((*files, override_layer(overrides, cwd)))


def effective(loaded: Loaded) -> list[tuple[str, Any, str]]:
    """(key, value, origin) of every leaf, built-in ones included; secrets are only hinted at."""
    defaults = as_table(msgspec.to_builtins(msgspec.convert({}, type(loaded.config))))
    _fill_defaults(defaults, type(loaded.config))
    keys = sorted({*dotted_leaves(loaded.merged.values), *_built_in(defaults, loaded)})
    rows: list[tuple[str, Any, str]] = []
    for key in keys:
        origin = loaded.merged.origins.get(key)
        value = look_up(loaded.merged.values if origin else defaults, key)
        if any(f"{mark}" in f"{key}." for mark in _SECRET):
            value = "(hidden)"
        rows.append((key, value, origin or "built-in"))
    return rows


def _fill_defaults(table: dict[str, Any], kind: type[msgspec.Struct]) -> None:
    """Built-in values, which the struct leaves out when it is encoded."""
    blank = msgspec.convert({}, kind)
    for name in kind.__struct_fields__:
        value = getattr(blank, name)
        if isinstance(value, msgspec.Struct):
            inner: dict[str, Any] = {}
            _fill_defaults(inner, type(value))
            table[name] = inner
        else:
            table[name] = msgspec.to_builtins(value)


def _built_in(defaults: dict[str, object], loaded: Loaded) -> list[str]:
    said = set(loaded.merged.origins)
    return [
        key
        for key in dotted_leaves(defaults)
        if key not in said and not any(other.startswith(f"{key}.") for other in said)
    ]


@config.command("list", cls=DoorCommand)
@click.option("-c", "--config", "overrides", multiple=True, metavar="KEY=VALUE")
@click.option("--json", "as_json", is_flag=True, help="One JSON object a key.")
def list_config(overrides: tuple[str, ...], *, as_json: bool) -> None:
    """All effective values with their origin.

    \b
    Example:
      swarm config list --json
    """
    loaded = _load(overrides)
    _warn(loaded)
    rows = effective(loaded)
    if as_json:
        for key, value, origin in rows:
            print_json({"key": key, "value": value, "origin": origin})
        return
    print_columns(("KEY", "VALUE", "FROM"), [(key, _shown(v), origin) for key, v, origin in rows])


@config.command("get", cls=DoorCommand)
@click.argument("key")
@click.option("-c", "--config", "overrides", multiple=True, metavar="KEY=VALUE")
@click.option("--json", "as_json", is_flag=True, help="The value as JSON.")
def get_config(key: str, overrides: tuple[str, ...], *, as_json: bool) -> None:
    """One effective value, or a table of them.

    \b
    Example:
      swarm config get sandbox_mode
    """
    loaded = _load(overrides)
    rows = [row for row in effective(loaded) if row[0] == key or row[0].startswith(f"{key}.")]
    if not rows:
        check_key(parse_key(key))
        raise UsageError(f"{key} has no value")
    if len(rows) == 1 and rows[0][0] == key:
        value = rows[0][1]
        print_json(value) if as_json else click.echo(_shown(value))
    elif as_json:
        print_json({name.removeprefix(f"{key}."): value for name, value, _ in rows})
    else:
        print_columns(("KEY", "VALUE", "FROM"), [(k, _shown(v), o) for k, v, o in rows])


@config.command("layers", cls=DoorCommand)
@click.option("--json", "as_json", is_flag=True, help="One JSON object a layer.")
def list_layers(*, as_json: bool) -> None:
    """The layers, the highest first, and whether they count.

    \b
    Example:
      swarm config layers
    """
    loaded = _load(())
    rows: list[tuple[str, str, str]] = []
    for layer in (one for one in reversed(loaded.layers) if one.source):
        state = layer.ignored or ("read" if layer.exists and layer.values else "empty")
        if not layer.exists:
            state = "no file"
        if as_json:
            print_json({"name": layer.name, "file": layer.source, "state": state})
        rows.append((layer.name, layer.source or "-", state))
    if not as_json:
        print_columns(("LAYER", "FILE", "STATE"), [*rows, ("built-in", "-", "read")])


def _warn(loaded: Loaded) -> None:
    for warning in loaded.warnings:
        click.echo(f"swarm: warning: {warning}", err=True)


def _shown(value: object) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()

"""`swarm config`: effective values and their sources; editing is in `config_edit_commands`."""

import click
import msgspec

from swarm.mailbox.base.errors import UsageError
from swarm.roles.config.dotted_key import format_key, parse_key
from swarm.roles.config.key_path import check_key
from swarm.roles.config.layers.config_loader import LoadedConfig

from ..base.effective_config import ConfigRow, effective_rows, requirement_files
from ..base.lazy_commands import ColorCommand
from ..base.printing import print_columns, print_json
from ..run_setup.run_settings import load_config_here
from .config_edit_commands import set_key, show_schema, show_version, unset_key


@click.group("config")
def config() -> None:
    """Show and change the configuration, with the origin of each value.

    \b
    Example:
      swarm config list
    """


for _command in (set_key, unset_key, show_version, show_schema):
    config.add_command(_command)


_profile = click.option("--profile", metavar="NAME", help="As for `swarm run`.")
_overrides = click.option(
    "-c", "--config", "overrides", multiple=True, metavar="KEY=VALUE", help="As for `swarm run`."
)


@config.command("list", cls=ColorCommand)
@_overrides
@_profile
@click.option("--json", "as_json", is_flag=True, help="One JSON object a key.")
def list_config(overrides: tuple[str, ...], profile: str | None, *, as_json: bool) -> int:
    """All effective values with their layer, file and line.

    Exit code 2 if a run would not start with this configuration.

    \b
    Example:
      swarm config list --json
    """
    loaded = load_config_here(overrides, profile=profile, lenient=True)
    rows = effective_rows(loaded)
    if as_json:
        for row in rows:
            print_json({
                "key": row.key, "value": row.value, "origin": row.origin, "layer": row.layer,
                "file": row.file or None, "line": row.line or None,
            })  # fmt: skip
    else:
        _print_rows(rows)
    return _warn(loaded)


@config.command("get", cls=ColorCommand)
@click.argument("key")
@_overrides
@_profile
@click.option("--json", "as_json", is_flag=True, help="The value as JSON.")
def get_config(key: str, overrides: tuple[str, ...], profile: str | None, *, as_json: bool) -> int:
    """One effective value, or a table of them.

    \b
    Example:
      swarm config get sandbox_mode
    """
    loaded = load_config_here(overrides, profile=profile, lenient=True)
    steps = parse_key(key)
    key = format_key(steps)
    rows = [
        row for row in effective_rows(loaded) if row.key == key or row.key.startswith(f"{key}.")
    ]
    if not rows:
        check_key(steps)
        raise UsageError(f"{key} has no value")
    if len(rows) == 1 and rows[0].key == key:
        value = rows[0].value
        print_json(value) if as_json else click.echo(_shown(value))
    elif as_json:
        print_json({row.key.removeprefix(f"{key}."): row.value for row in rows})
    else:
        _print_rows(rows)
    return _warn(loaded, only_problems=True)


@config.command("layers", cls=ColorCommand)
@_profile
@click.option("--json", "as_json", is_flag=True, help="One JSON object a layer.")
def list_layers(profile: str | None, *, as_json: bool) -> int:
    """The layers, the highest first, and whether they count.

    \b
    Example:
      swarm config layers
    """
    loaded = load_config_here(profile=profile, lenient=True)
    rows: list[tuple[str, str, str]] = []
    for file, keys in requirement_files(loaded.requirements):
        if as_json:
            print_json({"name": "requirements", "file": file, "state": f"holds {keys}"})
        rows.append(("requirements", file, f"holds {keys}"))
    for layer in (one for one in reversed(loaded.layers) if one.source):
        state = layer.ignored or ("read" if layer.exists and layer.values else "empty")
        if not layer.exists and not layer.ignored:
            state = "no file"
        if as_json:
            print_json({"name": layer.name, "file": layer.source, "state": state})
        rows.append((layer.name, layer.source or "-", state))
    if not as_json:
        print_columns(("LAYER", "FILE", "STATE"), [*rows, ("built-in", "-", "read")])
    return _warn(loaded, only_problems=True)


def _print_rows(rows: list[ConfigRow]) -> None:
    print_columns(("KEY", "VALUE", "FROM"), [(r.key, _shown(r.value), r.place) for r in rows])


def _warn(loaded: LoadedConfig, *, only_problems: bool = False) -> int:
    """Print what is wrong; return the exit code."""
    for warning in () if only_problems else loaded.warnings:
        click.echo(f"swarm: warning: {warning}", err=True)
    for problem in loaded.problems:
        click.echo(f"swarm: no run starts with this: {problem}", err=True)
    return 2 if loaded.problems else 0


def _shown(value: object) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()

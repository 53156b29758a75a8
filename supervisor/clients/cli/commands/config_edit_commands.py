"""`swarm config set|unset|version|schema`: edit the user's file in place.

An edit that a run would refuse to start with is not written.
"""

import os
from pathlib import Path

import click
import msgspec

from swarm.mailbox.base.errors import UsageError
from swarm.roles.config.dotted_key import format_key, parse_key
from swarm.roles.config.key_path import check_key
from swarm.roles.config.layers.config_loader import load_config
from swarm.roles.config.layers.config_writer import read_values, write_edit
from swarm.roles.config.layers.layer_paths import absolute_paths
from swarm.roles.config.layers.merge import Layer, is_table, leaves
from swarm.roles.config.layers.no_effect import keys_without_effect
from swarm.roles.config.layers.toml_edit import ConfigEdit, apply_edit, content_version, parse_value
from swarm.roles.config.schema import Toml

from ....runs.paths import find_user_paths
from ..base.lazy_commands import ColorCommand
from ..base.printing import print_json
from ..run_setup.config_layers import ConfigQuery, find_layers
from ..run_setup.run_requirements import find_requirements
from ..run_setup.run_settings import find_cwd

_IF_VERSION = click.option(
    "--if-version", metavar="VERSION",
    help="Only if the file still has this version (`swarm config version`).",
)  # fmt: skip
_JSON = click.option("--json", "as_json", is_flag=True, help="One JSON object about what was done.")


class ConfigEditResult(msgspec.Struct, frozen=True):
    """The result of an edit; field names and values as in Codex."""

    status: str  # ok, okOverridden
    version: str
    file: str
    overridden_by: str | None = None
    idle: bool = False  # not in Codex: the key has no effect in swarm


@click.command("set", cls=ColorCommand)
@click.argument("key")
@click.argument("value")
@click.option("--merge", is_flag=True, help="Add a table's keys to those that are there.")
@_IF_VERSION
@_JSON
def set_key(key: str, value: str, *, merge: bool, if_version: str | None, as_json: bool) -> None:
    """Set a key in the user's configuration file.

    VALUE is TOML; if it is not TOML, it is text. Comments, order and blank lines stay. An edit that
    would keep a run from starting is not written.

    \b
    Example:
      swarm config set sandbox_workspace_write.writable_roots '["/data"]'
    """
    steps = parse_key(key)
    check_key(steps)
    edit = ConfigEdit(steps=steps, value=parse_value(value), merge=merge)
    _print_result(edit, edit_user_config(edit, if_version), as_json=as_json)


@click.command("unset", cls=ColorCommand)
@click.argument("key")
@_IF_VERSION
@_JSON
def unset_key(key: str, *, if_version: str | None, as_json: bool) -> None:
    """Remove a key from the user's configuration file.

    \b
    Example:
      swarm config unset model
    """
    edit = ConfigEdit(steps=parse_key(key))
    _, before = read_values(_user_file())
    result = edit_user_config(edit, if_version)
    if as_json or _is_set(before, edit.steps):
        _print_result(edit, result, as_json=as_json)
    else:
        click.echo(f"{format_key(edit.steps)} was not set in {result.file}", err=True)


@click.command("version", cls=ColorCommand)
def show_version() -> None:
    """Print the version of the user's configuration file, for `--if-version`.

    \b
    Example:
      swarm config set model mine --if-version "$(swarm config version)"
    """
    _, values = read_values(_user_file())
    click.echo(content_version(values))


@click.command("schema", cls=ColorCommand)
def show_schema() -> None:
    """Print the JSON Schema of the configuration, for editors.

    \b
    Example:
      swarm config schema > ~/.config/swarm/config.schema.json
    """
    from swarm.roles.config.json_schema import render_schema  # no other command needs it

    click.echo(render_schema(), nl=False)


def _user_file() -> Path:
    return find_user_paths(dict(os.environ)).config / "config.toml"


def edit_user_config(edit: ConfigEdit, if_version: str | None) -> ConfigEditResult:
    """Apply one edit to the user's file. Raises UsageError if the result could not be loaded."""
    path = _user_file()
    version = write_edit(path, edit, if_version=if_version, check=lambda new: _check(path, new))
    by = _overriding_layer(path, edit) if edit.value is not None else None
    return ConfigEditResult(
        status="ok" if by is None else "okOverridden",
        version=version, file=str(path), overridden_by=by, idle=_is_idle(edit),
    )  # fmt: skip


def _layers(path: Path, values: Toml | None = None) -> tuple[Layer, ...]:
    """The layers of all files; `values` replace the contents of the user's file."""
    layers = find_layers(os.environ, ConfigQuery(cwd=find_cwd(None)))
    if values is None:
        return layers
    fixed = absolute_paths(values, path.parent)
    return tuple(
        msgspec.structs.replace(layer, values=fixed, broken="") if layer.name == "user" else layer
        for layer in layers
    )


def _check(path: Path, values: Toml) -> None:
    """Raises UsageError for a table that could not be loaded, alone or with the other layers.

    An error in another layer does not prevent the edit.
    """
    layers = _layers(path, values)
    try:
        own = [layer for layer in layers if layer.name == "user"]
        load_config(own, requirements=find_requirements(os.environ))
        load_config(layers, lenient=True)
    except UsageError as error:
        raise UsageError(f"{error}; nothing was written") from error


def _overriding_layer(path: Path, edit: ConfigEdit) -> str | None:
    """The higher layer that overrides the value just written; None if none does."""
    layers = _layers(path)
    names = [layer.name for layer in layers]
    for layer in reversed(layers[names.index("user") + 1 :]):
        if not layer.ignored and _is_set(layer.values, edit.steps):
            return f"{layer.name} ({layer.source})" if layer.source else layer.name
    return None


def _is_idle(edit: ConfigEdit) -> bool:
    """True if nothing that the edit sets has an effect in swarm."""
    if edit.value is None:
        return False
    layer = Layer(name="edit", values=apply_edit({}, edit))
    idle = set(keys_without_effect(layer))
    return all(
        any(path[:length] in idle for length in range(1, len(path) + 1))
        for path, _ in leaves(layer.values)
    )


def _is_set(values: object, steps: tuple[str, ...]) -> bool:
    """True if there is a value at this key, or at a parent key that is not a table."""
    here = values
    for step in steps:
        if not is_table(here):
            return True
        if step not in here:
            return False
        here = here[step]
    return True


def _print_result(edit: ConfigEdit, outcome: ConfigEditResult, *, as_json: bool) -> None:
    if as_json:
        print_json(msgspec.to_builtins(outcome))
        return
    done = "unset in" if edit.value is None else "set in"
    click.echo(f"{format_key(edit.steps)} {done} {outcome.file}", err=True)
    warn_if_overridden(outcome)
    if outcome.idle:
        click.echo("swarm: warning: a key of Codex that has no effect here", err=True)


def warn_if_overridden(outcome: ConfigEditResult) -> None:
    """Say which higher layer takes the effect from the edit."""
    if (by := outcome.overridden_by) is not None:
        click.echo(f"swarm: warning: it has no effect here: overridden by {by}", err=True)

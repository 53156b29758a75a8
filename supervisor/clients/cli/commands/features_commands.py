"""`swarm features list|enable|disable`: list features, switch them in the user's file."""

import click

from swarm.roles.config.layers.features import FEATURES, check_feature_name, resolve_features
from swarm.roles.config.layers.toml_edit import ConfigEdit

from ..base.lazy_commands import ColorCommand
from ..base.printing import print_columns, print_json
from ..run_setup.run_settings import load_config_here
from .config_edit_commands import edit_user_config, warn_if_overridden


@click.group("features")
def features() -> None:
    """List features, and switch them on and off.

    \b
    Example:
      swarm features list
    """


@features.command("list", cls=ColorCommand)
@click.option("--json", "as_json", is_flag=True, help="One JSON object a feature.")
def list_features(*, as_json: bool) -> None:
    """Every feature: name, stage, whether it is on, and what it is.

    \b
    Example:
      swarm features list
    """
    loaded = load_config_here(lenient=True)
    switched = resolve_features(loaded.config.features, pins=loaded.requirements.features)
    for warning in switched.warnings:
        click.echo(f"swarm: warning: {warning}", err=True)
    rows = [(one.name, one.stage, switched.is_enabled(one.name), one.meaning) for one in FEATURES]
    if as_json:
        for name, stage, is_on, meaning in rows:
            print_json({"name": name, "stage": stage, "enabled": is_on, "meaning": meaning})
        return
    shown = [(name, stage, "true" if is_on else "false", text) for name, stage, is_on, text in rows]
    print_columns(("FEATURE", "STAGE", "ON", "WHAT IT IS"), shown)


@features.command("enable", cls=ColorCommand)
@click.argument("name")
def enable(name: str) -> None:
    """Switch a feature on in the user's configuration file.

    \b
    Example:
      swarm features enable multi_agent
    """
    _set(name, is_on=True)


@features.command("disable", cls=ColorCommand)
@click.argument("name")
def disable(name: str) -> None:
    """Switch a feature off in the user's configuration file.

    \b
    Example:
      swarm features disable shell_snapshot
    """
    _set(name, is_on=False)


def _set(name: str, *, is_on: bool) -> None:
    known = check_feature_name(name)
    outcome = edit_user_config(ConfigEdit(steps=("features", known), value=is_on), None)
    click.echo(f"{'Enabled' if is_on else 'Disabled'} feature `{known}` in {outcome.file}.")
    warn_if_overridden(outcome)

"""`swarm plugin add|remove|list|show|update|enable|disable`; see docs/plugins.md."""

import os
from collections.abc import Iterator

import click

from swarm.mailbox.base.errors import UsageError
from swarm.roles.config.layers.toml_edit import ConfigEdit
from swarm.roles.config.layers.trust import forget_trust_decisions, read_trust, save_trust_decision
from swarm.roles.parts.plugins.files.marketplace_file import MarketplaceEntry
from swarm.roles.parts.plugins.files.plugin_id import parse_plugin_id

from ....base.safe_text import clean_line
from ....parts.plugins.marketplaces import read_known
from ....parts.plugins.plugin_install import remove_plugin
from ....runs.paths import find_user_paths
from ..base.lazy_commands import ColorCommand
from ..base.printing import print_columns, print_json
from ..run_setup.plugin_layers import InstalledPlugin, read_installed
from ..run_setup.plugin_summary import describe_plugin, plugin_title
from ..run_setup.run_settings import load_config_here
from .config_edit_commands import edit_user_config
from .plugin_add_command import add, marketplaces_here, update
from .plugin_marketplace_commands import marketplace
from .plugin_offer import (
    check_allowed,
    confirmed,
    installed_plugin,
    plugin_store,
    show_plugin,
    switch_plugin,
)

_YES = click.option("-y", "--yes", is_flag=True, help="Trust without a question; for scripts.")
_JSON = click.option("--json", "as_json", is_flag=True, help="JSON instead of text.")


@click.group("plugin")
def plugin() -> None:
    """Add, list, show and switch plugins: skills, hooks, servers in one.

    \b
    Examples:
      swarm plugin add ./my-plugin
      swarm plugin list
    """


@plugin.command("list", cls=ColorCommand)
@_JSON
@click.option("--marketplace", "of", metavar="NAME", help="Only plugins of this marketplace.")
@click.option("--available", is_flag=True, help="Also what marketplaces offer and you have not.")
def list_plugins(*, as_json: bool, of: str | None, available: bool) -> None:
    """All installed plugins, and which of them count here.

    \b
    Examples:
      swarm plugin list
      swarm plugin list --available --marketplace team
    """
    loaded = load_config_here(lenient=True)
    active = {one.plugin.plugin_id for one in loaded.layers if one.plugin is not None}
    store, trust = plugin_store(), read_trust(find_user_paths(dict(os.environ)).config)
    rows: list[tuple[str, str, str, str, str]] = []
    installed = store.read_lock().plugins
    for name, locked in sorted(installed.items()):
        if of is not None and parse_plugin_id(name).marketplace != of:
            continue
        one = read_installed(store, parse_plugin_id(name), locked)
        state = "on" if name in active else _why_off(one, trust.trust_state(one.folder))
        tokens = 0 if one.parts is None else one.parts.listed_tokens
        if as_json:
            print_json(_fields(one, state=state, enabled=name in active))
        rows.append((name, locked.version, state, f"{tokens} tokens", locked.source))
    for name, entry in _offered(of) if available else ():
        if name not in installed:
            rows.append((name, entry.version, "available", "", entry.description))
            if as_json:
                print_json({"id": name, "version": entry.version, "state": "available"})
    if as_json:
        return
    if not rows:
        click.echo("no plugins; `swarm plugin add FOLDER` installs one")
        return
    print_columns(("PLUGIN", "VERSION", "STATE", "LISTED", "FROM"), rows)


def _offered(of: str | None) -> Iterator[tuple[str, MarketplaceEntry]]:
    """What the local files of the marketplaces offer. One that cannot be read is said."""
    for name, one in sorted(marketplaces_here().items()):
        if of is not None and name != of:
            continue
        try:
            file = read_known(one)
        except UsageError as error:
            click.echo(f"swarm: warning: {clean_line(str(error), limit=400)}", err=True)
            continue
        yield from ((f"{entry.name}@{name}", entry) for entry in file.entries if entry.available)


def _why_off(one: InstalledPlugin, trust: str) -> str:
    if one.problem:
        return "broken"
    return "off" if trust == "trusted" else "not trusted"


def _fields(one: InstalledPlugin, *, state: str, enabled: bool) -> dict[str, object]:
    parts = one.parts
    return {
        "id": str(one.plugin_id),
        "version": one.locked.version,
        "state": state,
        "enabled": enabled,
        "source": one.locked.source,
        "revision": one.locked.revision,
        "digest": one.locked.digest,
        "problem": one.problem,
        "skills": [] if parts is None else [skill.name for skill in parts.skills],
        "hooks": 0 if parts is None else len(parts.hooks),
        "mcp_servers": [] if parts is None else list(parts.servers),
        "listed_tokens": 0 if parts is None else parts.listed_tokens,
    }


@plugin.command("show", cls=ColorCommand)
@click.argument("name")
def show(name: str) -> None:
    """What a plugin brings: what it may run, hear and reach, and what it costs.

    \b
    Example:
      swarm plugin show demo@team
    """
    one = installed_plugin(plugin_store(), name)
    if one.parts is None:
        raise UsageError(one.problem)
    trust = read_trust(find_user_paths(dict(os.environ)).config)
    click.echo(plugin_title(one.parts))
    click.echo(f"  {clean_line(one.parts.root, limit=400)}")
    click.echo(f"  from {clean_line(one.locked.source, limit=400)} {one.locked.revision}".rstrip())
    click.echo(f"  content {one.parts.digest[:16]}, {trust.trust_state(one.folder)}")
    for line in describe_plugin(one.parts):
        click.echo(f"  {line}")


@plugin.command("remove", cls=ColorCommand)
@click.argument("name")
@click.option("-y", "--yes", is_flag=True, expose_value=False, help="Nothing is asked anyway.")
def remove(name: str) -> None:
    """Remove a plugin, with its data and the decision about it.

    \b
    Example:
      swarm plugin remove demo@team
    """
    store = plugin_store()
    if not any(name in (key, key.rpartition("@")[0]) for key in store.read_lock().plugins):
        click.echo(f"No plugin `{clean_line(name)}` is installed.")
        return
    plugin_id = installed_plugin(store, name).plugin_id
    remove_plugin(store, plugin_id)
    forget_trust_decisions(store.folder.parent, store.plugin_folder(plugin_id))
    edit_user_config(ConfigEdit(steps=("plugins", str(plugin_id))), None)
    click.echo(f"Removed plugin `{plugin_id}`.")


@plugin.command("enable", cls=ColorCommand)
@click.argument("name")
@_YES
def enable(name: str, *, yes: bool) -> None:
    """Use a plugin in runs; shows it and asks, unless exactly its content is trusted.

    \b
    Example:
      swarm plugin enable demo@team
    """
    store = plugin_store()
    one = installed_plugin(store, name)
    if one.parts is None:
        raise UsageError(one.problem)
    check_allowed(one)
    config = find_user_paths(dict(os.environ)).config
    if read_trust(config).trust_state(one.folder) != "trusted":
        show_plugin(one.parts)
        if not (yes or confirmed("Trust exactly this?")):
            click.echo(f"not trusted: runs go without `{one.plugin_id}`")
            return
        save_trust_decision(config, [one.folder], trusted=True)
    switch_plugin(one.plugin_id, on=True)
    click.echo(f"Enabled plugin `{one.plugin_id}`.")


@plugin.command("disable", cls=ColorCommand)
@click.argument("name")
def disable(name: str) -> None:
    """Keep a plugin installed, and use it nowhere.

    \b
    Example:
      swarm plugin disable demo@team
    """
    one = installed_plugin(plugin_store(), name)
    switch_plugin(one.plugin_id, on=False)
    click.echo(f"Disabled plugin `{one.plugin_id}`.")


for command in (add, update, marketplace):
    plugin.add_command(command)

"""Shows a plugin to a person, asks, installs and switches it: for the commands of `swarm plugin`.

What a yes covers is exactly what was shown, by its content.
"""

import os
import pathlib
import sys

import click

from swarm.mailbox.base.errors import UsageError
from swarm.roles.config.layers.merge import as_table
from swarm.roles.config.layers.toml_edit import ConfigEdit
from swarm.roles.config.layers.trust import save_trust_decision
from swarm.roles.parts.plugins.files.plugin_id import PluginId, parse_plugin_id, version_key
from swarm.roles.parts.plugins.files.plugin_parts import PluginParts, changed_files
from swarm.roles.parts.plugins.plugin_store import LockedPlugin, PluginStore

from ....base.safe_text import exact_line
from ....parts.plugins.plugin_install import (
    StagedPlugin,
    discard_plugin,
    install_plugin,
    installed_files,
)
from ....runs.paths import find_user_paths
from ...console.terminal import is_ci, is_terminal
from ..run_setup.plugin_layers import (
    InstalledPlugin,
    read_installed,
    refused_plugin,
    trusted_folder,
)
from ..run_setup.plugin_summary import describe_plugin, plugin_texts, plugin_title
from ..run_setup.run_requirements import find_requirements
from ..run_setup.run_settings import load_config_here
from ..run_setup.trusted_texts import shown_path
from .config_edit_commands import edit_user_config, warn_if_overridden


def plugin_store() -> PluginStore:
    """The person's store."""
    return PluginStore(find_user_paths(dict(os.environ)).config)


def installed_plugin(store: PluginStore, text: str) -> InstalledPlugin:
    """The plugin of this id, or of this name if only one has it. Raises UsageError."""
    lock = store.read_lock()
    fitting = [key for key in lock.plugins if key == text or key.rpartition("@")[0] == text]
    if len(fitting) != 1:
        known = ", ".join(lock.plugins) or "none"
        if fitting:
            raise UsageError(f"several plugins are called {text}: {', '.join(fitting)}")
        raise UsageError(f"there is no plugin `{text[:80]}`; installed: {known}")
    return read_installed(store, parse_plugin_id(fitting[0]), lock.plugins[fitting[0]])


def check_allowed(one: InstalledPlugin) -> None:
    """Raises UsageError if the requirements do not allow the plugin."""
    check_id_allowed(one.plugin_id, one.locked.marketplace_source or one.locked.source)


def check_id_allowed(plugin_id: PluginId, source: str) -> None:
    """Raises UsageError if the requirements do not allow this plugin from this source."""
    locked = LockedPlugin(version="", folder="", digest="", marketplace_source=source)
    why = refused_plugin(str(plugin_id), locked, find_requirements(os.environ))
    if why is not None:
        raise UsageError(f"the plugin {plugin_id} cannot be used: {why}")


def offer_plugin(store: PluginStore, staged: StagedPlugin, *, yes: bool, enable: bool) -> None:
    """Show a staged plugin, ask, and install it; else discard it. Raises UsageError."""
    try:
        _show_staged(store, staged)
        agreed = yes or confirmed("Install and trust exactly this?")
    except BaseException:
        discard_plugin(staged)
        raise
    if not agreed:
        discard_plugin(staged)
        click.echo("not installed: nothing has changed")
        return
    parts = install_plugin(store, staged)
    folder = trusted_folder(str(store.plugin_folder(staged.plugin_id)), parts)
    save_trust_decision(store.folder.parent, [folder], trusted=True)
    if enable:
        switch_plugin(staged.plugin_id, on=True)
    click.echo(f"Installed plugin `{staged.plugin_id}` {parts.manifest.version}.")


def _show_staged(store: PluginStore, staged: StagedPlugin) -> None:
    """What it would bring; for an update, which files differ."""
    show_plugin(staged.parts)
    if pathlib.Path(staged.origin.source).is_absolute():
        click.echo(f"  it comes from {shown_path(staged.origin.source)}")
    for one in staged.left_out:
        click.echo(f"  {exact_line(one.name)} is left out: {exact_line(one.why)}")
    if not (old := installed_files(store, staged.plugin_id)):
        return
    before = store.read_lock().plugins[str(staged.plugin_id)].version
    new = staged.parts.manifest.version
    if version_key(new) < version_key(before):
        click.echo(f"  ! it is OLDER than what is installed: {before}")
    elif new != before:
        click.echo(f"  installed is {before}")
    changes = list(changed_files(old, staged.files))
    click.echo(f"  files that differ from what is installed: {len(changes)}")
    for change in changes:
        click.echo(f"    {exact_line(change)}")


def show_plugin(parts: PluginParts) -> None:
    """All that a yes to a plugin covers: whole texts, then what it runs."""
    for line in plugin_texts(parts):
        click.echo(line)
    click.echo(plugin_title(parts))
    for line in describe_plugin(parts):
        click.echo(f"  {line}")


def confirmed(question: str) -> bool:
    """Ask on a terminal. Raises UsageError where nobody can be asked."""
    if is_ci(os.environ) or not (is_terminal(sys.stdin) and is_terminal(sys.stderr)):
        raise UsageError("nobody can be asked here; look at what is shown, then use --yes")
    return click.confirm(question, default=False, err=True)


def switch_plugin(plugin_id: PluginId, *, on: bool) -> None:
    """Say in the person's own configuration whether the plugin is used."""
    said = as_table(load_config_here(lenient=True).merged.values.get("plugins"))
    if as_table(said.get(str(plugin_id))).get("enabled") is on:
        return
    edit = ConfigEdit(steps=("plugins", str(plugin_id), "enabled"), value=on)
    warn_if_overridden(edit_user_config(edit, None))

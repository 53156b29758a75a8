"""`swarm plugin add|update`: from a folder, an archive, or a marketplace."""

from pathlib import Path

import click

from swarm.mailbox.errors import UsageError
from swarm.roles.plugins.plugin_id import LOCAL_MARKETPLACE
from swarm.roles.plugins.plugin_tree import read_folder_tree

from ...plugins.plugin_install import PluginOrigin, stage_plugin
from ..lazy_commands import ColorCommand
from ..plugin_offer import offer_plugin, plugin_store

_YES = click.option("-y", "--yes", is_flag=True, help="Trust without a question; for scripts.")


@click.command("add", cls=ColorCommand)
@click.argument("source", metavar="PLUGIN")
@click.option("--no-enable", is_flag=True, help="Only where a project's configuration selects it.")
@_YES
def add(source: str, *, no_enable: bool, yes: bool) -> None:
    """Install a plugin from a folder, after showing what it would bring.

    Nothing of it runs on install. What was shown is trusted by its content; a change is asked
    about again.

    \b
    Examples:
      swarm plugin add ./my-plugin
      swarm plugin add ~/plugins/notes --yes
    """
    store = plugin_store()
    folder = Path(source).resolve()
    if not folder.is_dir():
        raise UsageError(f"{source}: there is no such folder")
    origin = PluginOrigin(marketplace=LOCAL_MARKETPLACE, source=str(folder))
    staged = stage_plugin(store, read_folder_tree(folder), origin)
    offer_plugin(store, staged, yes=yes, enable=not no_enable)

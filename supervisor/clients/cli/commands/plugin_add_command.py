"""`swarm plugin add|update`: from a folder, an archive, a repository, or a marketplace."""

import os

import click
import msgspec

from swarm.mailbox.base.errors import SwarmError, UsageError
from swarm.roles.config.layers.merge import merge_layers
from swarm.roles.config.schema import Config
from swarm.roles.parts.plugins.files.plugin_id import LOCAL_MARKETPLACE, PluginId, parse_plugin_id
from swarm.roles.parts.plugins.plugin_store import PluginStore

from ....parts.plugins.marketplaces import (
    KnownMarketplace,
    check_source_allowed,
    known_marketplaces,
    parse_source,
    read_known,
)
from ....parts.plugins.plugin_install import StagedPlugin, discard_plugin
from ....parts.plugins.plugin_origins import stage_alone, stage_entry
from ....runs.paths import find_user_paths
from ..base.lazy_commands import ColorCommand
from ..run_setup.run_requirements import find_requirements
from ..run_setup.run_settings import load_config_here
from .plugin_offer import (
    check_allowed,
    check_id_allowed,
    installed_plugin,
    offer_plugin,
    plugin_store,
)

_YES = click.option("-y", "--yes", is_flag=True, help="Trust without a question; for scripts.")


def marketplaces_here() -> dict[str, KnownMarketplace]:
    """The person's marketplaces by name; a project's are never read."""
    layers = [one for one in load_config_here(lenient=True).layers if one.name != "project"]
    config = msgspec.convert(merge_layers(layers).values, Config)
    return known_marketplaces(config.marketplaces, plugin_store())


@click.command("add", cls=ColorCommand)
@click.argument("source", metavar="PLUGIN")
@click.option("--marketplace", "-m", metavar="NAME", help="The marketplace that offers PLUGIN.")
@click.option("--no-enable", is_flag=True, help="Only where a project's configuration selects it.")
@_YES
def add(source: str, *, marketplace: str | None, no_enable: bool, yes: bool) -> None:
    """Install a plugin, after showing what it would bring.

    PLUGIN is NAME or NAME@MARKETPLACE of a marketplace, or a folder, an archive (.zip, .tar.gz) or
    a git repository that holds one plugin. Nothing of it runs on install. What was shown is trusted
    by its content; a change is asked about again.

    \b
    Examples:
      swarm plugin add ./my-plugin
      swarm plugin add notes@team
      swarm plugin add notes-1.2.tar.gz --yes
    """
    store = plugin_store()
    staged = _stage_named(store, source, marketplace)
    _offer(store, staged, yes=yes, enable=not no_enable)


@click.command("update", cls=ColorCommand)
@click.argument("names", nargs=-1, metavar="[PLUGIN]...")
@_YES
def update(names: tuple[str, ...], *, yes: bool) -> None:
    """Compare plugins with where they came from; show each difference, and ask.

    Without a name all are compared. `swarm plugin marketplace update` reads the marketplaces again.

    \b
    Examples:
      swarm plugin update
      swarm plugin update notes --yes
    """
    store = plugin_store()
    wanted = names or tuple(store.read_lock().plugins)
    failed: list[SwarmError] = []
    for name in wanted:
        try:
            _update_one(store, name, yes=yes)
        except SwarmError as error:
            if len(wanted) == 1:
                raise
            failed.append(error)
            click.echo(f"swarm: {name}: {error}", err=True)
    if failed:
        raise UsageError(f"{len(failed)} of {len(wanted)} plugins could not be updated")


def _update_one(store: PluginStore, name: str, *, yes: bool) -> None:
    one = installed_plugin(store, name)
    check_allowed(one)
    if one.plugin_id.marketplace == LOCAL_MARKETPLACE:
        staged = stage_alone_checked(store, one.locked.source)
    else:
        staged = _stage_of(store, one.plugin_id)
    if staged.plugin_id != one.plugin_id:
        discard_plugin(staged)
        raise UsageError(f"{one.locked.source}: it is another plugin now: {staged.plugin_id}")
    if staged.parts.digest == one.folder.digest:
        discard_plugin(staged)
        click.echo(f"{one.plugin_id} {one.locked.version} is up to date.")
        return
    _offer(store, staged, yes=yes, enable=False)


def _offer(store: PluginStore, staged: StagedPlugin, *, yes: bool, enable: bool) -> None:
    try:
        check_id_allowed(staged.plugin_id, staged.origin.marketplace_source)
    except BaseException:
        discard_plugin(staged)
        raise
    offer_plugin(store, staged, yes=yes, enable=enable)


def _stage_named(store: PluginStore, source: str, marketplace: str | None) -> StagedPlugin:
    """A name of a marketplace, else a place. Raises UsageError."""
    name, _, market = source.rpartition("@")
    if marketplace is not None:
        return _stage_of(store, PluginId(plugin=name or source, marketplace=marketplace))
    known = marketplaces_here()
    if name and market in known:
        return _stage_of(store, parse_plugin_id(source))
    is_place = any(sign in source for sign in "/.:~")
    if not is_place:
        offering = [one.name for one in known.values() if _offers(one, source)]
        if len(offering) > 1:
            raise UsageError(f"several marketplaces offer {source}: {', '.join(offering)}")
        if offering:
            return _stage_of(store, PluginId(plugin=source, marketplace=offering[0]))
        listed = ", ".join(known) or "none"
        raise UsageError(
            f"no marketplace offers `{source}` (there are: {listed}); a folder is written "
            f"./{source}"
        )
    return stage_alone_checked(store, source)


def _offers(market: KnownMarketplace, name: str) -> bool:
    try:
        return read_known(market).find(name) is not None
    except UsageError:
        return False  # a marketplace that cannot be read offers nothing


def _stage_of(store: PluginStore, plugin_id: PluginId) -> StagedPlugin:
    market = marketplaces_here().get(plugin_id.marketplace)
    if market is None:
        raise UsageError(
            f"there is no marketplace `{plugin_id.marketplace}`; "
            "`swarm plugin marketplace list` shows those that are there"
        )
    check_source_allowed(market.origin.source, find_requirements(os.environ))
    return stage_entry(store, market, plugin_id.plugin, _hidden())


def stage_alone_checked(store: PluginStore, source: str) -> StagedPlugin:
    """Stage a plugin by itself if the requirements allow its source. Raises UsageError."""
    origin = parse_source(source)
    check_source_allowed(origin.source, find_requirements(os.environ))
    return stage_alone(store, origin, _hidden())


def _hidden() -> tuple[str, ...]:
    return find_user_paths(dict(os.environ)).hidden

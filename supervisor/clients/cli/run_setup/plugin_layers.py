"""The plugins of a run as layers of the configuration: the lowest ones, so that all others win.

A plugin counts if it is installed, switched on, allowed by the requirements, and if exactly its
content was trusted. No network is used, and nothing of it is started here.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from swarm.mailbox.base.errors import UsageError
from swarm.mailbox.protocol.values.base import Value
from swarm.roles.config.file_reading import decode_text, parse_toml
from swarm.roles.config.layers.merge import Layer, as_table
from swarm.roles.config.layers.project_config import ProjectFolder
from swarm.roles.config.layers.requirements import Requirements
from swarm.roles.config.layers.trust import TrustStore
from swarm.roles.config.schema import Toml
from swarm.roles.parts.plugins.files.plugin_id import PluginId, parse_plugin_id
from swarm.roles.parts.plugins.files.plugin_parts import PluginParts, is_selected
from swarm.roles.parts.plugins.plugin_store import LockedPlugin, PluginStore

from .plugin_summary import describe_plugin, plugin_texts, plugin_title

PLUGIN_LAYERS = "plugin"  # begins the name of their layers


class InstalledPlugin(Value):
    """A plugin of the store. `problem`: why it cannot be used."""

    plugin_id: PluginId
    locked: LockedPlugin
    folder: ProjectFolder  # what trust is about: its content, by its hash
    parts: PluginParts | None = None
    problem: str = ""


class FoundPlugins(Value):
    """The installed plugins that may count here, and what is to be said of the others."""

    plugins: tuple[InstalledPlugin, ...] = ()
    warnings: tuple[str, ...] = ()


def read_installed(
    store: PluginStore, plugin_id: PluginId, locked: LockedPlugin
) -> InstalledPlugin:
    """One plugin as it lies in the store now."""
    name = str(store.plugin_folder(plugin_id))
    blank = InstalledPlugin(
        plugin_id=plugin_id, locked=locked, folder=ProjectFolder(folder=name, root=name)
    )
    try:
        parts = store.load(plugin_id, locked)
    except UsageError as error:
        return msgspec.structs.replace(blank, problem=str(error))
    return msgspec.structs.replace(blank, parts=parts, folder=trusted_folder(name, parts))


def trusted_folder(name: str, parts: PluginParts) -> ProjectFolder:
    """What a decision about trust is about."""
    return ProjectFolder(folder=name, root=name, digest=parts.digest, title=plugin_title(parts))


def with_description(one: ProjectFolder, found: FoundPlugins) -> ProjectFolder:
    """The same with the lines that a person is shown, if it is a plugin's; they take time."""
    for plugin in found.plugins:
        if plugin.folder == one and plugin.parts is not None:
            described = (*plugin_texts(plugin.parts), *describe_plugin(plugin.parts))
            return msgspec.structs.replace(one, described=described)
    return one


def find_plugins(
    config_folder: Path, below: Toml, required: Requirements, *, also: frozenset[str] = frozenset()
) -> FoundPlugins:
    """The installed plugins that are not switched off by the person, in the order of their ids.

    Args:
        config_folder: The person's own.
        below: The merged layers below a project's, and the flags.
        required: What an administrator allows.
        also: Ids that the project names: they count although the person says nothing of them.
    """
    said = as_table(below.get("plugins"))
    store = PluginStore(config_folder)
    try:
        lock = store.read_lock()
    except UsageError as error:
        return FoundPlugins(warnings=(f"no plugin is used: {error}",))
    warnings = [
        f'plugins."{name}": plugin is not installed; `swarm plugin add {name}` installs it'
        for name, table in said.items()
        if as_table(table).get("enabled") is True and name not in lock.plugins
    ]
    found: list[InstalledPlugin] = []
    for name, locked in sorted(lock.plugins.items()):
        own = as_table(said.get(name)).get("enabled")
        if own is False or (own is not True and name not in also):
            continue
        if (why := refused_plugin(name, locked, required)) is not None:
            warnings.append(f"the plugin {name} is not used: {why}")
            continue
        one = read_installed(store, parse_plugin_id(name), locked)
        if one.problem:
            warnings.append(f"the plugin {name} is not used: {one.problem}")
        else:
            found.append(one)
    return FoundPlugins(plugins=tuple(found), warnings=tuple(warnings))


def refused_plugin(name: str, locked: LockedPlugin, required: Requirements) -> str | None:
    """Why the administrator's requirements do not allow this plugin; None: they do."""
    if required.plugins is not None and name not in required.plugins:
        return f"{required.place('allowed_plugins')} does not list it"
    markets = required.plugin_marketplaces
    source = locked.marketplace_source or locked.source
    if markets is not None and source not in markets:
        return f"{required.place('allowed_plugin_marketplaces')} does not list {source}"
    return None


def named_plugins(folders: Sequence[ProjectFolder]) -> frozenset[str]:
    """Ids that the projects' configuration switches on, whether or not it is trusted yet."""
    names: set[str] = set()
    for one in folders:
        data = one.files.get(str(one.config_file))
        if data is None or b"plugins" not in data:
            continue
        try:
            values = parse_toml(decode_text(data, one.config_file), one.config_file)
        except UsageError:
            continue
        names |= {
            name
            for name, table in as_table(values.get("plugins")).items()
            if as_table(table).get("enabled") is True
        }
    return frozenset(names)


def plugin_layers(
    found: FoundPlugins, trust: TrustStore, below: Toml, projects: Sequence[Layer]
) -> tuple[Layer, ...]:
    """A layer for each plugin that counts, and one with warnings about the others."""
    warnings = list(found.warnings)
    taken = set(_server_names([below, *(layer.values for layer in projects if not layer.ignored)]))
    layers: list[Layer] = []
    for one in found.plugins:
        name, parts = str(one.plugin_id), one.parts
        if parts is None or not is_selected(_said(below, name), _said_by(projects, name)):
            continue
        state = trust.trust_state(one.folder)
        if state != "trusted":
            known = trust.folders.get(one.folder.folder)
            changed = " has changed since you trusted it and" if known and known.trusted else ""
            why = "ignored, as you said" if state == "declined" else "not trusted and ignored"
            warnings.append(
                f"the plugin {name}{changed} is {why}; `swarm plugin enable {name}` shows it and "
                "asks"
            )
            continue
        servers: Toml = {}
        for server, table in parts.servers.items():
            if server in taken:
                warnings.append(
                    f"the plugin {name}: its MCP server {server} is left out, because there is one "
                    "of this name already"
                )
                continue
            taken.add(server)
            servers[server] = table
        values: Toml = {"mcp_servers": servers} if servers else {}
        layers.append(Layer(name=f"{PLUGIN_LAYERS} {name}", values=values, plugin=parts))
    if warnings:
        layers.append(Layer(name=f"{PLUGIN_LAYERS}s", warnings=tuple(warnings)))
    return tuple(layers)


def _said(values: Mapping[str, object], name: str) -> bool | None:
    said = as_table(as_table(values.get("plugins")).get(name)).get("enabled")
    return said if isinstance(said, bool) else None


def _said_by(projects: Sequence[Layer], name: str) -> Iterator[bool | None]:
    for layer in projects:
        if not layer.ignored:
            yield _said(layer.values, name)


def _server_names(tables: Sequence[Toml]) -> Iterator[str]:
    """Servers that a table defines, not those that it only refines."""
    for values in tables:
        for name, table in as_table(values.get("mcp_servers")).items():
            if {"command", "url"} & as_table(table).keys():
                yield name

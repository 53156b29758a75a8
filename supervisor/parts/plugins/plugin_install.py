"""Puts a plugin's files into the store, replaces and removes them. Nothing of a plugin is run.

A plugin is first staged: copied within the bounds, read and hashed. Only then does a person see
what it would bring, and only a staged plugin is installed, by a rename.
"""

import os
import secrets
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

import msgspec

from swarm.mailbox.base.errors import UsageError
from swarm.mailbox.base.private_files import make_own_folders
from swarm.mailbox.base.remove_tree import remove_tree
from swarm.mailbox.protocol.values.base import Value
from swarm.roles.parts.plugins.files.plugin_id import PluginId
from swarm.roles.parts.plugins.files.plugin_parts import PluginParts
from swarm.roles.parts.plugins.files.plugin_tree import (
    LeftOut,
    TreeDigest,
    TreeFile,
    TreeWriter,
    read_folder_tree,
    tree_fingerprint,
)
from swarm.roles.parts.plugins.plugin_reading import PluginPlace, find_manifest, read_parts
from swarm.roles.parts.plugins.plugin_store import (
    LockedPlugin,
    PluginLock,
    PluginsNotWritten,
    PluginStore,
)

_STAGING = "staging"


class PluginOrigin(Value):
    """Where a plugin comes from."""

    marketplace: str
    source: str
    revision: str = ""
    marketplace_source: str = ""
    name: str = ""  # that the manifest must have; "" = any


class StagedPlugin(Value):
    """A copy that is not installed yet. `files` are its files' hashes."""

    plugin_id: PluginId
    folder: str
    parts: PluginParts
    files: dict[str, str]
    origin: PluginOrigin
    left_out: tuple[LeftOut, ...] = ()


def stage_plugin(
    store: PluginStore, tree: Iterable[TreeFile | LeftOut], origin: PluginOrigin
) -> StagedPlugin:
    """Copy and read a plugin. The caller installs or discards it.

    Raises UsageError: it is no plugin, too large, or has another name. Raises PluginsNotWritten.
    """
    folder = store.folder / _STAGING / secrets.token_hex(8)
    try:
        return _stage(store, folder, tree, origin)
    except OSError as error:
        _remove(folder)
        raise PluginsNotWritten(f"the plugin could not be copied: {error}") from error
    except BaseException:
        _remove(folder)
        raise


def _stage(
    store: PluginStore, folder: Path, tree: Iterable[TreeFile | LeftOut], origin: PluginOrigin
) -> StagedPlugin:
    writer, left_out = TreeWriter(folder), list[LeftOut]()
    for one in tree:
        if isinstance(one, LeftOut):
            left_out.append(one)
        else:
            writer.write(one)
    default = origin.name or Path(origin.source).name
    manifest = find_manifest(folder, default_name=default)
    if origin.name and manifest.name != origin.name:
        raise UsageError(
            f"{manifest.path}: the plugin calls itself `{manifest.name}`, but its marketplace "
            f"calls it `{origin.name}`"
        )
    plugin_id = PluginId(plugin=manifest.name, marketplace=origin.marketplace)
    place = PluginPlace(plugin_id=plugin_id, root=folder, data=store.data_folder(plugin_id))
    return StagedPlugin(
        plugin_id=plugin_id,
        folder=str(folder),
        parts=read_parts(place, digest=writer.digest.hexdigest()),
        files=writer.digest.files,
        origin=origin,
        left_out=tuple(left_out),
    )


def install_plugin(store: PluginStore, staged: StagedPlugin) -> PluginParts:
    """Make the staged plugin the active version. Raises PluginsNotWritten, UsageError.

    The version before stays on disk for runs that have begun with it, until the next change.
    """
    digest, version = staged.parts.digest, staged.parts.manifest.version
    above = store.plugin_folder(staged.plugin_id)
    key = str(staged.plugin_id)
    try:
        before = store.read_lock().plugins.get(key)
        target = above / version
        if target.exists():
            target = above / f"{version}+{digest[:12]}"
        make_own_folders(above)
        if target.exists():  # the very same content
            _remove(Path(staged.folder))
        else:
            Path(staged.folder).rename(target)
        make_own_folders(store.data_folder(staged.plugin_id))
        locked = LockedPlugin(
            version=version,
            folder=target.name,
            digest=digest,
            fingerprint=tree_fingerprint(target),
            source=staged.origin.source,
            revision=staged.origin.revision,
            marketplace_source=staged.origin.marketplace_source,
            previous="" if before is None or before.folder == target.name else before.folder,
        )
        place = PluginPlace(
            plugin_id=staged.plugin_id, root=target, data=store.data_folder(staged.plugin_id)
        )
        parts = read_parts(place, digest=digest)
        store.keep_parts(parts)
    except OSError as error:
        raise PluginsNotWritten(f"the plugin could not be installed: {error}") from error

    def add(lock: PluginLock) -> PluginLock:
        return msgspec.structs.replace(lock, plugins={**lock.plugins, key: locked})

    store.change_lock(add)
    _remove_versions(above, keep={locked.folder, locked.previous})
    return parts


def discard_plugin(staged: StagedPlugin) -> None:
    """Remove a staged plugin that is not wanted."""
    _remove(Path(staged.folder))


def remove_plugin(store: PluginStore, plugin_id: PluginId) -> bool:
    """Remove a plugin with all its versions and data; False if it was not installed.

    Raises PluginsNotWritten, UsageError.
    """
    found: list[LockedPlugin] = []

    def drop(lock: PluginLock) -> PluginLock:
        plugins = dict(lock.plugins)
        if (gone := plugins.pop(str(plugin_id), None)) is not None:
            found.append(gone)
        return msgspec.structs.replace(lock, plugins=plugins)

    if str(plugin_id) in store.read_lock().plugins:
        store.change_lock(drop)
    for folder in (store.plugin_folder(plugin_id), store.data_folder(plugin_id)):
        _remove(folder)
        with suppress(OSError):
            folder.parent.rmdir()  # the marketplace's, if it was the last
    for gone in found:
        store.forget_parts(gone.digest)
    return bool(found)


def installed_files(store: PluginStore, plugin_id: PluginId) -> dict[str, str]:
    """The hashes of the files of the active version; empty if there is none."""
    locked = store.read_lock().plugins.get(str(plugin_id))
    if locked is None:
        return {}
    digest = TreeDigest()
    try:
        for one in read_folder_tree(store.plugin_folder(plugin_id) / locked.folder):
            if isinstance(one, TreeFile):
                digest.add(one)
    except (OSError, UsageError):
        return {}
    return digest.files


def _remove_versions(above: Path, *, keep: set[str]) -> None:
    with suppress(OSError):
        for name in os.listdir(above):  # noqa: PTH208 - names alone
            if name not in keep:
                _remove(above / name)


def _remove(folder: Path) -> None:
    with suppress(OSError):
        remove_tree(folder)

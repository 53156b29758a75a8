"""Gets the files of a plugin from where it comes from, and stages them."""

import json
import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from swarm.mailbox.base.errors import UsageError
from swarm.roles.parts.plugins.files.marketplace_file import MarketplaceEntry
from swarm.roles.parts.plugins.files.plugin_id import LOCAL_MARKETPLACE
from swarm.roles.parts.plugins.files.plugin_manifest import MANIFESTS
from swarm.roles.parts.plugins.files.plugin_tree import LeftOut, TreeFile, read_folder_tree
from swarm.roles.parts.plugins.plugin_store import PluginStore

from .archive_tree import read_archive
from .git_fetch import fetch_git
from .marketplaces import KnownMarketplace, MarketplaceSource, archive_revision, read_known
from .plugin_install import PluginOrigin, StagedPlugin, stage_plugin

_Files = Iterable[TreeFile | LeftOut]


def stage_alone(
    store: PluginStore, origin: MarketplaceSource, hidden: tuple[str, ...]
) -> StagedPlugin:
    """Stage a plugin that is a folder, an archive or a repository by itself.

    Raises UsageError, NotFetched, PluginsNotWritten.
    """
    files: _Files
    revision = ""
    match origin.kind:
        case "local":
            files = read_folder_tree(Path(origin.source))
        case "archive":
            files = read_archive(Path(origin.source))
            revision = archive_revision(Path(origin.source))
        case "git":
            fetched = fetch_git(
                origin.source, ref=origin.ref, staging=store.folder / "staging", hidden=hidden
            )
            files, revision = fetched.files, fetched.revision
    source = f"{origin.source}#{origin.ref}" if origin.ref else origin.source
    given = PluginOrigin(
        marketplace=LOCAL_MARKETPLACE, source=source, revision=revision,
        marketplace_source=origin.source,
    )  # fmt: skip
    return stage_plugin(store, files, given)


def stage_entry(
    store: PluginStore, market: KnownMarketplace, name: str, hidden: tuple[str, ...]
) -> StagedPlugin:
    """Stage a plugin of a marketplace.

    Raises UsageError: there is none of this name, or it is not offered; NotFetched,
    PluginsNotWritten.
    """
    file = read_known(market)
    entry = file.find(name)
    if entry is None:
        known = ", ".join(one.name for one in file.entries[:20]) or "none"
        raise UsageError(f"the marketplace {market.name} has no plugin `{name}`; it has: {known}")
    if not entry.available:
        raise UsageError(f"the marketplace {market.name} does not offer `{name}` for installation")
    files, revision = _entry_files(store, market, entry, hidden)
    origin = PluginOrigin(
        marketplace=market.name,
        source=f"{name}@{market.name}",
        revision=revision or market.revision,
        marketplace_source=market.origin.source,
        name=name,
    )
    return stage_plugin(store, _with_manifest(files, entry), origin)


def _entry_files(
    store: PluginStore, market: KnownMarketplace, entry: MarketplaceEntry, hidden: tuple[str, ...]
) -> tuple[_Files, str]:
    source = entry.source
    if source.url:
        fetched = fetch_git(
            source.url, ref=source.sha or source.ref, staging=store.folder / "staging",
            hidden=hidden, path=source.path,
        )  # fmt: skip
        if source.sha and fetched.revision != source.sha:
            raise UsageError(f"{source.url}: the commit {source.sha} is not what was fetched")
        return fetched.files, fetched.revision
    root = os.path.realpath(market.root)
    folder = os.path.realpath(os.path.join(root, source.path))  # noqa: PTH118 - text
    if folder != root and not folder.startswith(f"{root}/"):
        raise UsageError(f"{market.root}: the folder of `{entry.name}` leads out of it")
    if not Path(folder).is_dir():
        raise UsageError(f"{market.root}: there is no folder {source.path!r} for `{entry.name}`")
    return read_folder_tree(Path(folder)), ""


def _with_manifest(files: _Files, entry: MarketplaceEntry) -> Iterator[TreeFile | LeftOut]:
    """The files, and a manifest of what the entry says if there is none among them."""
    has_manifest = False
    for one in files:
        has_manifest |= one.name in MANIFESTS
        yield one
    if not has_manifest:
        values = {"name": entry.name, **entry.manifest}
        data = json.dumps(values, indent=2).encode()
        yield TreeFile(name=".claude-plugin/plugin.json", data=data)

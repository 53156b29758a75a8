"""Marketplaces: where they come from, their local copies, and what they offer.

A folder is only referred to; a git repository or an archive is copied below `plugins/marketplaces`.
Nothing is fetched unless a command of the person says so.
"""

import hashlib
import secrets
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Literal

from swarm.mailbox.base.errors import UsageError
from swarm.mailbox.base.private_files import make_own_folders
from swarm.mailbox.base.remove_tree import remove_tree
from swarm.mailbox.protocol.values.base import Value
from swarm.roles.config.file_reading import read_bounded
from swarm.roles.config.layers.requirements import Requirements
from swarm.roles.config.schema import MarketplaceTable
from swarm.roles.parts.plugins.files.marketplace_file import (
    MARKETPLACE_BYTES,
    MARKETPLACE_FILES,
    RESERVED_NAMES,
    MarketplaceFile,
    check_ref,
    git_url,
    read_marketplace,
)
from swarm.roles.parts.plugins.files.plugin_id import check_name
from swarm.roles.parts.plugins.files.plugin_tree import (
    LeftOut,
    TreeFile,
    TreeWriter,
    check_file_name,
)
from swarm.roles.parts.plugins.plugin_store import PluginStore

from .archive_tree import ARCHIVE_SUFFIXES, read_archive
from .git_fetch import fetch_git

SourceKind = Literal["local", "git", "archive"]


class MarketplaceSource(Value):
    """Where a marketplace, or a plugin by itself, comes from."""

    kind: SourceKind
    source: str  # a canonical path, or a git address
    ref: str = ""
    sparse: tuple[str, ...] = ()  # of a git repository only these paths are read; (): all


class KnownMarketplace(Value):
    """One that is configured. `root` is the folder that holds its files."""

    name: str
    origin: MarketplaceSource
    root: str
    revision: str = ""
    updated: str = ""  # when it was read last; RFC 3339


class FetchedMarketplace(Value):
    """A marketplace that was just read; `copy` is a staged folder, "" for a folder in place."""

    file: MarketplaceFile
    origin: MarketplaceSource
    revision: str = ""
    copy: str = ""


def parse_source(text: str, *, ref: str = "", sparse: Sequence[str] = ()) -> MarketplaceSource:
    """A folder, an archive, `owner/repo[@ref]`, `URL[#ref]` or ssh. Raises UsageError.

    `sparse`: paths of a git repository, beside its marketplace file.
    """
    path = Path(text).expanduser()
    looks_local = text.startswith(("/", "./", "../", "~")) or text in (".", "..")
    if looks_local or path.exists():
        real = path.resolve()
        if ref or sparse:
            raise UsageError(f"{'--ref' if ref else '--sparse'} is for git repositories")
        if real.is_dir():
            return MarketplaceSource(kind="local", source=str(real))
        if real.is_file() and real.name.endswith(ARCHIVE_SUFFIXES):
            return MarketplaceSource(kind="archive", source=str(real))
        raise UsageError(f"{text}: there is no such folder or archive")
    address, sign, inner = text.partition("#")
    if not sign and "://" not in text and ":" not in text:
        address, _, inner = text.partition("@")
    return MarketplaceSource(
        kind="git",
        source=git_url(address),
        ref=check_ref(ref or inner),
        sparse=tuple(_checked_path(path) for path in sparse),
    )


def known_marketplaces(
    tables: Mapping[str, MarketplaceTable], store: PluginStore
) -> dict[str, KnownMarketplace]:
    """The configured ones, by name. Raises UsageError for an invalid name."""
    found: dict[str, KnownMarketplace] = {}
    for name, table in tables.items():
        origin = MarketplaceSource(
            kind=table.source_type,
            source=table.source,
            ref=table.ref or "",
            sparse=tuple(_checked_path(path) for path in table.sparse_paths),
        )
        copy = _copy_folder(store, name)
        found[name] = KnownMarketplace(
            name=name,
            origin=origin,
            root=table.source if origin.kind == "local" else str(copy),
            revision=table.last_revision or "",
            updated=table.last_updated or "",
        )
    return found


def read_known(one: KnownMarketplace) -> MarketplaceFile:
    """What it offers, from its local files. Raises UsageError: they are gone, or not usable."""
    file = find_marketplace_file(Path(one.root))
    if file.name != one.name:
        raise UsageError(f"{one.root}: it calls itself `{file.name}` now, not `{one.name}`")
    return file


def find_marketplace_file(root: Path) -> MarketplaceFile:
    """The first file of the known names. Raises UsageError."""
    for name in MARKETPLACE_FILES:
        try:
            data = read_bounded(root / name, limit_bytes=MARKETPLACE_BYTES)
        except (FileNotFoundError, NotADirectoryError):
            continue
        return read_marketplace(data, path=str(root / name))
    raise UsageError(f"{root}: marketplace file missing: there is none of {MARKETPLACE_FILES}")


def fetch_marketplace(
    origin: MarketplaceSource, store: PluginStore, required: Requirements, hidden: tuple[str, ...]
) -> FetchedMarketplace:
    """Read a marketplace at its source, and stage a copy of what is not a folder.

    Raises UsageError, NotFetched, PluginsNotWritten: nothing has changed then.
    """
    check_source_allowed(origin.source, required)
    if origin.kind == "local":
        return FetchedMarketplace(file=_checked(Path(origin.source)), origin=origin)
    staging = store.folder / "staging"
    files: Iterable[TreeFile | LeftOut]
    if origin.kind == "git":
        only = (*origin.sparse, *MARKETPLACE_FILES) if origin.sparse else ()
        fetched = fetch_git(
            origin.source, ref=origin.ref, staging=staging, hidden=hidden, only=only
        )
        files, revision = fetched.files, fetched.revision
    else:
        files, revision = read_archive(Path(origin.source)), archive_revision(Path(origin.source))
    copy = staging / secrets.token_hex(8)
    try:
        writer = TreeWriter(copy)
        for one in files:
            if isinstance(one, TreeFile):
                writer.write(one)
        file = _checked(copy)
    except BaseException:
        _remove(copy)
        raise
    return FetchedMarketplace(file=file, origin=origin, revision=revision, copy=str(copy))


def keep_copy(store: PluginStore, fetched: FetchedMarketplace) -> None:
    """Put the staged copy in place of an older one. Raises OSError."""
    if not fetched.copy:
        return
    target = _copy_folder(store, fetched.file.name)
    make_own_folders(target.parent)
    backup = target.with_name(f".{target.name}.old")
    _remove(backup)
    if target.exists():
        target.rename(backup)
    try:
        Path(fetched.copy).rename(target)
    except OSError:
        if backup.exists():
            backup.rename(target)
        raise
    _remove(backup)


def drop_copy(fetched: FetchedMarketplace) -> None:
    """Remove a staged copy that is not wanted."""
    if fetched.copy:
        _remove(Path(fetched.copy))


def forget_copy(store: PluginStore, name: str) -> None:
    """Remove the local copy of a marketplace."""
    _remove(_copy_folder(store, check_name(name, "marketplace")))


def check_source_allowed(source: str, required: Requirements) -> None:
    """Raises UsageError if the requirements do not list this source."""
    if required.broken:
        raise UsageError(required.broken)
    allowed = required.plugin_marketplaces
    if allowed is not None and source not in allowed:
        place = required.place("allowed_plugin_marketplaces")
        raise UsageError(f"{source}: {place} does not list it")


def archive_revision(path: Path) -> str:
    """The hash of an archive, in place of a commit."""
    with path.open("rb") as stream:
        return f"sha256:{hashlib.file_digest(stream, 'sha256').hexdigest()}"


def _checked_path(path: str) -> str:
    """A path inside of a repository, without its last slashes. Raises UsageError."""
    plain = path.removeprefix("./").rstrip("/")
    try:
        check_file_name(plain)
    except UsageError as error:
        raise UsageError(f"{path[:200]!r} is not a path of a repository: {error}") from error
    return plain


def _checked(root: Path) -> MarketplaceFile:
    file = find_marketplace_file(root)
    if file.name in RESERVED_NAMES:
        raise UsageError(f"{root}: the marketplace's name `{file.name}` is reserved")
    return file


def _copy_folder(store: PluginStore, name: str) -> Path:
    return store.folder / "marketplaces" / check_name(name, "marketplace")


def _remove(folder: Path) -> None:
    with suppress(OSError):
        remove_tree(folder)

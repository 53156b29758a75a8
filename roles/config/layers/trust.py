"""Trust decisions about project configuration, per folder and content.

A decision applies to content: changed content is asked about again. Content trusted in a repository
is trusted in its worktrees too, while it is the same. If the trust file cannot be read, or another
user may write it, nothing is trusted. A "no" is remembered for its content too.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Literal

import msgspec

from swarm.mailbox.base.errors import SwarmError, UsageError
from swarm.mailbox.protocol.values.base import Value

from ..atomic_replace import locked_folder, replace_file
from ..file_reading import read_bounded
from ..schema import Toml
from .merge import as_table
from .project_config import ProjectFolder

TRUST_FILE = "trusted.json"
_MAX_BYTES = 4 << 20
_MAX_DIGESTS = 16  # contents per folder, so that switching between branches does not ask each time
_FILE_DIGEST_CHARS = 16  # to say what changed; the whole content's hash decides
_MOST_NAMED = 10
TrustState = Literal["trusted", "declined", "unknown"]


class TrustNotSaved(SwarmError):
    """Nothing was written; earlier decisions still hold."""


_UpdateStore = Callable[["TrustStore"], "TrustStore"]


class FolderTrust(Value):
    """The decided contents of one folder, by digest, the newest last.

    `files`: the files that were trusted last, each with the beginning of its content's hash.
    """

    trusted: tuple[str, ...] = ()
    declined: tuple[str, ...] = ()
    files: dict[str, str] = {}


class FileChanges(Value):
    """Files that differ from what was trusted last, by their names relative to `.swarm`."""

    changed: tuple[str, ...] = ()
    new: tuple[str, ...] = ()
    gone: tuple[str, ...] = ()

    def __str__(self) -> str:
        parts = (("changed", self.changed), ("new", self.new), ("gone", self.gone))
        return "; ".join(f"{word}: {_names(names)}" for word, names in parts if names)


class TrustStore(Value):
    """All decisions. `problem`: why the file cannot be trusted; then nothing is trusted."""

    version: int = 1
    folders: dict[str, FolderTrust] = {}
    problem: str = ""

    def trust_state(self, one: ProjectFolder) -> TrustState:
        """The decision about this folder with this content, here or in its main repository."""
        if one.problem or not one.digest:
            return "unknown"
        for key in _trust_keys(one):
            seen = self.folders.get(key, FolderTrust())
            if one.digest in seen.trusted:
                return "trusted"
            if one.digest in seen.declined:
                return "declined"
        return "unknown"

    def changes(self, one: ProjectFolder) -> FileChanges | None:
        """What differs from the content that was trusted last; None: nothing, or none was."""
        for key in _trust_keys(one):
            before = self.folders.get(key, FolderTrust()).files
            if before:
                now = _file_digests(one)
                found = FileChanges(
                    changed=tuple(n for n in now if n in before and now[n] != before[n]),
                    new=tuple(name for name in now if name not in before),
                    gone=tuple(name for name in before if name not in now),
                )
                return None if found == FileChanges() else found
        return None


def _file_digests(one: ProjectFolder) -> dict[str, str]:
    import hashlib  # most folders have no project configuration

    return {
        name: hashlib.sha256(data).hexdigest()[:_FILE_DIGEST_CHARS]
        for name, data in one.files_by_name().items()
    }


def _names(names: Sequence[str]) -> str:
    more = len(names) - _MOST_NAMED
    return ", ".join(names[:_MOST_NAMED]) + (f" and {more} more" if more > 0 else "")


def read_trust(config_folder: Path) -> TrustStore:
    """Read the trust file in the person's configuration folder; empty if it is missing."""
    path = config_folder / TRUST_FILE
    try:
        data = read_bounded(path, limit_bytes=_MAX_BYTES)
        facts = path.stat()
    except FileNotFoundError:
        return TrustStore()
    except (UsageError, OSError) as error:
        return TrustStore(problem=f"{path}: nothing is trusted: {error}")
    if facts.st_uid != os.getuid() or facts.st_mode & 0o022:
        return TrustStore(
            problem=f"{path}: nothing is trusted, for others may write this file; "
            f"run `chown {os.getuid()} {path}; chmod 600 {path}`"
        )
    try:
        store = msgspec.json.decode(data, type=TrustStore)
    except msgspec.DecodeError as error:
        return TrustStore(problem=f"{path}: nothing is trusted: {error}; delete it and trust again")
    return msgspec.structs.replace(store, problem="")


def save_trust_decision(
    config_folder: Path, folders: Sequence[ProjectFolder], *, trusted: bool
) -> None:
    """Record a decision about exactly these contents. Raises TrustNotSaved."""

    def change(store: TrustStore) -> TrustStore:
        known = dict(store.folders)
        for one in folders:
            seen = known.get(one.folder, FolderTrust())
            yes = tuple(digest for digest in seen.trusted if digest != one.digest)
            no = tuple(digest for digest in seen.declined if digest != one.digest)
            if trusted:
                yes = (*yes, one.digest)[-_MAX_DIGESTS:]
            else:
                no = (*no, one.digest)[-_MAX_DIGESTS:]
            files = _file_digests(one) if trusted else seen.files
            known[one.folder] = FolderTrust(trusted=yes, declined=no, files=files)
        return TrustStore(folders=known)

    _update_store(config_folder, change)


def forget_trust_decisions(config_folder: Path, folder: Path) -> tuple[str, ...]:
    """Delete all decisions about a folder and those below it; return their folders.

    Raises TrustNotSaved.
    """
    real = os.path.realpath(folder)
    gone: list[str] = []

    def change(store: TrustStore) -> TrustStore:
        gone.extend(
            key for key in store.folders if key == real or key.startswith(real.rstrip("/") + "/")
        )
        return TrustStore(folders={k: v for k, v in store.folders.items() if k not in gone})

    _update_store(config_folder, change)
    return tuple(gone)


def forbidden_by_config(one: ProjectFolder, below: Toml) -> bool:
    """True if a lower layer sets `[projects."/path"] trust_level = "untrusted"`.

    The reverse is not enough: Codex's `trusted` applies to a folder whatever it will contain.
    """
    projects = as_table(below.get("projects"))
    for key in (*_trust_keys(one), one.root):
        table = as_table(projects.get(key))
        if (level := table.get("trust_level")) is not None:
            return level == "untrusted"
    return False


def _trust_keys(one: ProjectFolder) -> Iterator[str]:
    """The folder, and the same folder in the main repository if this is a worktree."""
    yield one.folder
    main = main_repository(Path(one.root))
    if main is not None:
        inner = os.path.relpath(one.folder, one.root)
        yield os.path.normpath(main / inner)


def main_repository(root: Path) -> Path | None:
    """The main folder of the repository if `root` is one of its linked worktrees; else None.

    Both sides must name each other, as git requires: a `.git` file alone proves nothing.
    """
    try:
        link = _line(root / ".git")
        if link is None or not link.startswith("gitdir:"):
            return None
        own = Path(root, link.removeprefix("gitdir:").strip())
        back, common = _line(own / "gitdir"), _line(own / "commondir")
        if back is None or common is None:
            return None
        if os.path.realpath(own / back) != os.path.realpath(root / ".git"):
            return None
        folder = Path(os.path.realpath(own / common))
    except (UsageError, OSError, ValueError):
        return None
    return folder.parent if folder.name == ".git" else None


def _line(path: Path) -> str | None:
    """The only line of a small file; None if it is not a file."""
    if not path.is_file():
        return None
    return os.fsdecode(read_bounded(path, limit_bytes=8 << 10)).strip()


def _update_store(config_folder: Path, change: _UpdateStore) -> None:
    path = config_folder / TRUST_FILE
    try:
        with locked_folder(config_folder):
            store = read_trust(config_folder)
            if store.problem:
                raise TrustNotSaved(store.problem)
            replace_file(path, msgspec.json.format(msgspec.json.encode(change(store))))
    except OSError as error:
        raise TrustNotSaved(f"{path} cannot be written: {error.strerror}") from error

"""Which project configuration the person trusts: a folder together with the content that was seen.

Guards: the content decides. What changed is asked about again, what was trusted in a repository is
trusted in its worktrees as long as it says the same; a file of ours that somebody else may write,
or that cannot be read, trusts nothing. A "no" is remembered for that content too.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Literal

import msgspec

from swarm.mailbox.errors import SwarmError, UsageError
from swarm.mailbox.protocol.base import Value

from .atomic_replace import locked_folder, replace_file
from .file_reading import read_bounded
from .merge import as_table
from .project_config import ProjectFolder
from .schema import Toml

TRUST_FILE = "trusted.json"
_MAX_BYTES = 4 << 20
_MAX_DIGESTS = (
    16  # contents a folder: branches that are switched between are not asked about each time
)
TrustState = Literal["trusted", "declined", "unknown"]


class TrustNotSaved(SwarmError):
    """Nothing was written; what was trusted before still is."""


_UpdateStore = Callable[["TrustStore"], "TrustStore"]


class FolderTrust(Value):
    """One folder's contents, by digest, the newest last."""

    trusted: tuple[str, ...] = ()
    declined: tuple[str, ...] = ()


class TrustStore(Value):
    """All that was decided. `problem`: why the file cannot be believed; nothing is trusted then."""

    version: int = 1
    folders: dict[str, FolderTrust] = {}
    problem: str = ""

    def trust_state(self, one: ProjectFolder) -> TrustState:
        """What the person said about this folder with this content, here or in its repository."""
        if one.problem or not one.digest:
            return "unknown"
        for key in _trust_keys(one):
            seen = self.folders.get(key, FolderTrust())
            if one.digest in seen.trusted:
                return "trusted"
            if one.digest in seen.declined:
                return "declined"
        return "unknown"


def read_trust(config_folder: Path) -> TrustStore:
    """The book beside the person's configuration; an empty one where there is none."""
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
        book = msgspec.json.decode(data, type=TrustStore)
    except msgspec.DecodeError as error:
        return TrustStore(problem=f"{path}: nothing is trusted: {error}; delete it and trust anew")
    return msgspec.structs.replace(book, problem="")


def save_trust_decision(
    config_folder: Path, folders: Sequence[ProjectFolder], *, trusted: bool
) -> None:
    """Note a decision about exactly these contents. Raises TrustNotSaved."""

    def change(book: TrustStore) -> TrustStore:
        known = dict(book.folders)
        for one in folders:
            seen = known.get(one.folder, FolderTrust())
            yes = tuple(digest for digest in seen.trusted if digest != one.digest)
            no = tuple(digest for digest in seen.declined if digest != one.digest)
            if trusted:
                yes = (*yes, one.digest)[-_MAX_DIGESTS:]
            else:
                no = (*no, one.digest)[-_MAX_DIGESTS:]
            known[one.folder] = FolderTrust(trusted=yes, declined=no)
        return TrustStore(folders=known)

    _update_store(config_folder, change)


def forget_trust_decisions(config_folder: Path, folder: Path) -> tuple[str, ...]:
    """Take back all that was said about a folder and all below it; returns what was known.

    Raises TrustNotSaved.
    """
    real = os.path.realpath(folder)
    gone: list[str] = []

    def change(book: TrustStore) -> TrustStore:
        gone.extend(
            key for key in book.folders if key == real or key.startswith(real.rstrip("/") + "/")
        )
        return TrustStore(folders={k: v for k, v in book.folders.items() if k not in gone})

    _update_store(config_folder, change)
    return tuple(gone)


def forbidden_by_config(one: ProjectFolder, below: Toml) -> bool:
    """`[projects."/path"] trust_level = "untrusted"` in a layer below: a standing no.

    The contrary is not enough: Codex's `trusted` speaks of a folder, whatever it comes to hold.
    """
    projects = as_table(below.get("projects"))
    for key in (*_trust_keys(one), one.root):
        table = as_table(projects.get(key))
        if (level := table.get("trust_level")) is not None:
            return level == "untrusted"
    return False


def _trust_keys(one: ProjectFolder) -> Iterator[str]:
    """The folder, and the same place in the repository that this is a worktree of."""
    yield one.folder
    main = main_repository(Path(one.root))
    if main is not None:
        inner = os.path.relpath(one.folder, one.root)
        yield os.path.normpath(main / inner)


def main_repository(root: Path) -> Path | None:
    """The main folder of the repository whose linked worktree `root` is; None if it is none.

    Both sides must name each other, as git itself asks for: a `.git` file alone claims anything.
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
    """The only line of a small file; None for a folder or no file at all."""
    if not path.is_file():
        return None
    return os.fsdecode(read_bounded(path, limit_bytes=8 << 10)).strip()


def _update_store(config_folder: Path, change: _UpdateStore) -> None:
    path = config_folder / TRUST_FILE
    try:
        with locked_folder(config_folder):
            book = read_trust(config_folder)
            if book.problem:
                raise TrustNotSaved(book.problem)
            replace_file(path, msgspec.json.format(msgspec.json.encode(change(book))))
    except OSError as error:
        raise TrustNotSaved(f"{path} cannot be written: {error.strerror}") from error

"""Walks the watched folders below some roots, breadth first.

A folder is scanned completely or not at all, so that an entry that appears in it is known to be
new. Links, the kernel's file systems and a folder that has meanwhile become a link are not entered.
Blocks: call it in a thread.
"""

import errno
import os
import stat
from collections.abc import Collection, Iterable

from swarm.mailbox.base.path_rules import is_within, looks_like_placeholder
from swarm.mailbox.base.safe_open import scan_folder
from swarm.mailbox.protocol.values.limits import ProfilePolicy, SandboxPolicy, WorkspaceWrite

from .content_store import is_text

MAX_FILES = 20_000  # entries in all; whole folders beyond this are not watched
_ONE_FOLDER = 10_000  # entries of one folder
# Created by tools, large, and easy to create again. Version control keeps its own history.
_SKIPPED = frozenset({
    ".git", ".hg", ".svn", ".jj", "node_modules", ".venv", "venv", "__pycache__", ".tox", ".nox",
    ".mypy_cache", ".pytest_cache", ".ruff_cache", ".cache", ".direnv", ".gradle", ".terraform",
})  # fmt: skip
# A folder that holds one can be created again.
_CACHE_MARKERS = frozenset({"CACHEDIR.TAG", "pyvenv.cfg"})
_NEVER = ("/proc", "/sys", "/dev", "/run")

_NO_FOLDER = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP)  # gone, or something else by now

WalkedEntry = tuple[str, os.stat_result]
_NOT_WATCHED: list[WalkedEntry] = []  # for a folder that is not to be watched, or is gone


def roots_of(sandbox: SandboxPolicy, cwd: str, add_dirs: Iterable[str] = ()) -> tuple[str, ...]:
    """The folders that an agent's commands are expected to write, canonical, none within another.

    Never the root of the file system: scanning a part of it would cost much and show little.
    """
    more = sandbox.writable_roots if isinstance(sandbox, WorkspaceWrite) else ()
    if isinstance(sandbox, ProfilePolicy):
        more = tuple(r.path for r in sandbox.rules if r.access == "write" and r.path != "/")
    real = {os.path.realpath(path) for path in (cwd, *add_dirs, *more)}
    return outermost(path for path in real - {"/"} if os.path.isdir(path))  # noqa: PTH112


def outermost(paths: Iterable[str]) -> tuple[str, ...]:
    """The paths that lie within no other one."""
    kept: list[str] = []
    for path in sorted(set(paths)):
        if not any(is_within(path, one) for one in kept):
            kept.append(path)
    return tuple(kept)


class TreeWalker:
    """Walks the same folders each time, and new folders below them as long as the limit allows.

    `closed`: folders that are never entered, namely the run's own.
    """

    def __init__(self, closed: Collection[str]) -> None:
        self._closed = frozenset(os.path.realpath(path) for path in closed)
        self.uncovered: dict[str, None] = {}  # folders that are not watched but may matter
        self.walked: set[str] = set()  # the folders that the last walk entered

    def walk(self, roots: Iterable[str]) -> dict[str, os.stat_result]:
        """Every entry below the roots, without the roots themselves. Folders that the last walk
        entered are entered again, however large they have become.
        """
        found: dict[str, os.stat_result] = {}
        known, self.walked = self.walked, set()
        level = list(roots)
        while level:
            below: list[str] = []
            for folder in level:
                if folder in self.uncovered:
                    continue
                entries = self._entries(folder)
                room = MAX_FILES - len(found)
                if entries is None or (folder not in known and len(entries) > room):
                    self.uncovered[folder] = None
                    continue
                if entries is _NOT_WATCHED:
                    continue
                self.walked.add(folder)
                for path, facts in entries:
                    found[path] = facts
                    if stat.S_ISDIR(facts.st_mode):
                        below.append(path)
            level = below
        return found

    def _entries(self, folder: str) -> list[WalkedEntry] | None:
        """None if there are too many entries or the folder cannot be read."""
        found: list[WalkedEntry] = []
        try:
            with scan_folder(folder) as entries:
                above = folder.rstrip("/")
                for entry in entries:
                    path = f"{above}/{entry.name}"
                    if entry.name in _CACHE_MARKERS:
                        return _NOT_WATCHED
                    if entry.name in _SKIPPED or path in self._closed:
                        continue
                    if not is_text(entry.name):  # no record can name it
                        continue
                    if len(found) >= _ONE_FOLDER:
                        return None
                    try:
                        facts = entry.stat(follow_symlinks=False)
                    except OSError:
                        continue  # it disappeared in the meantime
                    if looks_like_placeholder(entry.name, facts.st_mtime_ns):
                        continue  # a sandbox's placeholder: it disappears by itself
                    if path not in _NEVER:
                        found.append((path, facts))
        except OSError as error:
            return _NOT_WATCHED if error.errno in _NO_FOLDER else None
        return found

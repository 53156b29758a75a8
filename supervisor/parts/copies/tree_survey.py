"""Lists what a copy of a folder consists of: files to copy, folders to show as they are.

Caches are left out, since tools make them again. Folders that are large and that tools fill
(installed packages, build results, git's objects) and mount points are not copied but shown as they
are. Links are never followed. Blocks: call it in a thread.
"""

import os
import stat
from collections.abc import Collection
from typing import Literal

import msgspec

from swarm.mailbox.base.errors import SwarmError
from swarm.mailbox.base.path_rules import looks_like_placeholder
from swarm.mailbox.base.safe_open import scan_folder, stat_no_follow

from ..undo.content_store import is_text

MAX_FILES = 200_000
MAX_BYTES = 4 << 30
MAX_LIVE = 64  # each is a mount of every agent
_TICK_NS = 20_000_000  # a change within one clock tick may not show in a file's times
LEFT_OUT_NAMES = frozenset({
    "__pycache__", ".mypy_cache", ".pytest_cache", ".ruff_cache", ".cache",
})  # fmt: skip
LIVE_NAMES = frozenset({
    "node_modules", ".venv", "venv", ".tox", ".nox", ".direnv", ".gradle", ".terraform",
})  # fmt: skip
LIVE_MARKERS = frozenset({"CACHEDIR.TAG", "pyvenv.cfg"})
_REPOSITORY = frozenset({"HEAD", "objects", "refs"})

Kind = Literal["file", "folder", "link"]


class CopyRefused(SwarmError):
    """No copy of the project can be made; the message says why."""

    exit_code = 6


class SeenFile(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One entry as it was when it was listed. A racy one may have changed since, unseen."""

    kind: Kind
    mode: int
    size: int
    mtime_ns: int
    ctime_ns: int
    inode: int
    target: str = ""
    racy: bool = False

    def has_facts(self, facts: os.stat_result) -> bool:
        """True if these facts are certainly those of the same entry, unchanged."""
        if self.racy or self.kind != _kind_of(facts):
            return False
        if self.kind == "folder":
            return True
        mine = (self.mode, self.size, self.mtime_ns, self.ctime_ns, self.inode)
        size = facts.st_size if self.kind == "file" else 0
        mode = stat.S_IMODE(facts.st_mode) & 0o777
        return mine == (mode, size, facts.st_mtime_ns, facts.st_ctime_ns, facts.st_ino)

    def is_same_as(self, other: "SeenFile | None") -> bool:
        """True if the entry is certainly unchanged. A folder's times tell nothing of its own."""
        if other is None or self.racy or self.kind != other.kind or self.mode != other.mode:
            return False
        if self.kind == "folder":
            return True
        mine = (self.size, self.mtime_ns, self.ctime_ns, self.inode, self.target)
        return mine == (other.size, other.mtime_ns, other.ctime_ns, other.inode, other.target)


class Survey(msgspec.Struct, frozen=True):
    """What a copy consists of, by paths below the folder; folders come before their contents."""

    mode: int  # of the folder itself
    entries: dict[str, SeenFile]
    live: tuple[str, ...] = ()  # folders that are shown as they are; `entries` has them empty
    left_out: int = 0  # sockets, devices, names that are no text

    @property
    def size_bytes(self) -> int:
        return sum(one.size for one in self.entries.values())

    def is_same_as(self, earlier: "Survey") -> bool:
        """True if nothing was changed since the earlier one."""
        return (
            self.mode == earlier.mode
            and self.live == earlier.live
            and self.entries.keys() == earlier.entries.keys()
            and all(seen.is_same_as(self.entries[name]) for name, seen in earlier.entries.items())
        )


def survey_tree(root: str, closed: Collection[str], *, now_ns: int) -> Survey:
    """List everything below a canonical folder.

    Args:
        root: The folder.
        closed: Folders that are left out, by canonical paths: the run's own.
        now_ns: The time of the clock that stamps files.

    Raises:
        CopyRefused: it is too large, or has too many folders that would be shown as they are.
        OSError: the folder cannot be read.
    """
    top, _ = stat_no_follow(root)
    found = _Walk(root, top.st_dev, frozenset(closed), now_ns)
    waiting = [""]
    while waiting:
        waiting += found.read_folder(waiting.pop())
    if len(found.live) > MAX_LIVE:
        raise CopyRefused(
            f"{root} has more than {MAX_LIVE} folders such as {found.live[0]}, which a copy shows "
            "as they are; work in a smaller folder (-C), or share it"
        )
    return Survey(
        mode=stat.S_IMODE(top.st_mode),
        entries=found.entries,
        live=tuple(sorted(found.live)),
        left_out=found.left_out,
    )


class _Walk:
    def __init__(self, root: str, device: int, closed: frozenset[str], now_ns: int) -> None:
        self._root, self._device, self._closed, self._now_ns = root, device, closed, now_ns
        self.entries: dict[str, SeenFile] = {}
        self.live: list[str] = []
        self.left_out = self._bytes = 0

    def read_folder(self, folder: str) -> list[str]:
        """List one folder; returns the folders in it that are still to be read."""
        path = f"{self._root}/{folder}".rstrip("/") or "/"
        found: list[tuple[str, os.stat_result]] = []
        try:
            with scan_folder(path) as scanned:
                for one in scanned:
                    found.append((one.name, one.stat(follow_symlinks=False)))
                    self._check_bounds(len(found))
        except OSError:
            if not folder:
                raise
            self.left_out += 1  # it is gone, closed to us, or a link by now
            return []
        names = {name for name, _ in found}
        if folder and not names.isdisjoint(LIVE_MARKERS):
            self.live.append(folder)
            return []
        below: list[str] = []
        for name, facts in found:
            rel = f"{folder}/{name}" if folder else name
            if self._is_left_out(name, rel, facts):
                continue
            self._add(rel, facts)
            if stat.S_ISDIR(facts.st_mode):
                is_store = name == "objects" and names >= _REPOSITORY
                if name in LIVE_NAMES or is_store or facts.st_dev != self._device:
                    self.live.append(rel)
                else:
                    below.append(rel)
        return below

    def _check_bounds(self, files: int) -> None:
        if files > MAX_FILES or self._bytes > MAX_BYTES:
            raise CopyRefused(
                f"{self._root} has more than {MAX_FILES:,} files or {MAX_BYTES >> 30} GiB without "
                "installed packages; work in a smaller folder (-C), or share it"
            )

    def _is_left_out(self, name: str, rel: str, facts: os.stat_result) -> bool:
        if name in LEFT_OUT_NAMES or looks_like_placeholder(name, facts.st_mtime_ns):
            return True
        if f"{self._root.rstrip('/')}/{rel}" in self._closed:
            return True
        if not is_text(name) or _kind_of(facts) is None:
            self.left_out += 1
            return True
        return False

    def _add(self, rel: str, facts: os.stat_result) -> None:
        kind = _kind_of(facts)
        assert kind is not None
        target = ""
        if kind == "link":
            try:
                target = stat_no_follow(f"{self._root.rstrip('/')}/{rel}")[1]
            except OSError:
                self.left_out += 1
                return
            if not is_text(target):
                self.left_out += 1
                return
        size = facts.st_size if kind == "file" else 0
        self._bytes += size
        self._check_bounds(len(self.entries) + 1)
        self.entries[rel] = SeenFile(
            kind=kind,
            mode=stat.S_IMODE(facts.st_mode) & 0o777,
            size=size,
            mtime_ns=facts.st_mtime_ns,
            ctime_ns=facts.st_ctime_ns,
            inode=facts.st_ino,
            target=target,
            racy=kind != "folder" and facts.st_ctime_ns >= self._now_ns - _TICK_NS,
        )


def _kind_of(facts: os.stat_result) -> Kind | None:
    if stat.S_ISREG(facts.st_mode):
        return "file"
    if stat.S_ISDIR(facts.st_mode):
        return "folder"
    return "link" if stat.S_ISLNK(facts.st_mode) else None

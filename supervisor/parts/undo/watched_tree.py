"""The last seen state of the watched files, and the comparison with their present state.

The previous contents of a file are known or reported as unknown, never guessed: a file that was
changed before its first copy was made has no `before`. Blocks: use it from one thread at a time.
"""

import os
import stat
import time
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import NamedTuple

import msgspec

from swarm.mailbox.base.safe_open import exists_no_follow, stat_no_follow

from .content_store import UNKNOWN, ContentStore, FileEntry, Kind, is_text
from .tree_walk import TreeWalker, outermost
from .working_copies import WorkingCopies

_CLOCK_REALTIME_COARSE = 5  # CLOCK_REALTIME_COARSE of Linux
_TICK_NS = 20_000_000  # a change within one clock tick may not show in a file's times
MAX_KEPT_BYTES = 1024 * 1024 * 1024  # contents before and after, in one run


class KnownFile(msgspec.Struct, gc=False):
    """One path as last seen. `offset` is -1 if there is no copy."""

    kind: Kind
    mode: int
    size: int
    mtime_ns: int
    ctime_ns: int
    inode: int
    sha256: str = ""
    offset: int = -1
    target: str = ""
    racy: bool = False  # its times cannot show whether it was changed again


class PathChange(NamedTuple):
    """`ctime_ns`: when the file was changed, by its own ctime; None for a removed path."""

    before: FileEntry
    after: FileEntry
    ctime_ns: int | None


class WatchedTree:
    """Everything below the roots. The first scan of a root is its baseline and finds no change."""

    def __init__(self, store: ContentStore, pack: WorkingCopies, closed: Collection[str]) -> None:
        self._store, self._copies = store, pack
        self._walker = TreeWalker(closed)
        self._roots: tuple[str, ...] = ()
        self._baselined: set[str] = set()  # roots with a baseline
        self._known: dict[str, KnownFile] = {}
        self._kept_bytes = 0
        self.first_call_ns: int | None = None  # when the first call began that may change files

    @property
    def uncovered(self) -> tuple[str, ...]:
        """Folders that are not watched: too many files, or unreadable."""
        return tuple(self._walker.uncovered)

    @property
    def roots(self) -> tuple[str, ...]:
        return self._roots

    @property
    def files(self) -> int:
        return len(self._known)

    def add_roots(self, roots: Iterable[str]) -> bool:
        """Watch these roots too; True if the set of watched roots changed."""
        fresh = outermost((*self._roots, *roots))
        changed = fresh != self._roots
        self._roots = fresh
        return changed

    def scan(self) -> tuple[PathChange, ...]:
        """The changes since the last scan, sorted by path. Contents before and after are in the
        store as far as copies exist.
        """
        began_ns = now_ns()
        found = self._walker.walk(self._roots)
        fresh_roots = set(self._roots) - self._baselined
        changes: list[PathChange] = []
        for path, facts in found.items():
            change = self._compare(path, facts, began_ns, is_base=_is_below(path, fresh_roots))
            if change is not None:
                changes.append(change)
        unseen = [path for path in self._known if path not in found]
        changes += [self._removed(path) for path in unseen if not exists_no_follow(path)]
        self._baselined |= fresh_roots
        return tuple(sorted(changes, key=lambda change: change.after.path))

    def covers(self, path: str) -> bool:
        """True if a change of this path would be found and its present contents are known."""
        known = self._known.get(path)
        if known is not None:
            return known.sha256 != UNKNOWN
        return str(Path(path).parent) in self._walker.walked

    def refresh(self, paths: Iterable[str]) -> None:
        """Take the present state of these paths as known; it is not reported as a change."""
        began_ns = now_ns()
        for path in paths:
            try:
                facts = stat_no_follow(path)[0]
            except OSError:
                self._known.pop(path, None)
                continue
            if path in self._known or str(Path(path).parent) in self._walker.walked:
                self._known.pop(path, None)
                self._compare(path, facts, began_ns, is_base=True)

    def close(self) -> None:
        self._copies.close()

    def _compare(
        self, path: str, facts: os.stat_result, began_ns: int, *, is_base: bool
    ) -> PathChange | None:
        old = self._known.get(path)
        if old is not None and not old.racy and _looks_same(old, facts):
            return None
        fresh = self._read_known(path, facts, began_ns)
        if fresh is None:
            return None if old is None else self._removed(path)
        self._known[path] = fresh
        if old is None and is_base:
            late = self.first_call_ns is not None and fresh.ctime_ns >= self.first_call_ns
            if not late or fresh.kind == "folder":
                return None
            before = FileEntry(path=path, kind="file", sha256=UNKNOWN)
        else:
            before = FileEntry(path=path, kind="absent") if old is None else _entry(path, old)
        after = _entry(path, fresh)
        if before.is_same_as(after) and not (
            after.sha256 == UNKNOWN and old is not None and not _looks_same(old, facts)
        ):
            return None
        if old is not None:
            self._store_content(old)
            before = _entry(path, old)
        self._store_content(fresh)
        return PathChange(before, _entry(path, fresh), fresh.ctime_ns)

    def _removed(self, path: str) -> PathChange:
        old = self._known.pop(path)
        self._store_content(old)
        return PathChange(_entry(path, old), FileEntry(path=path, kind="absent"), None)

    def _store_content(self, known: KnownFile | None) -> None:
        """Copy the contents of a changed file, or of a change's result, to the store for good."""
        if known is None or known.offset < 0:
            return
        try:
            if self._kept_bytes + known.size > MAX_KEPT_BYTES:
                raise OSError("the run's store holds enough")
            data = self._copies.read(known.offset, known.size)
            self._kept_bytes += self._store.store_bytes(known.sha256, data)
        except OSError:
            known.sha256, known.offset = UNKNOWN, -1

    def _read_known(self, path: str, facts: os.stat_result, began_ns: int) -> KnownFile | None:
        """None if it is neither file, folder nor link."""
        if stat.S_ISDIR(facts.st_mode):
            return _known("folder", facts, began_ns)
        if stat.S_ISLNK(facts.st_mode):
            link = _known("link", facts, began_ns)
            try:
                link.target = stat_no_follow(path)[1]
            except OSError:
                return None
            return link if is_text(link.target) else None
        if not stat.S_ISREG(facts.st_mode):
            return None
        copied = self._copies.copy(path)
        if copied is None:
            known = _known("file", facts, began_ns)
            known.sha256 = UNKNOWN
            return known
        known = _known("file", copied.facts, began_ns)
        known.sha256, known.offset, known.size = copied.sha256, copied.offset, copied.size
        return known


def now_ns() -> int:
    """The time of the clock that stamps files; a tick early if the file system has a finer one."""
    return time.clock_gettime_ns(_CLOCK_REALTIME_COARSE)


def _known(kind: Kind, facts: os.stat_result, began_ns: int) -> KnownFile:
    return KnownFile(
        kind=kind,
        mode=stat.S_IMODE(facts.st_mode),
        size=facts.st_size if kind == "file" else 0,
        mtime_ns=facts.st_mtime_ns,
        ctime_ns=facts.st_ctime_ns,
        inode=facts.st_ino,
        racy=kind != "folder" and facts.st_ctime_ns >= began_ns - _TICK_NS,
    )


def _looks_same(old: KnownFile, facts: os.stat_result) -> bool:
    if old.kind == "folder":
        return stat.S_ISDIR(facts.st_mode)
    return (
        old.ctime_ns == facts.st_ctime_ns
        and old.mtime_ns == facts.st_mtime_ns
        and old.inode == facts.st_ino
        and old.size == (facts.st_size if old.kind == "file" else 0)
        and old.mode == stat.S_IMODE(facts.st_mode)
    )


def _entry(path: str, known: KnownFile) -> FileEntry:
    return FileEntry(
        path=path,
        kind=known.kind,
        mode=known.mode,
        size=known.size,
        mtime_ns=known.mtime_ns,
        sha256=known.sha256,
        target=known.target,
    )


def _is_below(path: str, roots: Collection[str]) -> bool:
    return any(path.startswith(root.rstrip("/") + "/") for root in roots)

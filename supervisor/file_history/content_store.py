"""The run's store of file contents, by content address, and the lists of what was where.

Rule guarded: what is in the store is whole and never changes; a copy that was cut short leaves
nothing behind. What lies behind a link is not there: a command that puts one in a folder's place
has nothing copied that it could not read. Blocks: call it in a thread.
"""

import hashlib
import os
import stat
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Literal

import msgspec

from swarm.mailbox.protocol.base import Value
from swarm.mailbox.protocol.requests import MAX_KEPT_BYTES, MAX_KEPT_FILES
from swarm.mailbox.safe_open import READ_FLAGS, open_canonical, scan_folder, stat_no_follow

UNKNOWN = "unknown"  # in the place of a sha256: there was a file, and there is no copy of it
_CHUNK_BYTES = 1024 * 1024
_ZEROS = bytes(_CHUNK_BYTES)
_SKIPPED = frozenset({".git"})  # commands cannot write it; git keeps its own past

Kind = Literal["file", "folder", "link", "absent"]


class FileEntry(Value):
    """One path as it was. `target` of a link is what it points to."""

    path: str  # absolute, its folder canonical
    kind: Kind
    mode: int = 0
    size: int = 0
    mtime_ns: int = 0
    sha256: str = ""
    target: str = ""

    def is_same_as(self, other: "FileEntry") -> bool:
        """Whether nothing that can be put back differs; times do not count, nor do the modes of
        folders and links.
        """
        if (self.kind, self.sha256, self.target) != (other.kind, other.sha256, other.target):
            return False
        return self.kind != "file" or self.mode == other.mode


class SnapshotResult(Value):
    """What a snapshot came to."""

    manifest: str
    files: int
    size_bytes: int
    left_out: tuple[str, ...] = ()


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(tuple[FileEntry, ...]).decode


class ContentStore:
    """`folder` is made at the first use, closed to others."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def take_snapshot(self, paths: Sequence[str]) -> SnapshotResult:
        """Copy these files and everything below these folders, within the bounds."""
        return self._take(_walk(paths))

    def take_snapshot_of(self, paths: Sequence[str]) -> SnapshotResult:
        """Copy these alone, nothing below folders; what is absent is noted as absent."""
        return self._take(paths)

    def entries_of(self, paths: Sequence[str]) -> tuple[FileEntry, ...]:
        """What is at these paths, each with a copy; one that cannot be made is UNKNOWN."""
        found: list[FileEntry] = []
        for path in paths:
            real = _canonical(path)
            entry = self._store_file(real, MAX_KEPT_BYTES)
            found.append(entry or FileEntry(path=_printable(real), kind="file", sha256=UNKNOWN))
        return tuple(found)

    def store_bytes(self, sha256: str, data: bytes) -> int:
        """Keep contents whose address is known; returns how many bytes were new to the store."""
        if self._path(sha256).exists():
            return 0
        self._write(data)
        return len(data)

    def _take(self, paths: Iterable[str]) -> SnapshotResult:
        entries: list[FileEntry] = []
        left_out: list[str] = []
        size = 0
        for path in paths:
            if len(entries) >= MAX_KEPT_FILES:
                left_out.append(f"more than {MAX_KEPT_FILES} files")
                break
            entry = self._store_file(path, MAX_KEPT_BYTES - size)
            if entry is None:
                left_out.append(_printable(path))
                continue
            size += entry.size
            entries.append(entry)
        files = sum(entry.kind in ("file", "link") for entry in entries)
        return SnapshotResult(
            manifest=self.write_manifest(entries),
            files=files,
            size_bytes=size,
            left_out=tuple(left_out[:100]),
        )

    def write_current_manifest(self, entries: Sequence[FileEntry]) -> str:
        """Keep a list of what is now where these entries were; contents are not copied."""
        return self.write_manifest([read_entry(entry.path, like=entry) for entry in entries])

    def write_manifest(self, entries: Sequence[FileEntry]) -> str:
        """Returns its address."""
        return self._write(_encode(tuple(entries)))

    def read_manifest(self, sha256: str) -> tuple[FileEntry, ...]:
        """Raises OSError if it is not there, ValueError if it is not what its address says."""
        data = self._path(sha256).read_bytes()
        if hashlib.sha256(data).hexdigest() != sha256:
            raise ValueError(f"the list {sha256[:12]} of the run's store is damaged")
        return _decode(data)

    def open(self, sha256: str) -> int:
        """A descriptor to read a content from; the caller closes it. Raises OSError."""
        return os.open(self._path(sha256), os.O_RDONLY | os.O_CLOEXEC)

    def _store_file(self, path: str, room_bytes: int) -> FileEntry | None:
        """None if it cannot be kept: too large, unreadable, or neither file, folder nor link."""
        seen = _stat_entry(path)
        if seen is None or seen.kind != "file":
            return seen
        if seen.size > room_bytes:
            return None
        try:
            digest, size = self._copy(path, room_bytes)
        except OSError:
            return None
        return msgspec.structs.replace(seen, sha256=digest, size=size)

    def _copy(self, path: str, room_bytes: int) -> tuple[str, int]:
        source = open_canonical(path, READ_FLAGS)
        try:
            if not stat.S_ISREG(os.fstat(source).st_mode):
                raise OSError("it is no longer a file")
            return self._copy_open(source, room_bytes)
        finally:
            os.close(source)

    def _copy_open(self, source: int, room_bytes: int) -> tuple[str, int]:
        """By chunks; what is empty takes no room on the disk."""
        self._make_folder()
        fresh = self._folder / f"new-{os.getpid()}-{source}"
        hasher, size = hashlib.sha256(), 0
        try:
            with fresh.open("wb") as file:
                while chunk := os.read(source, _CHUNK_BYTES):
                    size += len(chunk)
                    if size > room_bytes:
                        raise OSError("it grew beyond the bound")
                    hasher.update(chunk)
                    if chunk == _ZEROS:
                        file.seek(size)
                    else:
                        file.write(chunk)
                file.truncate(size)
            digest = hasher.hexdigest()
            self._move_into_place(fresh, digest)
        finally:
            fresh.unlink(missing_ok=True)
        return digest, size

    def _write(self, data: bytes) -> str:
        self._make_folder()
        digest = hashlib.sha256(data).hexdigest()
        fresh = self._folder / f"new-{os.getpid()}-list-{digest[:16]}"
        try:
            fresh.write_bytes(data)
            self._move_into_place(fresh, digest)
        finally:
            fresh.unlink(missing_ok=True)
        return digest

    def _move_into_place(self, fresh: Path, digest: str) -> None:
        path = self._path(digest)
        if not path.exists():
            path.parent.mkdir(mode=0o700, exist_ok=True)
            fresh.replace(path)

    def _path(self, sha256: str) -> Path:
        return self._folder / sha256[:2] / sha256

    def _make_folder(self) -> None:
        self._folder.mkdir(mode=0o700, exist_ok=True)


def is_text(name: str) -> bool:
    """False for a name that is not UTF-8: no record can hold it."""
    return name.isascii() or not any("\ud800" <= sign <= "\udfff" for sign in name)


def read_entry(path: str, *, like: FileEntry | None = None) -> FileEntry:
    """What is at this path now. A file that looks untouched since `like` is not read again."""
    seen = _stat_entry(path) or FileEntry(path=path, kind="absent")
    if seen.kind != "file":
        return seen
    if like is not None and (like.size, like.mtime_ns) == (seen.size, seen.mtime_ns):
        return msgspec.structs.replace(seen, sha256=like.sha256)
    return msgspec.structs.replace(seen, sha256=_digest(path))


def _printable(path: str) -> str:
    """Its words for people, whatever bytes it has."""
    return path.encode(errors="surrogateescape").decode(errors="replace")


def read_kind(path: str) -> Kind | None:
    """What kind of thing is there, unread; None for what is no file, folder or link."""
    seen = _stat_entry(path)
    return None if seen is None else seen.kind


def _digest(path: str) -> str:
    try:
        source = open_canonical(path, READ_FLAGS)
    except OSError:
        return "unreadable"
    with os.fdopen(source, "rb") as file:
        if not stat.S_ISREG(os.fstat(source).st_mode):
            return "unreadable"  # it was one a moment ago
        return hashlib.file_digest(file, "sha256").hexdigest()


def _stat_entry(path: str) -> FileEntry | None:
    """Without its contents; None for what is no file, folder or link."""
    try:
        found, target = stat_no_follow(path)
        kind: Kind
        if stat.S_ISREG(found.st_mode):
            kind = "file"
        elif stat.S_ISDIR(found.st_mode):
            kind = "folder"
        elif stat.S_ISLNK(found.st_mode):
            kind = "link"
        else:
            return None
        if not is_text(path) or not is_text(target):
            return None
    except FileNotFoundError:
        return FileEntry(path=path, kind="absent")
    except OSError:
        return None
    return FileEntry(
        path=path,
        kind=kind,
        mode=stat.S_IMODE(found.st_mode),
        size=found.st_size if kind == "file" else 0,
        mtime_ns=found.st_mtime_ns,
        target=target,
    )


def _walk(paths: Sequence[str]) -> Iterator[str]:
    """Each path and all below it, folders before what they hold; links are not followed."""
    seen: set[str] = set()
    waiting = [_canonical(path) for path in reversed(paths)]
    while waiting:
        path = waiting.pop()
        if path in seen:
            continue
        try:
            facts, _ = stat_no_follow(path)
        except OSError:
            continue
        seen.add(path)
        yield path
        if stat.S_ISDIR(facts.st_mode):
            try:
                with scan_folder(path) as entries:
                    names = sorted(one.name for one in entries if one.name not in _SKIPPED)
            except OSError:
                continue
            waiting.extend(f"{path.rstrip('/')}/{name}" for name in reversed(names))


def _canonical(path: str) -> str:
    """The folder's links resolved, not the last step's."""
    where = Path(path)
    return str(Path(os.path.realpath(where.parent)) / where.name)

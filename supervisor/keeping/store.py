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

from swarm.mailbox.beneath import READ, entries_in, look, open_canonical
from swarm.mailbox.protocol.base import Value
from swarm.mailbox.protocol.requests import MOST_KEPT_BYTES, MOST_KEPT_FILES

UNKNOWN = "unknown"  # in the place of a sha256: there was a file, and there is no copy of it
_CHUNK_BYTES = 1024 * 1024
_ZEROS = bytes(_CHUNK_BYTES)
_SKIPPED = frozenset({".git"})  # commands cannot write it; git keeps its own past

Kind = Literal["file", "folder", "link", "absent"]


class Entry(Value):
    """One path as it was. `target` of a link is what it points to."""

    path: str  # absolute, its folder canonical
    kind: Kind
    mode: int = 0
    size: int = 0
    mtime_ns: int = 0
    sha256: str = ""
    target: str = ""

    def is_same_as(self, other: "Entry") -> bool:
        """Whether nothing that can be put back differs; times do not count, nor do the modes of
        folders and links.
        """
        if (self.kind, self.sha256, self.target) != (other.kind, other.sha256, other.target):
            return False
        return self.kind != "file" or self.mode == other.mode


class Taken(Value):
    """What a snapshot came to."""

    manifest: str
    files: int
    size_bytes: int
    left_out: tuple[str, ...] = ()


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(tuple[Entry, ...]).decode


class Store:
    """`folder` is made at the first use, closed to others."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def take(self, paths: Sequence[str]) -> Taken:
        """Copy these files and everything below these folders, within the bounds."""
        return self._take(_walk(paths))

    def take_exactly(self, paths: Sequence[str]) -> Taken:
        """Copy these alone, nothing below folders; what is absent is noted as absent."""
        return self._take(paths)

    def entries_of(self, paths: Sequence[str]) -> tuple[Entry, ...]:
        """What is at these paths, each with a copy; one that cannot be made is UNKNOWN."""
        found: list[Entry] = []
        for path in paths:
            real = _canonical(path)
            entry = self._keep(real, MOST_KEPT_BYTES)
            found.append(entry or Entry(path=_told(real), kind="file", sha256=UNKNOWN))
        return tuple(found)

    def keep_bytes(self, sha256: str, data: bytes) -> int:
        """Keep contents whose address is known; returns how many bytes were new to the store."""
        if self._path(sha256).exists():
            return 0
        self._write(data)
        return len(data)

    def _take(self, paths: Iterable[str]) -> Taken:
        entries: list[Entry] = []
        left_out: list[str] = []
        size = 0
        for path in paths:
            if len(entries) >= MOST_KEPT_FILES:
                left_out.append(f"more than {MOST_KEPT_FILES} files")
                break
            entry = self._keep(path, MOST_KEPT_BYTES - size)
            if entry is None:
                left_out.append(_told(path))
                continue
            size += entry.size
            entries.append(entry)
        files = sum(entry.kind in ("file", "link") for entry in entries)
        return Taken(
            manifest=self.write_manifest(entries),
            files=files,
            size_bytes=size,
            left_out=tuple(left_out[:100]),
        )

    def look(self, entries: Sequence[Entry]) -> str:
        """Keep a list of what is now where these entries were; contents are not copied."""
        return self.write_manifest([look_at(entry.path, like=entry) for entry in entries])

    def write_manifest(self, entries: Sequence[Entry]) -> str:
        """Returns its address."""
        return self._write(_encode(tuple(entries)))

    def read_manifest(self, sha256: str) -> tuple[Entry, ...]:
        """Raises OSError if it is not there, ValueError if it is not what its address says."""
        data = self._path(sha256).read_bytes()
        if hashlib.sha256(data).hexdigest() != sha256:
            raise ValueError(f"the list {sha256[:12]} of the run's store is damaged")
        return _decode(data)

    def open(self, sha256: str) -> int:
        """A descriptor to read a content from; the caller closes it. Raises OSError."""
        return os.open(self._path(sha256), os.O_RDONLY | os.O_CLOEXEC)

    def _keep(self, path: str, room_bytes: int) -> Entry | None:
        """None if it cannot be kept: too large, unreadable, or neither file, folder nor link."""
        seen = _facts(path)
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
        source = open_canonical(path, READ)
        try:
            if not stat.S_ISREG(os.fstat(source).st_mode):
                raise OSError("it is no longer a file")
            return self._copy_open(source, room_bytes)
        finally:
            os.close(source)

    def _copy_open(self, source: int, room_bytes: int) -> tuple[str, int]:
        """By chunks; what is empty takes no room on the disk."""
        self._make()
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
            self._settle(fresh, digest)
        finally:
            fresh.unlink(missing_ok=True)
        return digest, size

    def _write(self, data: bytes) -> str:
        self._make()
        digest = hashlib.sha256(data).hexdigest()
        fresh = self._folder / f"new-{os.getpid()}-list-{digest[:16]}"
        try:
            fresh.write_bytes(data)
            self._settle(fresh, digest)
        finally:
            fresh.unlink(missing_ok=True)
        return digest

    def _settle(self, fresh: Path, digest: str) -> None:
        path = self._path(digest)
        if not path.exists():
            path.parent.mkdir(mode=0o700, exist_ok=True)
            fresh.replace(path)

    def _path(self, sha256: str) -> Path:
        return self._folder / sha256[:2] / sha256

    def _make(self) -> None:
        self._folder.mkdir(mode=0o700, exist_ok=True)


def is_text(name: str) -> bool:
    """False for a name that is not UTF-8: no record can hold it."""
    return name.isascii() or not any("\ud800" <= sign <= "\udfff" for sign in name)


def look_at(path: str, *, like: Entry | None = None) -> Entry:
    """What is at this path now. A file that looks untouched since `like` is not read again."""
    seen = _facts(path) or Entry(path=path, kind="absent")
    if seen.kind != "file":
        return seen
    if like is not None and (like.size, like.mtime_ns) == (seen.size, seen.mtime_ns):
        return msgspec.structs.replace(seen, sha256=like.sha256)
    return msgspec.structs.replace(seen, sha256=_digest(path))


def _told(path: str) -> str:
    """Its words for people, whatever bytes it has."""
    return path.encode(errors="surrogateescape").decode(errors="replace")


def look_kind(path: str) -> Kind | None:
    """What kind of thing is there, unread; None for what is no file, folder or link."""
    seen = _facts(path)
    return None if seen is None else seen.kind


def _digest(path: str) -> str:
    try:
        source = open_canonical(path, READ)
    except OSError:
        return "unreadable"
    with os.fdopen(source, "rb") as file:
        if not stat.S_ISREG(os.fstat(source).st_mode):
            return "unreadable"  # it was one a moment ago
        return hashlib.file_digest(file, "sha256").hexdigest()


def _facts(path: str) -> Entry | None:
    """Without its contents; None for what is no file, folder or link."""
    try:
        found, target = look(path)
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
        return Entry(path=path, kind="absent")
    except OSError:
        return None
    return Entry(
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
            facts, _ = look(path)
        except OSError:
            continue
        seen.add(path)
        yield path
        if stat.S_ISDIR(facts.st_mode):
            try:
                with entries_in(path) as entries:
                    names = sorted(one.name for one in entries if one.name not in _SKIPPED)
            except OSError:
                continue
            waiting.extend(f"{path.rstrip('/')}/{name}" for name in reversed(names))


def _canonical(path: str) -> str:
    """The folder's links resolved, not the last step's."""
    where = Path(path)
    return str(Path(os.path.realpath(where.parent)) / where.name)

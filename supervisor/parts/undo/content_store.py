"""The run's content-addressed store of file contents and manifests (lists of file entries).

Stored contents are complete and never change; an interrupted copy leaves nothing behind. The store
does not follow links: a command that replaces a folder by a link cannot have a file copied that it
could not read. Blocks: call it in a thread.
"""

import hashlib
import os
import stat
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Literal

import msgspec

from swarm.mailbox.base.bounded_formats import decode_json_as
from swarm.mailbox.base.file_exchange import Place
from swarm.mailbox.base.path_rules import is_within
from swarm.mailbox.base.private_files import make_own_folders, open_own_file, write_own_file
from swarm.mailbox.base.safe_open import (
    NOFOLLOW_FLAGS,
    READ_FLAGS,
    open_beneath,
    open_canonical,
    scan_folder,
    stat_no_follow,
)
from swarm.mailbox.base.sparse_copy import write_sparse
from swarm.mailbox.protocol.requests import MAX_KEPT_BYTES, MAX_KEPT_FILES
from swarm.mailbox.protocol.spec import FolderMove
from swarm.mailbox.protocol.values.base import Value
from swarm.roles.config.atomic_replace import replace_file

from ...runs.folder_moves import Moves, moved

_MOVES = "moves.json"  # of the project, in the order in which they were made
UNKNOWN = "unknown"  # in place of a sha256: there was a file, but no copy of it was made
_CHUNK_BYTES = 1024 * 1024
_SKIPPED = frozenset({".git"})  # commands cannot write it; git keeps its own history

Kind = Literal["file", "folder", "link", "absent"]


class FileEntry(Value):
    """The state of one path. `target` is what a link points to."""

    path: str  # absolute; its folder's links are resolved
    kind: Kind
    mode: int = 0
    size: int = 0
    mtime_ns: int = 0
    sha256: str = ""
    target: str = ""

    def is_same_as(self, other: "FileEntry") -> bool:
        """True if equal except for times and the modes of folders and links."""
        if (self.kind, self.sha256, self.target) != (other.kind, other.sha256, other.target):
            return False
        return self.kind != "file" or self.mode == other.mode

    @property
    def state_bytes(self) -> bytes:
        """Path and state without times, for digests. Journaled ones are made of it."""
        mode = self.mode if self.kind == "file" else 0
        return msgspec.msgpack.encode((self.path, self.kind, mode, self.sha256, self.target))


class SnapshotResult(Value):
    """The result of a snapshot."""

    manifest: str
    files: int
    size_bytes: int
    left_out: tuple[str, ...] = ()


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(tuple[FileEntry, ...]).decode


class ContentStore:
    """`folder` is created at the first use, with mode 0700. Nothing in `closed` is ever copied."""

    def __init__(self, folder: Path, *, closed: tuple[str, ...] = ()) -> None:
        self._folder = folder
        self._closed = closed
        self._known_moves: Moves | None = None  # read when the first list is

    def take_snapshot(self, paths: Sequence[str]) -> SnapshotResult:
        """Copy these files and everything below these folders, within the limits."""
        return self._take(_walk(paths))

    def take_snapshot_of(self, paths: Sequence[str]) -> SnapshotResult:
        """Copy only these paths, nothing below folders; a missing path is recorded as absent."""
        return self._take(paths)

    def entries_of(self, paths: Sequence[str]) -> tuple[FileEntry, ...]:
        """The entries of these paths, with copies; a file that cannot be copied is UNKNOWN."""
        found: list[FileEntry] = []
        for path in paths:
            real = _canonical(path)
            entry = self._store_file(real, MAX_KEPT_BYTES)
            found.append(entry or FileEntry(path=_printable(real), kind="file", sha256=UNKNOWN))
        return tuple(found)

    def copy_entry(self, source: str, *, path: str, most_bytes: int) -> FileEntry | None:
        """The entry of `source`, with a copy of its contents, as if it stood at `path`.

        None if it cannot be copied: too large, closed to us, or neither file, folder nor link.
        """
        entry = self._store_file(source, most_bytes)
        return None if entry is None else msgspec.structs.replace(entry, path=path)

    def add_bytes(self, data: bytes) -> str:
        """Store contents; returns their address."""
        return self._write(data)

    def read_bytes(self, sha256: str) -> bytes:
        """All of stored contents. Raises OSError."""
        return self._path(sha256).read_bytes()

    def store_bytes(self, sha256: str, data: bytes) -> int:
        """Store contents whose address is known; returns how many bytes were new to the store."""
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
        """Store a manifest of what is now at these entries' paths; contents are not copied."""
        return self.write_manifest([read_entry(entry.path, like=entry) for entry in entries])

    def write_manifest(self, entries: Sequence[FileEntry]) -> str:
        """Returns the manifest's address."""
        return self._write(_encode(tuple(entries)))

    def read_manifest(self, sha256: str) -> tuple[FileEntry, ...]:
        """Raises OSError if it is missing, ValueError if it does not match its address."""
        data = self._path(sha256).read_bytes()
        if hashlib.sha256(data).hexdigest() != sha256:
            raise ValueError(f"the list {sha256[:12]} of the run's store is damaged")
        entries = _decode(data)
        if not self._moves():
            return entries
        return tuple(
            msgspec.structs.replace(one, path=moved(one.path, self._moves())) for one in entries
        )

    def record_moves(self, moves: Moves) -> None:
        """From now on every list is read with its paths as they are after these moves."""
        make_own_folders(self._folder)
        replace_file(self._folder / _MOVES, msgspec.json.encode(moves))

    def _moves(self) -> Moves:
        """Raises ValueError if they cannot be read: then no path of a list is the right one."""
        if self._known_moves is None:
            try:
                data = (self._folder / _MOVES).read_bytes()
            except FileNotFoundError:
                data = b"[]"
            self._known_moves = decode_json_as(data, tuple[FolderMove, ...])
        return self._known_moves

    def open(self, sha256: str) -> int:
        """A file descriptor to read stored contents from; the caller closes it. Raises OSError."""
        return os.open(self._path(sha256), os.O_RDONLY | os.O_CLOEXEC)

    def _store_file(self, path: str, room_bytes: int) -> FileEntry | None:
        """None if it cannot be copied: too large, unreadable, closed to all commands, or neither a
        file, a folder nor a link.
        """
        if any(is_within(path, one) for one in self._closed):
            return None
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
        """Copy by chunks; long runs of zeros become holes in the file."""
        fresh = self.make_folder() / f"new-{os.getpid()}-{source}"
        hasher, size = hashlib.sha256(), 0
        try:
            with os.fdopen(open_own_file(fresh), "wb", buffering=0) as file:
                while chunk := os.read(source, _CHUNK_BYTES):
                    size += len(chunk)
                    if size > room_bytes:
                        raise OSError("it grew beyond the bound")
                    hasher.update(chunk)
                    write_sparse(file.fileno(), chunk)
                file.truncate(size)
            digest = hasher.hexdigest()
            self._move_into_place(fresh, digest)
        finally:
            fresh.unlink(missing_ok=True)
        return digest, size

    def _write(self, data: bytes) -> str:
        digest = hashlib.sha256(data).hexdigest()
        own = f"{os.getpid()}-{threading.get_native_id()}"  # two threads may store the same
        fresh = self.make_folder() / f"new-{own}-{digest[:16]}"
        try:
            write_own_file(fresh, data)
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

    def make_folder(self) -> Path:
        """The store's folder, which no command sees."""
        self._folder.mkdir(mode=0o700, exist_ok=True)
        return self._folder


def is_text(name: str) -> bool:
    """False for a name that is not UTF-8: no record can hold it."""
    return name.isascii() or not any("\ud800" <= sign <= "\udfff" for sign in name)


def read_entry(path: str, *, like: FileEntry | None = None) -> FileEntry:
    """The state of this path now. A file with the size and mtime of `like` is not read again."""
    seen = _stat_entry(path) or FileEntry(path=path, kind="absent")
    if seen.kind != "file":
        return seen
    if like is not None and (like.size, like.mtime_ns) == (seen.size, seen.mtime_ns):
        return msgspec.structs.replace(seen, sha256=like.sha256)
    return msgspec.structs.replace(seen, sha256=_digest(lambda: open_canonical(path, READ_FLAGS)))


def _printable(path: str) -> str:
    """The path as printable text, whatever bytes it has."""
    return path.encode(errors="surrogateescape").decode(errors="replace")


def read_kind(path: str) -> Kind | None:
    """The kind of entry, without reading it; None if it is no file, folder or link."""
    seen = _stat_entry(path)
    return None if seen is None else seen.kind


def read_entry_at(place: Place, path: str) -> FileEntry:
    """The state of what stands at this place now, as if it stood at `path`."""
    try:
        fd = open_beneath(place.folder, place.name, NOFOLLOW_FLAGS)
    except FileNotFoundError:
        return FileEntry(path=path, kind="absent")
    try:
        facts = os.fstat(fd)
        target = os.readlink("", dir_fd=fd) if stat.S_ISLNK(facts.st_mode) else ""
    finally:
        os.close(fd)
    seen = _entry_of(path, facts, target) or FileEntry(path=path, kind="absent", target="other")
    if seen.kind != "file":
        return seen
    return msgspec.structs.replace(
        seen, sha256=_digest(lambda: open_beneath(place.folder, place.name, READ_FLAGS))
    )


def _digest(open_file: Callable[[], int]) -> str:
    try:
        source = open_file()
    except OSError:
        return "unreadable"
    with os.fdopen(source, "rb") as file:
        if not stat.S_ISREG(os.fstat(source).st_mode):
            return "unreadable"  # it was a file a moment ago
        return hashlib.file_digest(file, "sha256").hexdigest()


def _stat_entry(path: str) -> FileEntry | None:
    """The entry without its contents' hash; None if it is no file, folder or link."""
    try:
        found, target = stat_no_follow(path)
    except FileNotFoundError:
        return FileEntry(path=path, kind="absent")
    except OSError:
        return None
    return _entry_of(path, found, target)


def _entry_of(path: str, found: os.stat_result, target: str) -> FileEntry | None:
    """None if it is no file, folder or link, or its name is no text."""
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
    return FileEntry(
        path=path,
        kind=kind,
        mode=stat.S_IMODE(found.st_mode),
        size=found.st_size if kind == "file" else 0,
        mtime_ns=found.st_mtime_ns,
        target=target,
    )


def _walk(paths: Sequence[str]) -> Iterator[str]:
    """Each path and everything below it, folders before their contents; links are not followed."""
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
    """Resolve the links of the folder, not of the last component."""
    where = Path(path)
    return str(Path(os.path.realpath(where.parent)) / where.name)

"""A folder tree as messages: files, folders, links, an overlay's marks; whole, then changes.

The receiving end may be another machine's, and what it gets was written by confined code: names are
checked, nothing is followed, nothing leaves the folder, and everything is bounded. Blocks.
"""

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Literal, NamedTuple

import msgspec

from .errors import SwarmError
from .overlay_marks import NO_DEVICE, OPAQUE, is_opaque, is_whiteout
from .safe_open import FOLDER_FLAGS, READ_FLAGS, open_beneath, open_canonical

MAX_ENTRIES = 400_000
MAX_BYTES = 8 << 30  # of contents, over all messages of one tree
_PIECE_BYTES = 512 << 10  # of contents in one message
_MOST_IN_MESSAGE = 1_000  # entries
_MAX_NAME_BYTES, _MAX_DEPTH = 4096, 128
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_NAMELESS = os.O_TMPFILE | os.O_WRONLY | os.O_CLOEXEC

EntryKind = Literal["folder", "file", "link", "whiteout", "gone"]


class PackedEntry(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One entry, before its contents. Paths are bytes below the folder; `""` is the folder."""

    kind: EntryKind
    name: bytes
    mode: int = 0
    mtime_ns: int = 0
    size: int = 0
    target: bytes = b""
    opaque: bool = False  # an overlay shows nothing of the layer below in this folder


class PackedPart(msgspec.Struct, frozen=True, array_like=True):
    """A message: contents that an earlier message left out; entries; the contents of their files.

    All are as long as the entries say. Only those of the last file may go on in the next message.
    """

    entries: tuple[PackedEntry, ...] = ()
    contents: bytes = b""


class TreeRefused(SwarmError):
    """The tree cannot be taken: the message says what is wrong with it."""


class _Facts(NamedTuple):
    """By these an entry is known to be the same as before."""

    kind: str
    mode: int
    size: int
    mtime_ns: int
    ctime_ns: int
    inode: int


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(PackedPart).decode


class TreePacker:
    """Packs one folder again and again, each time only what has changed since.

    Args:
        root: A canonical folder. What cannot be read, and sockets and devices, are left out.
        keeps_gone: What is gone here stays there.
    """

    def __init__(self, root: str, *, keeps_gone: bool = False) -> None:
        self._root, self._keeps_gone = root, keeps_gone
        self._sent: dict[bytes, _Facts] = {}

    def pack(self) -> Iterator[bytes]:
        """The messages; none if nothing has changed. Raises OSError, TreeRefused for a huge tree.

        What was given counts as sent once the last message was taken.
        """
        found: dict[bytes, _Facts] = {}
        changed: list[tuple[PackedEntry, str]] = []
        for entry, facts, path in self._walk():
            found[entry.name] = facts
            if self._sent.get(entry.name) != facts:
                changed.append((entry, path))
        gone = sorted(self._sent.keys() - found.keys(), reverse=True)  # what lies in it goes first
        waiting = [] if self._keeps_gone else [PackedEntry("gone", name) for name in gone]
        contents = bytearray()
        for entry, path in changed:
            waiting.append(entry)
            if entry.kind == "file" and entry.size:
                for piece in _pieces(path, entry.size):
                    contents += piece
                    if len(contents) >= _PIECE_BYTES:
                        yield _encode(PackedPart(tuple(waiting), bytes(contents)))
                        waiting.clear()
                        contents.clear()
            if len(waiting) >= _MOST_IN_MESSAGE:
                yield _encode(PackedPart(tuple(waiting), bytes(contents)))
                waiting.clear()
                contents.clear()
        if waiting or contents:
            yield _encode(PackedPart(tuple(waiting), bytes(contents)))
        self._sent = found

    def skip_present(self) -> None:
        """Take what is there now for sent. Raises OSError, TreeRefused."""
        self._sent = {entry.name: facts for entry, facts, _ in self._walk()}

    def _walk(self) -> Iterator[tuple[PackedEntry, _Facts, str]]:
        top = Path(self._root).stat()
        yield self._entry(b"", top, self._root), _facts("folder", top), self._root
        folders, count = [(b"", self._root)], 0
        while folders:
            above, path = folders.pop()
            if above.count(b"/") >= _MAX_DEPTH:
                continue
            try:
                with os.scandir(path) as inside:
                    names = sorted(one.name for one in inside)
            except OSError:
                continue
            for name in names:
                below = f"{path}/{name}"
                try:
                    facts = os.lstat(below)
                except OSError:
                    continue
                raw = os.fsencode(name)
                entry = self._entry(above + b"/" + raw if above else raw, facts, below)
                if entry.kind == "gone" or len(entry.name) > _MAX_NAME_BYTES:
                    continue
                count += 1
                if count > MAX_ENTRIES:
                    raise TreeRefused(f"{self._root} holds more than {MAX_ENTRIES:,} entries")
                yield entry, _facts(entry.kind, facts), below
                if entry.kind == "folder":
                    folders.append((entry.name, below))

    def _entry(self, name: bytes, facts: os.stat_result, path: str) -> PackedEntry:
        mode, kind = stat.S_IMODE(facts.st_mode), _kind_of(facts)
        match kind:
            case "file":
                return PackedEntry(kind, name, mode, facts.st_mtime_ns, facts.st_size)
            case "folder":
                return PackedEntry(kind, name, mode, opaque=is_opaque(path))
            case "link":
                with suppress(OSError):
                    return PackedEntry(kind, name, target=os.fsencode(Path(path).readlink()))
                return PackedEntry("gone", name)
            case _:
                return PackedEntry(kind, name)


def _pieces(path: str, size: int) -> Iterator[bytes]:
    """The contents of a file, exactly of this size."""
    try:
        fd = open_canonical(path, READ_FLAGS)
    except OSError:
        fd = -1
    left = size
    try:
        while left:
            piece = b"" if fd < 0 else os.read(fd, min(_PIECE_BYTES, left))
            piece = piece or bytes(min(_PIECE_BYTES, left))  # it has shrunk since it was listed
            left -= len(piece)
            yield piece
    finally:
        if fd >= 0:
            os.close(fd)


def _kind_of(facts: os.stat_result) -> EntryKind:
    mode = facts.st_mode
    if stat.S_ISREG(mode):
        return "file"
    if stat.S_ISDIR(mode):
        return "folder"
    if stat.S_ISLNK(mode):
        return "link"
    return "whiteout" if is_whiteout(facts) else "gone"


def _facts(kind: str, found: os.stat_result) -> _Facts:
    if kind == "folder":  # its times change with what lies in it
        return _Facts(kind, found.st_mode, 0, 0, 0, found.st_ino)
    return _Facts(
        kind, found.st_mode, found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino
    )


class _ComingFile(NamedTuple):
    """A file whose contents still come. It gets its name once it is whole, where that can be."""

    fd: int
    folder: int  # where it will be; open
    name: str
    entry: PackedEntry
    is_named: bool  # the file system has no files without a name

    def finish(self) -> None:
        """All contents are there: give it its mode, its time and its name. Raises OSError."""
        os.fchmod(self.fd, self.entry.mode & 0o777)
        os.utime(self.fd, ns=(self.entry.mtime_ns, self.entry.mtime_ns))
        if not self.is_named:
            _remove(self.folder, self.name)
            os.link(f"/proc/self/fd/{self.fd}", self.name, dst_dir_fd=self.folder)

    def close(self) -> None:
        os.close(self.fd)
        os.close(self.folder)


def _open_coming(folder: int, name: str, entry: PackedEntry, *, is_new: bool) -> _ComingFile:
    """Raises OSError."""
    if not is_new:
        try:
            fd = os.open(".", _NAMELESS, 0o600, dir_fd=folder)
            return _ComingFile(fd, os.dup(folder), name, entry, is_named=False)
        except OSError as error:
            if error.errno not in (errno.EOPNOTSUPP, errno.EISDIR):
                raise
    _remove(folder, name)
    fd = os.open(name, _CREATE, 0o600, dir_fd=folder)
    return _ComingFile(fd, os.dup(folder), name, entry, is_named=True)


class TreeUnpacker:
    """Writes the messages of a packer into one folder. Use it as a context manager.

    A file is there whole or as it was before, also if its last message never comes.

    Args:
        root: A canonical folder of ours that nobody else can write to.
        is_new: Nobody uses it before all of it is there: files need not be whole at once.

    Raises:
        OSError: the folder cannot be opened.
    """

    def __init__(self, root: str, *, is_new: bool = False) -> None:
        self._root, self._is_new = open_canonical(root, FOLDER_FLAGS), is_new
        self._coming: _ComingFile | None = None
        self._left = 0  # bytes of it that are missing
        self._entries = self._bytes = 0

    def __enter__(self) -> "TreeUnpacker":
        return self

    def __exit__(self, *_: object) -> None:
        if self._coming is not None:
            self._coming.close()
        os.close(self._root)

    def take(self, message: bytes) -> None:
        """Write what one message holds. Raises TreeRefused, OSError."""
        try:
            part = _decode(message)
        except msgspec.DecodeError as error:
            raise TreeRefused(f"a part of the tree cannot be read: {error}") from error
        self._entries += len(part.entries)
        self._bytes += len(part.contents)
        if self._entries > 2 * MAX_ENTRIES or self._bytes > MAX_BYTES:
            raise TreeRefused("the tree is larger than any that is sent")
        left = self._add(memoryview(part.contents))
        for entry in part.entries:
            if self._left:
                raise TreeRefused("an entry came where contents of a file had to come")
            self._make(entry)
            left = self._add(left)
        if left:
            raise TreeRefused("contents came that belong to no file")

    def _make(self, entry: PackedEntry) -> None:
        _check_name(entry)
        if not entry.name:
            os.fchmod(self._root, entry.mode & 0o777 | 0o700)
            return
        above, _, last = entry.name.rpartition(b"/")
        folder = open_beneath(self._root, os.fsdecode(above) or ".", FOLDER_FLAGS)
        try:
            self._make_in(folder, os.fsdecode(last), entry)
        finally:
            os.close(folder)

    def _make_in(self, folder: int, name: str, entry: PackedEntry) -> None:
        stays = entry.kind == "file" or (entry.kind == "folder" and _is_folder(folder, name))
        if not stays:
            _remove(folder, name)
        match entry.kind:
            case "folder":
                with suppress(FileExistsError):
                    os.mkdir(name, 0o700, dir_fd=folder)
                _set_folder(folder, name, entry)
            case "link":
                os.symlink(entry.target, name, dir_fd=folder)
            case "whiteout":
                os.mknod(name, stat.S_IFCHR, NO_DEVICE, dir_fd=folder)
            case "file":
                self._left = entry.size
                self._coming = _open_coming(folder, name, entry, is_new=self._is_new)
                self._finish_if_whole()
            case "gone":
                return

    def _add(self, contents: memoryview) -> memoryview:
        """Write what is missing of the file that comes; returns the rest."""
        mine, rest = contents[: self._left], contents[self._left :]
        if self._coming is not None and mine:
            self._left -= len(mine)
            while mine:
                mine = mine[os.write(self._coming.fd, mine) :]
            self._finish_if_whole()
        return rest

    def _finish_if_whole(self) -> None:
        if self._left or self._coming is None:
            return
        coming, self._coming = self._coming, None
        try:
            coming.finish()
        finally:
            coming.close()


def _check_name(entry: PackedEntry) -> None:
    """Raises TreeRefused."""
    steps = entry.name.split(b"/") if entry.name else []
    is_odd = any(step in (b"", b".", b"..") or b"\0" in step for step in steps)
    if is_odd or len(entry.name) > _MAX_NAME_BYTES or len(steps) > _MAX_DEPTH + 1:
        raise TreeRefused(f"the tree holds a name that is none: {entry.name[:80]!r}")
    if not 0 <= entry.size <= MAX_BYTES or b"\0" in entry.target:
        raise TreeRefused(f"an entry of the tree cannot be: {entry.name[:80]!r}")
    if not entry.name and entry.kind != "folder":
        raise TreeRefused("the tree is no folder")


def _set_folder(above: int, name: str, entry: PackedEntry) -> None:
    fd = open_beneath(above, name, FOLDER_FLAGS)
    try:
        os.fchmod(fd, entry.mode & 0o777 | 0o700)  # else nothing could be written in it
        if entry.opaque:
            os.setxattr(fd, OPAQUE, b"y")
        else:
            with suppress(OSError):
                os.removexattr(fd, OPAQUE)
    finally:
        os.close(fd)


def _is_folder(above: int, name: str) -> bool:
    try:
        return stat.S_ISDIR(os.stat(name, dir_fd=above, follow_symlinks=False).st_mode)
    except OSError:
        return False


def _remove(above: int, name: str) -> None:
    """Remove an entry of any kind, with all that lies in a folder."""
    try:
        os.unlink(name, dir_fd=above)
    except FileNotFoundError:
        return
    except OSError as error:
        if error.errno not in (errno.EISDIR, errno.EPERM):
            raise
        fd = open_beneath(above, name, FOLDER_FLAGS)
        try:
            with os.scandir(fd) as found:
                names = [one.name for one in found]
            for one in names:
                _remove(fd, one)
        finally:
            os.close(fd)
        os.rmdir(name, dir_fd=above)

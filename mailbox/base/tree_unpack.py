"""Writes the messages of a packed tree into a folder, or as a layer over a folder that is there.

They may come from another machine, and what they hold was written by confined code: names are
checked, nothing is followed, nothing leaves the folder, and everything is bounded. Blocks.
"""

import errno
import os
import stat
from contextlib import suppress
from typing import NamedTuple

import msgspec

from .overlay_marks import NO_DEVICE, OPAQUE
from .safe_open import FOLDER_FLAGS, open_beneath, open_canonical
from .sparse_copy import write_sparse
from .tree_pack import (
    MAX_BYTES,
    MAX_DEPTH,
    MAX_ENTRIES,
    MAX_NAME_BYTES,
    PackedEntry,
    PackedPart,
    TreeRefused,
    decode_part,
)

_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_NAMELESS = os.O_TMPFILE | os.O_WRONLY | os.O_CLOEXEC


class _ComingFile(NamedTuple):
    """A file whose contents still come. It gets its name once it is whole, where that can be."""

    fd: int
    folder: int  # where it gets its name once it is whole; open. -1: it has it
    name: str
    entry: PackedEntry

    def finish(self) -> None:
        """All contents are there: give it its mode, its time and its name. Raises OSError."""
        os.ftruncate(self.fd, self.entry.size)  # it may end with a hole
        os.fchmod(self.fd, self.entry.mode & 0o777)
        os.utime(self.fd, ns=(self.entry.mtime_ns, self.entry.mtime_ns))
        if self.folder >= 0:
            _remove(self.folder, self.name)
            os.link(f"/proc/self/fd/{self.fd}", self.name, dst_dir_fd=self.folder)

    def close(self) -> None:
        os.close(self.fd)
        if self.folder >= 0:
            os.close(self.folder)


def _open_coming(folder: int, name: str, entry: PackedEntry, *, is_new: bool) -> _ComingFile:
    """Raises OSError."""
    if not is_new:
        try:
            fd = os.open(".", _NAMELESS, 0o600, dir_fd=folder)
            return _ComingFile(fd, os.dup(folder), name, entry)
        except OSError as error:
            if error.errno not in (errno.EOPNOTSUPP, errno.EISDIR):
                raise  # else the file system has no files without a name
    try:
        fd = os.open(name, _CREATE, 0o600, dir_fd=folder)
    except FileExistsError:
        _remove(folder, name)
        fd = os.open(name, _CREATE, 0o600, dir_fd=folder)
    return _ComingFile(fd, -1, name, entry)


class TreeUnpacker:
    """Writes the messages of a packer into one folder. Use it as a context manager.

    A file is there whole or as it was before, also if its last message never comes.

    Args:
        root: A canonical folder of ours that nobody else can write to.
        is_new: Nobody uses it before all of it is there: files need not be whole at once.
        is_tree: What comes is a layer, and the folder what lies below it: marks take effect.

    Raises:
        OSError: the folder cannot be opened.
    """

    def __init__(self, root: str, *, is_new: bool = False, is_tree: bool = False) -> None:
        self._root, self._is_new = open_canonical(root, FOLDER_FLAGS), is_new
        self._is_tree = is_tree
        self._coming: _ComingFile | None = None
        self._left = 0  # bytes of it that are missing
        self._above: tuple[bytes, int] | None = None  # the folder of the last file; open
        self._entries = self._bytes = 0

    def __enter__(self) -> "TreeUnpacker":
        return self

    def __exit__(self, *_: object) -> None:
        if self._coming is not None:
            self._coming.close()
        os.close(self._root)

    def end_round(self) -> None:
        """All that was to come has come: the bounds count anew."""
        self._entries = self._bytes = 0

    def take(self, message: bytes) -> None:
        """Write what one message holds. Raises TreeRefused, OSError."""
        try:
            part = decode_part(message)
        except msgspec.DecodeError as error:
            raise TreeRefused(f"a part of the tree cannot be read: {error}") from error
        self._entries += len(part.entries)
        self._bytes += len(part.contents)
        if self._entries > 2 * MAX_ENTRIES or self._bytes > MAX_BYTES:
            raise TreeRefused("the tree is larger than any that is sent")
        try:
            self._write(part)
        finally:
            self._leave_folder()

    def _write(self, part: PackedPart) -> None:
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
        self._make_in(self._enter_folder(above), os.fsdecode(last), entry)
        if entry.kind != "file":
            self._leave_folder()  # it may be another one by now

    def _enter_folder(self, above: bytes) -> int:
        """Files of one folder come one after the other."""
        if self._above is None or self._above[0] != above:
            self._leave_folder()
            fd = open_beneath(self._root, os.fsdecode(above) or ".", FOLDER_FLAGS)
            self._above = (above, fd)
        return self._above[1]

    def _leave_folder(self) -> None:
        if self._above is not None:
            os.close(self._above[1])
            self._above = None

    def _make_in(self, folder: int, name: str, entry: PackedEntry) -> None:
        hides = self._is_tree and entry.opaque
        is_same = entry.kind == "folder" and not hides and _is_folder(folder, name)
        if entry.kind != "file" and not is_same:
            _remove(folder, name)
        match entry.kind:
            case "folder":
                with suppress(FileExistsError):
                    os.mkdir(name, 0o700, dir_fd=folder)
                _set_folder(folder, name, entry, is_marked=not self._is_tree)
            case "link":
                os.symlink(entry.target, name, dir_fd=folder)
            case "whiteout" if not self._is_tree:
                os.mknod(name, stat.S_IFCHR, NO_DEVICE, dir_fd=folder)
            case "file":
                self._left = entry.size
                self._coming = _open_coming(folder, name, entry, is_new=self._is_new)
                self._finish_if_whole()
            case "whiteout" | "gone":
                return

    def _add(self, contents: memoryview) -> memoryview:
        """Write what is missing of the file that comes; returns the rest."""
        mine, rest = contents[: self._left], contents[self._left :]
        if self._coming is not None and mine:
            self._left -= len(mine)
            write_sparse(self._coming.fd, bytes(mine))
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
    if is_odd or len(entry.name) > MAX_NAME_BYTES or len(steps) > MAX_DEPTH + 1:
        raise TreeRefused(f"the tree holds a name that cannot be a file's: {entry.name[:80]!r}")
    if not 0 <= entry.size <= MAX_BYTES or b"\0" in entry.target:
        raise TreeRefused(f"an entry of the tree cannot be: {entry.name[:80]!r}")
    if not entry.name and entry.kind != "folder":
        raise TreeRefused("the tree is not a folder")


def _set_folder(above: int, name: str, entry: PackedEntry, *, is_marked: bool) -> None:
    fd = open_beneath(above, name, FOLDER_FLAGS)
    try:
        os.fchmod(fd, entry.mode & 0o777 | 0o700)  # else nothing could be written in it
        if entry.opaque and is_marked:
            os.setxattr(fd, OPAQUE, b"y")
        elif is_marked:
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

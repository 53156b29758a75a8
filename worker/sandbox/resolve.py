"""From a path that a command names to an open folder and a name in it.

Guards: the walk is made once, and all that follows is done on the descriptor, so no link or rename
in between leads elsewhere. Links of `/proc` lead to what only the caller has: no walk follows them.
"""

import ctypes
import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

_OPENAT2, _NO_MAGIC_LINKS, _NO_LINKS, _IN_ROOT = 437, 2, 4, 0x10
_HERE = -100  # AT_FDCWD
_FOLDER = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC

_libc = ctypes.CDLL(None, use_errno=True)


class _OpenHow(ctypes.Structure):
    _fields_ = (
        ("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64),
    )  # fmt: skip


_HOW = _OpenHow(_FOLDER, 0, _NO_MAGIC_LINKS)
_UNLINKED = _OpenHow(_FOLDER, 0, _NO_LINKS)
_IN_VIEW = _OpenHow(_FOLDER, 0, _NO_MAGIC_LINKS | _IN_ROOT)


class Place(NamedTuple):
    """A name in a folder that is held open, whose own way may change meanwhile."""

    folder: int
    name: bytes  # one step; slashes at its end are kept, they mean something to the kernel
    path: str  # canonical

    @property
    def is_folder(self) -> bool:
        """The caller said it must be one, by a slash."""
        return self.name.endswith(b"/")


class NotResolved(Exception):
    """The walk ends somewhere only the kernel can say more about."""


@contextmanager
def open_base(pid: int, descriptor: int, path: bytes) -> Iterator[int]:
    """The folder from which a caller's relative path counts. Raises NotResolved."""
    if path.startswith(b"/"):
        yield _HERE
        return
    number = descriptor - (1 << 32) if descriptor >= 1 << 31 else descriptor
    source = f"/proc/{pid}/cwd" if number == _HERE else f"/proc/{pid}/fd/{number}"
    try:
        fd = os.open(source, _FOLDER)
    except OSError as error:
        raise NotResolved from error
    try:
        yield fd
    finally:
        os.close(fd)


@contextmanager
def open_place(base: int, path: bytes) -> Iterator[Place]:
    """The folder of the path's last step, links on the way followed. Raises NotResolved."""
    bare = path.rstrip(b"/")
    head, slash, name = bare.rpartition(b"/")
    if name in (b"", b".", b".."):
        raise NotResolved
    with open_folder(base, head or slash or b".") as folder:
        where = place_of(folder)
        yield Place(folder, name + path[len(bare) :], _joined(where, name))


@contextmanager
def open_folder(base: int, path: bytes, how: _OpenHow = _HOW) -> Iterator[int]:
    """Raises NotResolved."""
    fd = int(_libc.syscall(_OPENAT2, base, path, ctypes.byref(how), ctypes.sizeof(how)))
    if fd < 0:
        number = ctypes.get_errno()
        raise NotResolved from OSError(number, os.strerror(number))
    try:
        yield fd
    finally:
        os.close(fd)


@contextmanager
def in_view(pid: int, descriptor: int, path: bytes) -> Iterator[Place]:
    """As `open_place`, where the caller may have mounts of its own. Raises NotResolved."""
    with open_base(pid, descriptor, path) as base:
        whole = path if base == _HERE else os.fsencode(place_of(base)) + b"/" + path
    bare = whole.rstrip(b"/")
    head, _, name = bare.rpartition(b"/")
    if name in (b"", b".", b".."):
        raise NotResolved
    try:
        root = os.open(f"/proc/{pid}/root", _FOLDER)
    except OSError as error:
        raise NotResolved from error
    try:
        with open_folder(root, head or b"/", _IN_VIEW) as folder:
            yield Place(folder, name + whole[len(bare) :], _joined(place_of(folder), name))
    finally:
        os.close(root)


@contextmanager
def open_unlinked(path: str) -> Iterator[int]:
    """A folder in our own view, no link on the way. Raises NotResolved."""
    with open_folder(_HERE, os.fsencode(path), _UNLINKED) as fd:
        yield fd


def place_of(fd: int) -> str:
    """Where an open object is now. Raises NotResolved: its way is too long to be told."""
    try:
        return os.readlink(f"/proc/self/fd/{fd}")  # noqa: PTH115
    except OSError as error:
        if error.errno == errno.ENOENT:
            raise
        raise NotResolved from error


def _joined(folder: str, name: bytes) -> str:
    return f"{folder.rstrip('/')}/{os.fsdecode(name)}"

"""Resolves a path that a command names to an open folder and a name in it.

The path is walked once, and everything after works on the descriptor, so no link or rename in
between leads elsewhere. Magic links of `/proc` lead to what only the caller has: no walk follows
them.
"""

import ctypes
import errno
import os
import platform
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

_OPENAT2, _NO_MAGIC_LINKS, _NO_LINKS, _IN_ROOT = 437, 2, 4, 0x10
_AT_FDCWD = -100  # AT_FDCWD
_FOLDER = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC

_libc = ctypes.CDLL(None, use_errno=True)


class _OpenHow(ctypes.Structure):
    _fields_ = (
        ("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64),
    )  # fmt: skip


_HOW = _OpenHow(_FOLDER, 0, _NO_MAGIC_LINKS)
_UNLINKED = _OpenHow(_FOLDER, 0, _NO_LINKS)
_IN_VIEW = _OpenHow(_FOLDER, 0, _NO_MAGIC_LINKS | _IN_ROOT)


class ResolvedEntry(NamedTuple):
    """A name in a folder that is held open; the folder's own path may change meanwhile."""

    folder: int
    name: bytes  # one step; trailing slashes are kept, the kernel interprets them
    path: str  # canonical

    @property
    def is_folder(self) -> bool:
        """True if the caller said by a trailing slash that it must be a folder."""
        return self.name.endswith(b"/")


class NotResolved(Exception):
    """The walk ends where only the kernel can decide."""


@contextmanager
def open_base(pid: int, descriptor: int, path: bytes) -> Iterator[int]:
    """The folder to which a caller's path is relative. Raises NotResolved."""
    if path.startswith(b"/"):
        yield _AT_FDCWD
        return
    number = descriptor - (1 << 32) if descriptor >= 1 << 31 else descriptor
    source = f"/proc/{pid}/cwd" if number == _AT_FDCWD else f"/proc/{pid}/fd/{number}"
    try:
        fd = os.open(source, _FOLDER)
    except OSError as error:
        raise NotResolved from error
    try:
        yield fd
    finally:
        os.close(fd)


@contextmanager
def open_entry(base: int, path: bytes) -> Iterator[ResolvedEntry]:
    """The folder of the path's last step; links on the way are followed. Raises NotResolved."""
    bare = path.rstrip(b"/")
    head, slash, name = bare.rpartition(b"/")
    if name in (b"", b".", b".."):
        raise NotResolved
    with open_folder(base, head or slash or b".") as folder:
        where = path_of_fd(folder)
        yield ResolvedEntry(folder, name + path[len(bare) :], _joined(where, name))


@contextmanager
def open_folder(base: int, path: bytes, how: _OpenHow = _HOW) -> Iterator[int]:
    """Open a folder by openat2. Raises NotResolved."""
    fd = int(_libc.syscall(_OPENAT2, base, path, ctypes.byref(how), ctypes.sizeof(how)))
    if fd < 0:
        number = ctypes.get_errno()
        raise NotResolved from OSError(number, os.strerror(number))
    try:
        yield fd
    finally:
        os.close(fd)


@contextmanager
def open_entry_as_caller(pid: int, descriptor: int, path: bytes) -> Iterator[ResolvedEntry]:
    """As `open_entry`, where the caller may have its own mounts. Raises NotResolved."""
    with open_base(pid, descriptor, path) as base:
        whole = path if base == _AT_FDCWD else os.fsencode(path_of_fd(base)) + b"/" + path
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
            yield ResolvedEntry(
                folder, name + whole[len(bare) :], _joined(path_of_fd(folder), name)
            )
    finally:
        os.close(root)


@contextmanager
def open_without_links(path: str) -> Iterator[int]:
    """A folder in our own view, with no link on the way. Raises NotResolved."""
    with open_folder(_AT_FDCWD, os.fsencode(path), _UNLINKED) as fd:
        yield fd


def path_of_fd(fd: int) -> str:
    """The present path of an open object. Raises NotResolved if it is too long."""
    try:
        return os.readlink(f"/proc/self/fd/{fd}")  # noqa: PTH115
    except OSError as error:
        if error.errno == errno.ENOENT:
            raise
        raise NotResolved from error


def _joined(folder: str, name: bytes) -> str:
    return f"{folder.rstrip('/')}/{os.fsdecode(name)}"


_NUMBERS = {"x86_64": 316, "aarch64": 276}


def rename_entry(source: ResolvedEntry, target: ResolvedEntry, flags: int) -> None:
    """Rename an entry. Raises OSError as the kernel does."""
    number = _NUMBERS[platform.machine()]
    done = _libc.syscall(
        number, source.folder, source.name, target.folder, target.name, ctypes.c_uint(flags)
    )
    if done < 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))

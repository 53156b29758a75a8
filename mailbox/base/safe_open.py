"""Safe file access: for paths that another process can change between check and use.

After a path was checked, a command can put a link, a FIFO or a device in its place. So links are
resolved first, the resulting path is checked, and exactly that path is opened, following no link
(openat2). Only regular files are read, without waiting and up to a limit. Files are written in a
folder that is held open, and put in place by a rename.

Blocks; every failure is an OSError. On a kernel without openat2 (before 5.6), or with a filter that
refuses it, the path is opened segment by segment, with the same effect.
"""

import ctypes
import errno
import os
import secrets
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache, lru_cache
from pathlib import Path
from typing import IO

from .path_rules import PROTECTED_NAMES

READ_FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC  # do not wait for a FIFO
FOLDER_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
PATH_FLAGS = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC
NOFOLLOW_FLAGS = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC  # opens a link itself
_CREATE_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_OPENAT2_NUMBER = 437  # the same on every architecture
_RESOLVE_NO_MAGICLINKS, _RESOLVE_NO_SYMLINKS = (
    0x02,
    0x04,
)  # RESOLVE_NO_MAGICLINKS, RESOLVE_NO_SYMLINKS
_RESOLVE_BENEATH = 0x08
_CHUNK_BYTES = 1 << 20
_MAX_NAME_CHARS = 200  # of a name used in a temporary one; the kernel's limit is 255 bytes

IsAllowed = Callable[[str], bool]  # called with a canonical path


class _OpenHow(ctypes.Structure):
    _fields_ = (
        ("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64),
    )  # fmt: skip


_libc = ctypes.CDLL(None, use_errno=True)
_syscall = _libc.syscall
_HOW_BYTES = ctypes.sizeof(_OpenHow)


def open_canonical(path: str, flags: int, mode: int = 0) -> int:
    """Open an absolute path; no segment may be a link. Raises OSError (ELOOP for a link)."""
    return _open(_AT_CWD, path, flags, mode, _RESOLVE_NO_SYMLINKS | _RESOLVE_NO_MAGICLINKS)


def open_beneath(folder: int, path: str, flags: int, mode: int = 0) -> int:
    """As `open_canonical`, for a path relative to an open folder that it cannot leave."""
    return _open(
        folder, path, flags, mode, _RESOLVE_NO_SYMLINKS | _RESOLVE_NO_MAGICLINKS | _RESOLVE_BENEATH
    )


def open_if_allowed(path: str | Path, may: IsAllowed, flags: int = READ_FLAGS) -> int:
    """Resolve links, check the resulting path with `may`, and open exactly that path.

    Raises PermissionError if `may` returns False, OSError (ELOOP) if a link appeared meanwhile.
    """
    real = resolve_links(path)
    if not may(real):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
    return open_canonical(real, flags)


def resolve_links(path: str | Path) -> str:
    """The path with all links resolved. Raises OSError, also for text that is no path."""
    try:
        return os.path.realpath(path)
    except ValueError as error:  # a NUL byte
        raise OSError(errno.EINVAL, "it is not a path") from error


def open_user_file(path: str | Path) -> int:
    """Open a regular file that a person named; links are followed. Raises OSError."""
    try:
        return require_regular_file(os.open(path, READ_FLAGS))
    except ValueError as error:
        raise OSError(errno.EINVAL, "it is not a path") from error


def require_regular_file(fd: int) -> int:
    """Return the descriptor of a regular file; close any other and raise OSError."""
    kind = os.fstat(fd).st_mode
    if stat.S_ISREG(kind):
        return fd
    os.close(fd)
    if stat.S_ISDIR(kind):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    raise OSError(errno.EINVAL, "it is not a regular file")


def read_whole(fd: int, *, most_bytes: int) -> bytes:
    """Read all of a regular file and close it.

    Raises OSError; EFBIG if it is larger than `most_bytes`, also if it grows meanwhile.
    """
    data = read_start(fd, most_bytes=most_bytes + 1)
    if len(data) > most_bytes:
        raise OSError(errno.EFBIG, f"it is over {_format_size(most_bytes)}")
    return data


def read_start(fd: int, *, most_bytes: int) -> bytes:
    """Read the first bytes of a regular file and close it. Raises OSError."""
    with os.fdopen(require_regular_file(fd), "rb", buffering=0) as file:
        parts: list[bytes] = []
        left = most_bytes
        while left > 0 and (part := file.read(min(left, _CHUNK_BYTES))):
            parts.append(part)
            left -= len(part)
    return b"".join(parts)


def read_user_file(path: str | Path, *, most_bytes: int) -> bytes:
    """Read all of a file that a person named. Raises OSError."""
    return read_whole(open_user_file(path), most_bytes=most_bytes)


def stat_no_follow(path: str) -> tuple[os.stat_result, str]:
    """The stat result at a canonical path, and a link's target.

    Raises OSError; FileNotFoundError if a parent folder is a link.
    """
    try:
        fd = open_canonical(path, NOFOLLOW_FLAGS)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENOTDIR):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path) from error
        raise
    try:
        facts = os.fstat(fd)
        is_link = stat.S_ISLNK(facts.st_mode)
        return facts, os.readlink("", dir_fd=fd) if is_link else ""
    finally:
        os.close(fd)


def exists_no_follow(path: str) -> bool:
    """True if a file exists at a canonical path; a path through a link does not exist."""
    try:
        stat_no_follow(path)
    except OSError:
        return False
    return True


@contextmanager
def scan_folder(path: str) -> Iterator[Iterator[os.DirEntry[str]]]:
    """The entries of a folder at a canonical path. Their `path` is their name. Raises OSError."""
    fd = open_canonical(path, FOLDER_FLAGS)
    try:
        with os.scandir(fd) as entries:
            yield entries
    finally:
        os.close(fd)


class OpenFolder:
    """A folder held open from the moment of the check. The caller closes it."""

    def __init__(self, path: str) -> None:
        """`path` is canonical. Raises OSError."""
        self._fd = open_canonical(path, PATH_FLAGS)

    @property
    def path(self) -> str:
        """The folder's current path: a command may have moved it."""
        return os.readlink(f"/proc/self/fd/{self._fd}")  # noqa: PTH115  bytes stay bytes

    def replace(self, name: str, write: Callable[[IO[bytes]], None], *, mode: int = 0o666) -> None:
        """Write a file in the folder, atomically. Raises OSError, also for a protected name."""
        check_file_name(name)
        fresh = f".{name[:_MAX_NAME_CHARS]}.{secrets.token_hex(4)}"
        fd = os.open(fresh, _CREATE_FLAGS, mode, dir_fd=self._fd)
        try:
            with os.fdopen(fd, "wb") as file:
                write(file)
            os.rename(fresh, name, src_dir_fd=self._fd, dst_dir_fd=self._fd)
        except BaseException:
            with suppress(OSError):
                os.unlink(fresh, dir_fd=self._fd)
            raise

    def close(self) -> None:
        """Close the folder; may be called twice."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def check_file_name(name: str) -> None:
    """Raises OSError for text that is no single file name, and for a protected name."""
    if name in {"", ".", ".."} or "/" in name or "\0" in name:
        raise OSError(errno.EINVAL, "it is not a name of a file")
    if name in PROTECTED_NAMES:
        raise PermissionError(errno.EACCES, f"{name} is protected")


def _format_size(size: int) -> str:
    return f"{size >> 20} MiB" if size >> 20 else f"{size >> 10} KiB" if size >> 10 else f"{size} B"


# --- the system call ---------------------------------------------------------------------------

_AT_CWD = -100


def _open(folder: int, path: str, flags: int, mode: int, resolve: int) -> int:
    if "\0" in path:
        raise OSError(errno.EINVAL, "it is not a path")
    if not _has_openat2():
        return _open_stepwise(folder, path, flags, mode)
    how = ctypes.byref(_open_how(flags, mode, resolve))
    while (fd := _syscall(_OPENAT2_NUMBER, folder, os.fsencode(path), how, _HOW_BYTES)) < 0:
        number = ctypes.get_errno()
        if number != errno.EINTR:
            raise OSError(number, os.strerror(number), path)
    return int(fd)


@lru_cache(maxsize=64)
def _open_how(flags: int, mode: int, resolve: int) -> _OpenHow:
    """Cached: the kernel only reads the struct, so equal calls share one."""
    return _OpenHow(flags, mode, resolve)


@cache
def _has_openat2() -> bool:
    fd = int(
        _syscall(
            _OPENAT2_NUMBER, _AT_CWD, b"/", ctypes.byref(_open_how(PATH_FLAGS, 0, 0)), _HOW_BYTES
        )
    )
    if fd >= 0:
        os.close(fd)
    return fd >= 0


def _open_stepwise(folder: int, path: str, flags: int, mode: int) -> int:
    """Open without openat2. A link as last segment is refused, unless it is to be opened itself."""
    is_absolute = path.startswith("/")
    steps = [step for step in path.split("/") if step not in {"", "."}]
    if ".." in steps or (is_absolute and folder != _AT_CWD):
        raise OSError(errno.EXDEV, os.strerror(errno.EXDEV), path)
    here = os.open("/" if is_absolute else ".", PATH_FLAGS, dir_fd=None if is_absolute else folder)
    try:
        for step in steps[:-1]:
            below = os.open(step, PATH_FLAGS | os.O_NOFOLLOW, dir_fd=here)
            os.close(here)
            here = below
        last = steps[-1] if steps else "."
        return os.open(last, flags | os.O_NOFOLLOW, mode, dir_fd=here)
    finally:
        os.close(here)

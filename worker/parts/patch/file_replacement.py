"""Replaces or removes a file safely against symlinks that change meanwhile.

The path is resolved first, and the caller's `may_write` judges the resolved path. Then every folder
of it is opened by descriptor without following links. A link that appears in between makes the
write fail instead of landing elsewhere. Contents change by an exchange of names: a reader sees the
old file or the new one, and what came out is looked at. A file with several names, one that is a
mount, and one in a folder that is closed are written in place (`mailbox.file_exchange`).
"""

import contextlib
import errno
import os
import secrets
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

from swarm.mailbox.base.file_exchange import (
    ChangedMeanwhile,
    Place,
    has_other_names,
    is_bound,
    keep_attributes,
    put_away,
    put_new,
    put_over,
    write_in_place,
)
from swarm.mailbox.base.safe_open import (
    PATH_FLAGS,
    READ_FLAGS,
    IsAllowed,
    open_beneath,
    open_canonical,
    open_if_allowed,
)

from .verify import FileConflict, PatchFailed, describe_os_error, digest_of

MayWrite = Callable[[Path], bool]  # called with every symlink resolved
MAX_FILE_BYTES = 32 * 1024 * 1024
_CREATE_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_CLOSED_FOLDER = (errno.EACCES, errno.EPERM, errno.EROFS)  # the file itself may be written


def read_file(path: Path, may_read: IsAllowed = lambda real: True) -> bytes:
    """The bytes of a regular file of at most 32 MiB. Raises OSError.

    `may_read` judges the resolved path; a link that appears later is not followed.
    """
    if "\0" in str(path):
        raise ValueError("embedded null byte")
    return _read_whole(open_if_allowed(path, may_read), str(path))


def replace_file(path: Path, content: bytes, *, before: str | None, may_write: MayWrite) -> None:
    """Write `content`, keeping the mode of the old file; missing folders are made.

    A symlink at `path` stays and its target is written, if `may_write` allows the target.

    Raises:
        FileConflict: the present file does not have the digest `before` (None: a file exists).
        PatchFailed: not allowed, not a regular file, or the system refused.
    """
    with _failing_as(f"Failed to write file {path}"):
        real = path.resolve()
        _check_allowed(may_write, real)
        with _open_folder(real.parent, create=True) as folder:
            target = Place(folder, real.name)
            with _conflicts_as(str(path)):
                if before is None:
                    with _staged(target, content, None) as fresh:
                        put_new(fresh, target)
                else:
                    _replace(target, content, _has_digest(before, str(path)))


def remove_file(path: Path, *, before: str | None, may_write: MayWrite, failure: str) -> None:
    """Remove the name; a symlink is removed itself, not its target.

    Raises FileConflict, or PatchFailed with the text `failure`.
    """
    with _failing_as(failure):
        real = path.parent.resolve() / path.name
        _check_allowed(may_write, real)
        if before is not None and digest_of(read_file(path)) != before:
            raise FileConflict(str(path))
        with _open_folder(real.parent, create=False) as folder:
            target = Place(folder, real.name)
            if before is None or _is_link(target):
                os.unlink(target.name, dir_fd=folder)
                return
            gone = Place(folder, _temporary_name())
            with _conflicts_as(str(path)):
                put_away(target, gone, _has_digest(before, str(path)))
            os.unlink(gone.name, dir_fd=folder)


def _check_allowed(may_write: MayWrite, real: Path) -> None:
    if not may_write(real):
        raise PermissionError(None, f"not permitted by the sandbox policy ({real})")


@contextlib.contextmanager
def _failing_as(failure: str) -> Iterator[None]:
    try:
        yield
    except PermissionError as error:
        why = describe_os_error(error) if error.errno else str(error.args[1])
        raise PatchFailed(f"{failure}: {why}") from error
    except OSError as error:
        raise PatchFailed(f"{failure}: {describe_os_error(error)}") from error
    except (ValueError, RuntimeError) as error:  # a NUL in the path, a loop of links
        raise PatchFailed(f"{failure}: not a valid path") from error


@contextlib.contextmanager
def _open_folder(path: Path, *, create: bool) -> Iterator[int]:
    """Open a folder by its canonical path, following no link; with `create`, make missing ones."""
    try:
        folder = open_canonical(str(path), PATH_FLAGS)
    except FileNotFoundError:
        if not create:
            raise
        folder = _make_folders(path)
    try:
        yield folder
    finally:
        os.close(folder)


def _make_folders(path: Path) -> int:
    folder = os.open("/", PATH_FLAGS)
    for part in path.parts[1:]:
        try:
            with contextlib.suppress(FileExistsError):
                os.mkdir(part, dir_fd=folder)
            inner = open_beneath(folder, part, PATH_FLAGS)
        finally:
            os.close(folder)
        folder = inner
    return folder


def _has_digest(before: str, shown: str) -> Callable[[Place], None]:
    """A check that the file is as when the patch was verified."""

    def check(place: Place) -> None:
        try:
            handle = open_beneath(place.folder, place.name, READ_FLAGS)
        except FileNotFoundError as error:
            raise ChangedMeanwhile from error
        if digest_of(_read_whole(handle, shown)) != before:
            raise ChangedMeanwhile

    return check


def _replace(target: Place, content: bytes, check: Callable[[Place], None]) -> None:
    check(target)
    if not os.access(target.name, os.W_OK, dir_fd=target.folder):
        raise PermissionError(errno.EACCES, "Permission denied")  # a rename would succeed
    old = os.stat(target.name, dir_fd=target.folder, follow_symlinks=False)
    mode = stat.S_IMODE(old.st_mode)
    try:
        if has_other_names(target):
            raise OSError(errno.EBUSY, "it has several names")
        with _staged(target, content, mode) as fresh:
            put_over(fresh, target, check)
    except OSError as error:
        if not (is_bound(error) or error.errno in _CLOSED_FOLDER):
            raise
        with _in_memory(content) as source:
            write_in_place(target, source, mode, check)


@contextlib.contextmanager
def _conflicts_as(shown: str) -> Iterator[None]:
    try:
        yield
    except ChangedMeanwhile as error:
        raise FileConflict(shown) from error


@contextlib.contextmanager
def _staged(target: Place, content: bytes, mode: int | None) -> Iterator[Place]:
    """The content beside `target`, with its mode and owner; None: as a new file."""
    fresh = Place(target.folder, _temporary_name())
    handle = os.open(fresh.name, _CREATE_FLAGS, 0o666, dir_fd=fresh.folder)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            if mode is not None:
                keep_attributes(target, file.fileno(), mode)
        yield fresh
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(fresh.name, dir_fd=fresh.folder)


@contextlib.contextmanager
def _in_memory(content: bytes) -> Iterator[int]:
    fd = os.memfd_create("patch", os.MFD_CLOEXEC)
    with os.fdopen(fd, "wb") as file:
        file.write(content)
        file.flush()
        yield fd


def _temporary_name() -> str:
    return f".swarm-patch-{secrets.token_hex(8)}"


def _is_link(target: Place) -> bool:
    return stat.S_ISLNK(os.stat(target.name, dir_fd=target.folder, follow_symlinks=False).st_mode)


def _read_whole(handle: int, shown: str) -> bytes:
    """Read the file and close it."""
    mode = os.fstat(handle).st_mode
    if not stat.S_ISREG(mode):
        os.close(handle)
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(21, "Is a directory", shown)
        raise OSError(f"{shown} is not a regular file")
    with os.fdopen(handle, "rb") as file:
        content = file.read(MAX_FILE_BYTES + 1)
    if len(content) > MAX_FILE_BYTES:
        raise OSError(f"{shown} is larger than {MAX_FILE_BYTES} bytes")
    return content

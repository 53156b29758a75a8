"""Replaces or removes a file safely against symlinks that change meanwhile.

The path is resolved first, and the caller's `may_write` judges the resolved path. Then every folder
of it is opened by descriptor without following links. A link that appears in between makes the
write fail instead of landing elsewhere. Contents change by rename: a reader sees the old file or
the new one.
"""

import contextlib
import os
import secrets
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

from swarm.mailbox.safe_open import (
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
            old = _check_unchanged(folder, real.name, before, str(path))
            if old is not None and not os.access(real.name, os.W_OK, dir_fd=folder):
                raise PermissionError(13, "Permission denied")  # a rename would succeed
            _replace_by_rename(folder, real.name, content, old)


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
            os.unlink(real.name, dir_fd=folder)


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


def _check_unchanged(
    folder: int, name: str, before: str | None, shown: str
) -> os.stat_result | None:
    """The status of the present file, which must be as when the patch was verified."""
    try:
        handle = open_beneath(folder, name, READ_FLAGS)
    except FileNotFoundError:
        if before is None:
            return None
        raise FileConflict(shown) from None
    status = os.fstat(handle)
    if digest_of(_read_whole(handle, shown)) != before:
        raise FileConflict(shown)
    return status


def _replace_by_rename(folder: int, name: str, content: bytes, old: os.stat_result | None) -> None:
    temporary = f".swarm-patch-{secrets.token_hex(8)}"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    handle = os.open(temporary, flags, 0o666, dir_fd=folder)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            if old is not None:
                with contextlib.suppress(PermissionError):
                    os.fchown(file.fileno(), old.st_uid, old.st_gid)
                os.fchmod(file.fileno(), stat.S_IMODE(old.st_mode))
        os.rename(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary, dir_fd=folder)
        raise


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

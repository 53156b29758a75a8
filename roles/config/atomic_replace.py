"""Atomic replacement of a person's small files, by one writer at a time.

A reader sees the old file or the new one, never a part. The new file is readable for its owner
only. A link in its place is replaced, not followed.
"""

import errno
import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from swarm.mailbox.base.private_files import make_own_folders

_LOCK_TRIES = 500
_LOCK_PAUSE_S = 0.02


@contextmanager
def locked_folder(folder: Path) -> Iterator[None]:
    """Lock the folder during the block; create it if it is missing.

    The folder is locked and not the file, because the file is replaced. Raises OSError, as
    `lock_folder_handle` does.
    """
    make_own_folders(folder)
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        lock_folder_handle(handle, folder)
        yield
    finally:
        os.close(handle)


def lock_folder_handle(handle: int, folder: Path) -> None:
    """Lock an open folder; closing the descriptor releases the lock.

    Other processes hold the lock for a few milliseconds, on a busy machine for longer. After ten
    seconds this raises OSError.
    """
    for _ in range(_LOCK_TRIES):
        with suppress(BlockingIOError):
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        time.sleep(_LOCK_PAUSE_S)  # flock has no timeout
    raise OSError(errno.EBUSY, f"another process holds {folder} locked")


def replace_file(target: Path, content: bytes, *, mode: int = 0o600) -> None:
    """Replace the whole file atomically. Raises OSError; the old file is then unchanged."""
    beside = target.with_name(f".{target.name}.{os.getpid()}")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with suppress(FileNotFoundError):
        beside.unlink()
    try:
        with os.fdopen(os.open(beside, flags, mode), "wb") as stream:
            os.fchmod(stream.fileno(), mode)  # independent of the umask
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        beside.replace(target)
    except BaseException:
        with suppress(OSError):
            beside.unlink()
        raise

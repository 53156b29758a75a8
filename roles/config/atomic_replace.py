"""A small file of the person's, replaced as a whole by one writer at a time.

Guards: a reader sees the old file or the new one, never a part; it ends readable for its owner
alone; a link that lies in its place is not followed.
"""

import errno
import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_LOCK_TRIES, _LOCK_PAUSE_S = 100, 0.02


@contextmanager
def locked_folder(folder: Path) -> Iterator[None]:
    """Hold the folder for the block's time, and make it where it is missing.

    The folder is locked, not the file: that is replaced. Raises OSError, as `lock` does.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        lock_folder_handle(handle, folder)
        yield
    finally:
        os.close(handle)


def lock_folder_handle(handle: int, folder: Path) -> None:
    """Take the lock of an open folder; it goes with the descriptor.

    Others hold it for a few milliseconds. Who holds it longer does not stop us for ever: an OSError
    says so after two seconds.
    """
    for _ in range(_LOCK_TRIES):
        with suppress(BlockingIOError):
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        time.sleep(_LOCK_PAUSE_S)  # flock has no deadline of its own
    raise OSError(errno.EBUSY, f"another process holds {folder} locked")


def replace_file(target: Path, content: bytes, *, mode: int = 0o600) -> None:
    """The whole file at once. Raises OSError; then the old one is as it was."""
    beside = target.with_name(f".{target.name}.{os.getpid()}")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with suppress(FileNotFoundError):
        beside.unlink()
    try:
        with os.fdopen(os.open(beside, flags, mode), "wb") as stream:
            os.fchmod(stream.fileno(), mode)  # whatever the mask is
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        beside.replace(target)
    except BaseException:
        with suppress(OSError):
            beside.unlink()
        raise

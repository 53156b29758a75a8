"""Locks of swarm's own folders, each a file that the kernel unlocks when its holder dies."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from swarm.mailbox.base.private_files import open_own_file

_FLAGS = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC


def take_lock(file: Path) -> int:
    """The descriptor that holds it, which the caller closes.

    Raises OSError; BlockingIOError if another process holds it.
    """
    fd = open_own_file(file, _FLAGS)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BaseException:
        os.close(fd)
        raise
    return fd


@contextmanager
def in_turn(file: Path) -> Iterator[None]:
    """Hold it in the block, once others that do the same have ended theirs. Raises OSError."""
    fd = open_own_file(file, _FLAGS)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)

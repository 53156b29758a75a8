"""Records what the mounts of a waiting sandbox lie on, and tells whether it is still the same.

bubblewrap mounts what a path leads to at *that* time. If something else is there when the command
comes, the mounts protect files that no path reaches any more, so the sandbox must not be used.
Every path is held open meanwhile, so that no new file can get the same inode number.
"""

import os
import select
from collections.abc import Iterable
from contextlib import ExitStack
from typing import Self

_PLACE = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
_MOUNTS = "/proc/self/mountinfo"  # poll(2) reports once that it has changed since it was opened


class MountFingerprint:
    """Take it before the mounts are made; `close` it or leave its block to release the files."""

    def __init__(self, paths: Iterable[str]) -> None:
        """Raises OSError if a path does not exist or cannot be opened."""
        self._mount_changes = select.poll()
        with ExitStack() as opened:
            self._held_paths = {path: _open_held(path, _PLACE, opened) for path in paths}
            self._mount_changes.register(_open_held(_MOUNTS, os.O_RDONLY | os.O_CLOEXEC, opened), 0)
            self._opened = opened.pop_all()

    def is_unchanged(self) -> bool:
        """True while each path leads to the same file, and nothing was mounted or unmounted."""
        return not self._mount_changes.poll(0) and all(
            is_same_file(path, fd) for path, fd in self._held_paths.items()
        )

    def close(self) -> None:
        """Release the held files; may be called twice."""
        self._opened.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def is_same_file(path: str, fd: int) -> bool:
    """True while the path, itself not a link, leads to the held file."""
    try:
        return os.path.samestat(os.lstat(path), os.fstat(fd))
    except OSError:
        return False


def _open_held(path: str, flags: int, opened: ExitStack) -> int:
    fd = os.open(path, flags)
    opened.callback(os.close, fd)
    return fd

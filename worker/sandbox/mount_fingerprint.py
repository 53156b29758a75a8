"""What a sandbox that waits stands on, and whether that ground is still the same.

Guards: bubblewrap lays its mounts on what a path leads to *then*. If something else is there when
its command comes, the mounts protect what nobody reaches any more, so it must not be used. Every
place is held open meanwhile: no successor can have its inode's number.
"""

import os
import select
from collections.abc import Iterable
from contextlib import ExitStack
from typing import Self

_PLACE = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
_MOUNTS = "/proc/self/mountinfo"  # poll(2) says once when it has changed since it was opened


class MountFingerprint:
    """Take it before the mounts are laid; `close` it, or leave its block, to let go."""

    def __init__(self, paths: Iterable[str]) -> None:
        """Raises OSError: one of them is not there, or cannot be held."""
        self._mount_changes = select.poll()
        with ExitStack() as opened:
            self._held_paths = {path: _open_held(path, _PLACE, opened) for path in paths}
            self._mount_changes.register(_open_held(_MOUNTS, os.O_RDONLY | os.O_CLOEXEC, opened), 0)
            self._opened = opened.pop_all()

    def is_unchanged(self) -> bool:
        """True while each path leads to what it led to, and nothing was mounted or unmounted."""
        return not self._mount_changes.poll(0) and all(
            is_same_file(path, fd) for path, fd in self._held_paths.items()
        )

    def close(self) -> None:
        """It can be called twice."""
        self._opened.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def is_same_file(path: str, fd: int) -> bool:
    """True while the path, itself no link, leads to what is held open."""
    try:
        return os.path.samestat(os.lstat(path), os.fstat(fd))
    except OSError:
        return False


def _open_held(path: str, flags: int, opened: ExitStack) -> int:
    fd = os.open(path, flags)
    opened.callback(os.close, fd)
    return fd

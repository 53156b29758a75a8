"""Shared memory and semaphores of a command where it shares `/dev/shm` with the whole machine.

A command reaches only what it made itself, recognised by inode, under whatever name it has by then.
What it leaves behind is removed at its end.
"""

import errno
import os
from contextlib import suppress

from .path_resolution import ResolvedEntry

FOLDER = "/dev/shm"
_MOST = 1024
_Identity = tuple[int, int]


class SharedMemoryNames:
    """The shared memory objects of one command and of all that it starts."""

    def __init__(self) -> None:
        self._made: dict[_Identity, set[bytes]] = {}  # and the names it has now

    def contains(self, place: ResolvedEntry) -> bool:
        """True for a name directly in the folder."""
        return os.path.dirname(place.path) == FOLDER and not place.is_folder  # noqa: PTH120

    def open_object(self, place: ResolvedEntry, flags: int, mode: int) -> int:
        """Open an object, or make it. Raises OSError if it is not the command's own."""
        if flags & os.O_CREAT:
            try:
                return self._make(place, flags, mode)
            except FileExistsError:
                if flags & os.O_EXCL:
                    raise
        held = os.open(place.name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=place.folder)
        try:
            if _identity(os.fstat(held)) not in self._made:
                raise PermissionError(errno.EACCES, "another program's")
            plain = flags & ~(os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW)
            return os.open(f"/proc/self/fd/{held}", plain)
        finally:
            os.close(held)

    def link(self, source: ResolvedEntry, target: ResolvedEntry) -> None:
        """Add a name to an object. Raises OSError."""
        made = self._names_of(source)
        os.link(
            source.name, target.name, src_dir_fd=source.folder, dst_dir_fd=target.folder,
            follow_symlinks=False,
        )  # fmt: skip
        made.add(target.name)

    def unlink(self, place: ResolvedEntry) -> None:
        """Remove a name of an object. Raises OSError."""
        made = self._names_of(place)
        os.unlink(place.name, dir_fd=place.folder)
        made.discard(place.name)

    def close(self) -> None:
        """Remove what is left."""
        for identity, names in self._made.items():
            for name in names:
                path = os.path.join(os.fsencode(FOLDER), name)  # noqa: PTH118
                with suppress(OSError):
                    if _identity(os.lstat(path)) == identity:
                        os.unlink(path)  # noqa: PTH108
        self._made.clear()

    def _make(self, place: ResolvedEntry, flags: int, mode: int) -> int:
        if len(self._made) >= _MOST:
            raise OSError(errno.ENOSPC, "too many shared objects")
        flags |= os.O_EXCL | os.O_NOFOLLOW
        fd = os.open(place.name, flags, mode & 0o777, dir_fd=place.folder)
        self._made[_identity(os.fstat(fd))] = {place.name}
        return fd

    def _names_of(self, place: ResolvedEntry) -> set[bytes]:
        found = os.stat(place.name, dir_fd=place.folder, follow_symlinks=False)
        names = self._made.get(_identity(found))
        if names is None:
            raise PermissionError(errno.EACCES, "another program's")
        return names


def _identity(found: os.stat_result) -> _Identity:
    return found.st_dev, found.st_ino

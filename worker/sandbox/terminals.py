"""Terminals that a command makes for itself where it shares `/dev/pts` with the whole machine.

A command reaches only the terminals that it made. The broker holds each by its entry (O_PATH) from
the moment it is made and opens it only through that: the kernel clears an entry when its master
closes, so a number that another session has by then leads to no terminal (EIO). The broker does not
hold the master, because its last close is what ends the programs in the terminal.
"""

import errno
import fcntl
import os
import stat
from contextlib import suppress

from .path_resolution import ResolvedEntry

OPEN_PEER = 0x5441  # TIOCGPTPEER: a master's other end, without a path
_MAKERS = ("/dev/ptmx", "/dev/pts/ptmx")
_FOLDER = "/dev/pts"
_MASTER = os.makedev(5, 2)
_MOST = 128
_NAMED = {"/dev/stdin": "0", "/dev/stdout": "1", "/dev/stderr": "2"}
# What is opened here must not become the launcher's controlling terminal.
_KEPT = os.O_ACCMODE | os.O_NONBLOCK | os.O_CLOEXEC


class Terminals:
    """The terminals of one command and of all that it starts."""

    def __init__(self) -> None:
        self._held: list[int] = []  # entries of terminals, some of which may be gone

    def open_named(self, place: ResolvedEntry, pid: int, flags: int) -> int | None:
        """Open what the caller names if it is a new terminal or the command's own; else None.

        The caller of this method closes the result. Raises OSError.
        """
        if place.is_folder:
            return None
        if place.path in _MAKERS:
            return self._make(flags)
        seen = _seen(place, pid)
        return None if seen is None else self._open_same(seen, flags)

    def open_peer(self, master: int, flags: int) -> int | None:
        """Open the other end of one of the command's terminals. The caller closes it.

        None if `master` is not one of them. Raises OSError.
        """
        if os.fstat(master).st_rdev != _MASTER:
            return None
        entry = fcntl.ioctl(master, OPEN_PEER, os.O_PATH | os.O_CLOEXEC)
        try:
            return self._open_same(os.fstat(entry), flags)
        finally:
            os.close(entry)

    def close(self) -> None:
        """Release all entries. The terminals end with the processes that have them open."""
        for entry in self._held:
            os.close(entry)
        self._held.clear()

    def _make(self, flags: int) -> int:
        self._drop_ended()
        if len(self._held) >= _MOST:
            raise OSError(errno.ENOSPC, "too many terminals")
        master = os.open(_MAKERS[0], flags & _KEPT | os.O_NOCTTY | os.O_CLOEXEC)
        try:
            self._held.append(fcntl.ioctl(master, OPEN_PEER, os.O_PATH | os.O_CLOEXEC))
        except BaseException:
            os.close(master)
            raise
        return master

    def _open_same(self, seen: os.stat_result, flags: int) -> int | None:
        for entry in self._held:
            found = os.fstat(entry)
            if _is_there(found) and os.path.samestat(found, seen):
                return os.open(f"/proc/self/fd/{entry}", flags & _KEPT | os.O_NOCTTY)
        return None

    def _drop_ended(self) -> None:
        for entry in [one for one in self._held if not _is_there(os.fstat(one))]:
            self._held.remove(entry)
            os.close(entry)


def _is_there(entry: os.stat_result) -> bool:
    return entry.st_nlink > 0 and stat.S_ISCHR(entry.st_mode)


def _seen(place: ResolvedEntry, pid: int) -> os.stat_result | None:
    """What the path names, if it could be a terminal."""
    with suppress(OSError):
        if number := _descriptor_named(place.path):  # the caller's, not ours
            return os.stat(f"/proc/{pid}/fd/{number}")  # noqa: PTH116
        if os.path.dirname(place.path) == _FOLDER:  # noqa: PTH120
            return os.stat(place.name, dir_fd=place.folder, follow_symlinks=False)
    return None


def _descriptor_named(path: str) -> str:
    """The number in a name such as `/dev/fd/3`, which resolves to our own folder of descriptors."""
    folder, _, name = path.rpartition("/")
    is_numbered = folder == f"/proc/{os.getpid()}/fd" and name.isascii() and name.isdigit()
    return name if is_numbered else _NAMED.get(path, "")

"""Tells that a folder's entries have changed: inotify(7), through libc. A wait costs nothing."""

import ctypes
import os
import struct

import trio

_HEAD = struct.Struct("iIII")  # watch, mask, cookie, length of the name behind it
_READ_BYTES = 64 << 10
_PAUSE_S = 0.05
_CHANGES = 0x8 | 0x40 | 0x80 | 0x100 | 0x200  # written and closed, moved away, moved to, made, gone
_SELF = 0x400 | 0x800  # the folder itself is gone, or was moved
_OVERFLOW = 0x4000
_IS_FOLDER = 0x4000_0000
_WATCH_FLAGS = 0x0100_0000 | 0x0400_0000  # folders alone; no events of files that are deleted
_OPEN_FLAGS = os.O_NONBLOCK | os.O_CLOEXEC  # as IN_NONBLOCK and IN_CLOEXEC


class FolderEvents:
    """Watches folders by name until it is closed. For one task that waits."""

    def __init__(self) -> None:
        """Raises OSError: the person's limit of such watchers is reached."""
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._fd = self._libc.inotify_init1(_OPEN_FLAGS)
        if self._fd < 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
        self._names: dict[int, frozenset[str]] = {}
        self._with_folders: set[int] = set()

    def watch(self, folder: str, names: frozenset[str], *, new_folders: bool = False) -> None:
        """Wake for entries of this folder with these names, and for any folder made in it.

        Raises OSError: it is no folder, or there are too many watches.
        """
        mask = _CHANGES | _SELF | _WATCH_FLAGS
        number = self._libc.inotify_add_watch(self._fd, os.fsencode(folder), mask)
        if number < 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), folder)
        self._names[number] = self._names.get(number, frozenset()) | names
        if new_folders:
            self._with_folders.add(number)

    async def wait(self) -> None:
        """Return when something has changed that is watched for."""
        while True:
            await trio.lowlevel.wait_readable(self._fd)
            if self.read_pending():
                return
            await trio.sleep(_PAUSE_S)  # whoever makes files without end costs little

    def read_pending(self) -> bool:
        """Read what is known by now; True if something has changed that is watched for."""
        try:
            return self._concerns(os.read(self._fd, _READ_BYTES))
        except BlockingIOError:
            return False

    def _concerns(self, data: bytes) -> bool:
        place = 0
        while place < len(data):
            number, mask, _, length = _HEAD.unpack_from(data, place)
            place += _HEAD.size
            name = os.fsdecode(data[place : place + length].rstrip(b"\0"))
            place += length
            if mask & (_SELF | _OVERFLOW) or name in self._names.get(number, ()):
                return True
            if mask & _IS_FOLDER and number in self._with_folders:
                return True
        return False

    def close(self) -> None:
        """End all watches; nothing may wait. May be called twice."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

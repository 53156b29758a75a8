"""Faults at one write: what changes a disk is counted, and the n-th of it fails, or ends us.

Everything by which a merge or an undo changes files goes through a few functions of `os` and one of
the C library. They are wrapped in this process while a fault is on; nothing else of the work is.
"""

import errno
import os
import signal
from collections.abc import Callable, Generator
from typing import Literal, ParamSpec, TypeVar

from swarm.mailbox.base import file_exchange

_Given = ParamSpec("_Given")
_Made = TypeVar("_Made")
# once: this write alone; room: from it on what needs room; closed: from it on everything.
Kind = Literal["once", "room", "closed", "kill", "kill after"]
KINDS: tuple[Kind, ...] = ("once", "room", "closed", "kill", "kill after")
_NEED_ROOM = ("open", "mkdir", "symlink", "link", "write", "pwrite", "posix_fallocate")
_CHANGES = (*_NEED_ROOM, "rename", "unlink", "rmdir", "ftruncate", "utime", "fchmod")
_ERRORS = {"once": errno.EIO, "room": errno.ENOSPC, "closed": errno.EROFS}


class WriteFault:
    """`was_met`: the work had so many writes."""

    def __init__(self, kind: Kind, number: int) -> None:
        self.kind, self.number = kind, number
        self.was_met = False
        self._count = 0

    def begin(self) -> Generator[None, None, None]:
        """From the first `next` on it waits for its write; the end gives everything back."""
        real = {name: getattr(os, name) for name in _CHANGES}
        exchange = file_exchange._rename
        try:
            for name, work in real.items():
                setattr(os, name, self._wrapped(name, work))
            file_exchange._rename = self._wrapped("rename", exchange)
            yield
        finally:
            for name, work in real.items():
                setattr(os, name, work)
            file_exchange._rename = exchange

    def _wrapped(self, name: str, work: Callable[_Given, _Made]) -> Callable[_Given, _Made]:
        def changing(*given: _Given.args, **named: _Given.kwargs) -> _Made:
            if not _changes(name, given, named):
                return work(*given, **named)
            is_it = self._meets(name)
            if is_it and self.kind in _ERRORS:
                number = _ERRORS[self.kind]
                raise OSError(number, os.strerror(number))
            if is_it and self.kind == "kill":
                os.kill(os.getpid(), signal.SIGKILL)
            try:
                return work(*given, **named)
            finally:
                if is_it:
                    os.kill(os.getpid(), signal.SIGKILL)

        return changing

    def _meets(self, name: str) -> bool:
        here, self._count = self._count, self._count + 1
        if self.kind == "room" and name not in _NEED_ROOM:
            return False
        is_it = here >= self.number if self.kind in ("room", "closed") else here == self.number
        self.was_met = self.was_met or is_it
        return is_it


def _changes(name: str, given: tuple[object, ...], named: dict[str, object]) -> bool:
    """False for a file that is only read, and for the removal of what is not there."""
    if name in ("unlink", "rmdir"):
        try:
            folder = named.get("dir_fd")
            os.lstat(str(given[0]), dir_fd=folder if isinstance(folder, int) else None)
        except FileNotFoundError:
            return False
    if name != "open":
        return True
    flags = given[1] if len(given) > 1 else named.get("flags", 0)
    return isinstance(flags, int) and bool(flags & (os.O_CREAT | os.O_WRONLY | os.O_RDWR))

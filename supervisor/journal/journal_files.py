"""The journal's files, for the writer thread: append whole lines, or leave none of them.

Everything here blocks and runs in the writer's thread, except `repair_tail`, which runs before it.
"""

import os
import resource
from collections import OrderedDict
from collections.abc import Iterable
from pathlib import Path
from typing import BinaryIO

from swarm.mailbox.base.errors import SwarmError

RUN_FILE = "run"  # the supervisor's own records; agents' files are named by their ids
_MAX_OPEN, _FEWEST_OPEN = 256, 8  # descriptors; the least recently written one is closed first
_OPEN_FILES_DIVISOR = 16  # at most a sixteenth of what this process may open


class JournalFailed(SwarmError):
    """A line could not be written. Acknowledged records are on disk; the run must stop."""

    def __init__(self, path: Path, error: OSError) -> None:
        super().__init__(
            f"the journal {path} cannot be written: {error.strerror or error}; "
            "free some space or make the folder writable, then `swarm resume`"
        )
        self.path = path


def max_open_files(limit: int) -> int:
    """How many descriptors the journal keeps where the process may have `limit`."""
    if limit == resource.RLIM_INFINITY:
        return _MAX_OPEN
    return max(_FEWEST_OPEN, min(_MAX_OPEN, limit // _OPEN_FILES_DIVISOR))


class JournalFiles:
    """Append-only files in one folder, by name. One thread at a time; `close` when done."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._open: OrderedDict[str, int] = OrderedDict()
        self._max_open = max_open_files(resource.getrlimit(resource.RLIMIT_NOFILE)[0])

    def append(self, name: str, lines: Iterable[bytes]) -> None:
        """Append the lines (each ends in a newline).

        Raises JournalFailed. After a short write (a full disk) the file is cut back, so no torn
        line stays.
        """
        path = self._folder / f"{name}.jsonl"
        data = b"".join(lines)
        try:
            fd = self._descriptor(name, path)
            start = os.lseek(fd, 0, os.SEEK_END)
            try:
                written = os.write(fd, data)
                while written < len(data):
                    written += os.write(fd, data[written:])
            except OSError:
                os.ftruncate(fd, start)
                raise
        except OSError as error:
            raise JournalFailed(path, error) from error

    def sync(self, name: str) -> None:
        """Return once what was appended is on the disk itself. Raises JournalFailed."""
        path = self._folder / f"{name}.jsonl"
        try:
            os.fdatasync(self._descriptor(name, path))
        except OSError as error:
            raise JournalFailed(path, error) from error

    def close_file(self, name: str) -> None:
        """Close a file that will hardly be written again; a later write reopens it."""
        if (fd := self._open.pop(name, None)) is not None:
            os.close(fd)

    def close(self) -> None:
        """Close every file."""
        for name in list(self._open):
            self.close_file(name)

    def _descriptor(self, name: str, path: Path) -> int:
        if (fd := self._open.get(name)) is not None:
            self._open.move_to_end(name)
            return fd
        if len(self._open) >= self._max_open:
            self.close_file(next(iter(self._open)))
        flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        fd = self._open[name] = os.open(path, flags, 0o600)
        return fd


def repair_tail(path: Path) -> int:
    """Cut a torn last line (after a power loss); return how many bytes were cut, usually 0."""
    with path.open("rb+") as file:
        return cut_torn_line(file)


def cut_torn_line(file: BinaryIO) -> int:
    """As `repair_tail`, of a file that is open for reading and writing; moves its position."""
    size = file.seek(0, os.SEEK_END)
    end = size
    while end > 0:
        start = max(0, end - 65_536)
        file.seek(start)
        chunk = file.read(end - start)
        if (newline := chunk.rfind(b"\n")) >= 0:
            end = start + newline + 1
            break
        end = start
    if end < size:
        file.truncate(end)
    return size - end

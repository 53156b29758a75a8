"""One unnamed file that holds a copy of every watched file during the run.

It holds working copies only: contents that an undo may need are copied to the run's store. The file
has no name on the disk, so it disappears with its process. Blocks: call it in a thread.
"""

import hashlib
import os
import stat
import tempfile
from pathlib import Path
from typing import NamedTuple

from swarm.mailbox.base.safe_open import READ_FLAGS, open_canonical

MAX_FILE_BYTES = 10 * 1024 * 1024
MAX_BYTES = 512 * 1024 * 1024
_PART_OF_FREE = 8


class CopiedFile(NamedTuple):
    """The hash, offset and size of a file's copy; `facts` were read after its contents."""

    sha256: str
    offset: int
    size: int
    facts: os.stat_result


class WorkingCopies:
    """Grows up to MAX_BYTES or an eighth of the free disk space; beyond that nothing is copied."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._fd: int | None = None
        self._end = 0
        self._max_bytes = 0

    def copy(self, path: str) -> CopiedFile | None:
        """None if it is not a readable file, or too large."""
        try:
            source = open_canonical(path, READ_FLAGS)
        except OSError:
            return None
        try:
            facts = os.fstat(source)
            if self._fd is None:
                self._fd = self._open()
            room = min(MAX_FILE_BYTES, self._max_bytes - self._end)
            if not stat.S_ISREG(facts.st_mode) or facts.st_size > room:
                return None
            data = os.read(source, facts.st_size + 1)
            while len(data) < facts.st_size and (more := os.read(source, facts.st_size)):
                data += more
            if len(data) > room:
                return None
            return self._add(data, os.fstat(source))
        except OSError:
            return None
        finally:
            os.close(source)

    def read(self, offset: int, size: int) -> bytes:
        """Raises OSError if it cannot be read."""
        if self._fd is None:
            raise OSError("there are no copies yet")
        return os.pread(self._fd, size, offset)

    def close(self) -> None:
        """Close the file, which frees its space."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    def _open(self) -> int:
        """Create the unnamed file and set its size limit from the free space on its disk."""
        self._folder.mkdir(mode=0o700, exist_ok=True)
        fd, name = tempfile.mkstemp(prefix="copies-", dir=self._folder)
        os.unlink(name)  # noqa: PTH108
        disk = os.fstatvfs(fd)
        self._max_bytes = min(MAX_BYTES, disk.f_bavail * disk.f_frsize // _PART_OF_FREE)
        return fd

    def _add(self, data: bytes, facts: os.stat_result) -> CopiedFile:
        assert self._fd is not None  # `copy` has opened it
        offset = self._end
        view = memoryview(data)
        while view:
            done = os.pwrite(self._fd, view, offset + len(data) - len(view))
            view = view[done:]
        self._end = offset + len(data)
        return CopiedFile(hashlib.sha256(data).hexdigest(), offset, len(data), facts)

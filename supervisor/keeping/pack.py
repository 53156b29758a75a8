"""One file that holds a copy of every watched file, as long as the run lives.

Rule guarded: it is a working copy only. What an undo may need goes on to the run's store; this file
has no name on the disk, so nothing of it outlives its process. Blocks: call it in a thread.
"""

import hashlib
import os
import stat
import tempfile
from pathlib import Path
from typing import NamedTuple

MOST_FILE_BYTES = 10 * 1024 * 1024
MOST_BYTES = 512 * 1024 * 1024
_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class Copied(NamedTuple):
    """A file's contents and where they lie; `facts` are of the moment after they were read."""

    sha256: str
    offset: int
    size: int
    facts: os.stat_result


class Pack:
    """Grows up to MOST_BYTES; then nothing more is copied."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._fd: int | None = None
        self._end = 0

    def copy(self, path: str) -> Copied | None:
        """None if it is no file that can be read, or too large."""
        try:
            source = os.open(path, _FLAGS)
        except OSError:
            return None
        try:
            facts = os.fstat(source)
            room = min(MOST_FILE_BYTES, MOST_BYTES - self._end)
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
        """Give all of it back."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    def _add(self, data: bytes, facts: os.stat_result) -> Copied:
        if self._fd is None:
            self._folder.mkdir(mode=0o700, exist_ok=True)
            fd, name = tempfile.mkstemp(prefix="copies-", dir=self._folder)
            os.unlink(name)  # noqa: PTH108
            self._fd = fd
        offset = self._end
        view = memoryview(data)
        while view:
            done = os.pwrite(self._fd, view, offset + len(data) - len(view))
            view = view[done:]
        self._end = offset + len(data)
        return Copied(hashlib.sha256(data).hexdigest(), offset, len(data), facts)

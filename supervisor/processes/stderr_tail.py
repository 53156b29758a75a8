"""The last 64 KiB of a process's stderr, kept for the error report."""

import trio

from .process_types import STDERR_KEPT_BYTES

_CHUNK_BYTES = 16 * 1024


class StderrTail:
    """Reads one pipe to its end; bounded however much is printed. Owns the descriptor."""

    def __init__(self, fd: int) -> None:
        self._stream = trio.lowlevel.FdStream(fd)
        self._kept = bytearray()
        self._at_end = trio.Event()

    async def read_all(self) -> None:
        """Return when no process holds the writing end any more; closes the reading end."""
        async with self._stream:
            try:
                while chunk := await self._stream.receive_some(_CHUNK_BYTES):
                    self._kept += chunk
                    if len(self._kept) > 2 * STDERR_KEPT_BYTES:
                        del self._kept[:-STDERR_KEPT_BYTES]
            finally:
                self._at_end.set()

    async def wait_end(self, *, limit_s: float) -> str:
        """The tail, once the pipe ended or `limit_s` passed: an orphan may still hold the pipe."""
        with trio.move_on_after(limit_s):
            await self._at_end.wait()
        return self.text

    @property
    def text(self) -> str:
        """The tail as it is now; a cut or broken character becomes U+FFFD."""
        return bytes(self._kept[-STDERR_KEPT_BYTES:]).decode(errors="replace")

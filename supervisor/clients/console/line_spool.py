"""Queue lines for a reader that may be slow or gone, or for a closed terminal.

`put` never waits. `drain` writes when the stream has room (at most 4096 bytes at a time, which do
not block a pipe that reports room). If the reader has gone, the writing ends without an error. A
reader that is too slow loses lines, which are counted.
"""

import errno
import os
import select
import stat
from collections import deque
from typing import TextIO

import trio

from swarm.mailbox.base.errors import SwarmError

_CHUNK_BYTES = 4096  # PIPE_BUF: with room reported, a write of this size does not block
_READER_GONE = frozenset({errno.EPIPE, errno.ECONNRESET, errno.EIO, errno.EBADF})
_MAX_WAITING_BYTES = 64 * 1024 * 1024


class OutputLost(SwarmError):
    """What belongs on standard output could not be written there."""

    def __init__(self, cause: OSError) -> None:
        super().__init__(
            f"standard output could not be written: {cause.strerror}; `swarm result RUN` prints "
            "the answer again"
        )


def raise_unless_gone(error: OSError | ValueError) -> None:
    """Raise OutputLost for a failure that is not the reader's leaving."""
    if isinstance(error, OSError) and error.errno not in _READER_GONE:
        raise OutputLost(error) from error


class LineSpool:
    """The lines of one stream, in order. One view owns it: sync code calls `put`, a task runs
    `drain`.
    """

    def __init__(self, stream: TextIO, *, max_waiting_bytes: int = _MAX_WAITING_BYTES) -> None:
        self._stream = stream
        self._fd = _file_number(stream)
        self._can_block = self._fd is not None and _can_wait(self._fd)
        self._lines: deque[bytes] = deque()
        self._waiting_bytes = 0
        self._max_waiting_bytes = max_waiting_bytes
        self._lines_added = trio.Event()
        self._left_out = 0  # lines lost to a slow reader
        self.closed = False  # nothing more is written
        self._fault: OSError | None = None

    def put(self, line: bytes) -> None:
        """Queue a line, which includes its line feed. Dropped if the reader has gone."""
        if self.closed:
            return
        if self._waiting_bytes + len(line) > self._max_waiting_bytes:
            self._left_out += 1
            return
        self._lines.append(line)
        self._waiting_bytes += len(line)
        self._lines_added.set()

    def take_left_out(self) -> int:
        """The lines lost since the last answer; 0 until half of the queue is free again."""
        if self._waiting_bytes >= self._max_waiting_bytes // 2:
            return 0
        count, self._left_out = self._left_out, 0
        return count

    async def drain(self) -> None:
        """Write until cancelled; then write what the stream accepts without waiting."""
        try:
            while True:
                if not self._lines:
                    self._lines_added = trio.Event()
                    await self._lines_added.wait()
                await trio.lowlevel.checkpoint()
                while self._lines and not self.closed:
                    await self._wait_room()
                    self._write_some()
        finally:
            while self._lines and not self.closed and self._takes_more():
                self._write_some()

    def check(self) -> None:
        """Raise OutputLost if something could not be written though a reader was there."""
        if self._fault is not None:
            raise OutputLost(self._fault)

    def flush(self) -> None:
        """Write the rest, blocking: for the last lines, when no other task runs."""
        while self._lines and not self.closed:
            self._write_some()

    async def _wait_room(self) -> None:
        if self._fd is not None and not self._takes_more():
            await trio.lowlevel.wait_writable(self._fd)

    def _takes_more(self) -> bool:
        """True if writing a chunk would not block. Plain files and in-memory objects always have
        room.
        """
        return self._fd is None or not self._can_block or _has_room(self._fd)

    def _write_some(self) -> None:
        """Write whole lines, or the head of a line that is longer than a chunk."""
        chunk = bytearray(self._lines.popleft())
        while self._lines and len(chunk) + len(self._lines[0]) <= _CHUNK_BYTES:
            chunk += self._lines.popleft()
        if len(chunk) > _CHUNK_BYTES and self._can_block:
            self._lines.appendleft(bytes(chunk[_CHUNK_BYTES:]))
            del chunk[_CHUNK_BYTES:]
        self._waiting_bytes -= len(chunk)
        try:
            self._write(bytes(chunk))
        except (OSError, ValueError) as error:  # EPIPE, a closed terminal, a full disk
            self._close()
            if isinstance(error, OSError) and error.errno not in _READER_GONE:
                self._fault = error

    def _write(self, data: bytes) -> None:
        if self._fd is None:
            self._stream.write(data.decode(errors="replace"))
            self._stream.flush()
            return
        rest = memoryview(data)
        while rest:
            try:
                rest = rest[os.write(self._fd, rest) :]
            except BlockingIOError:  # another process made the shared file description non-blocking
                select.select((), (self._fd,), ())

    def _close(self) -> None:
        self.closed = True
        self._lines.clear()
        self._waiting_bytes = 0


def _file_number(stream: TextIO) -> int | None:
    try:
        stream.flush()
        return stream.fileno()
    except (AttributeError, OSError, ValueError):
        return None


def _can_wait(fd: int) -> bool:
    """True for pipes, sockets and terminals; a plain file always has room and cannot be polled."""
    mode = os.fstat(fd).st_mode
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or os.isatty(fd)


def _has_room(fd: int) -> bool:
    poll = select.poll()
    poll.register(fd, select.POLLOUT)
    return bool(poll.poll(0))

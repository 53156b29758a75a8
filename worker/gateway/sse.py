"""Split a server-sent event stream: bytes in, the data of whole events out. Pure.

Line ends may be CR, LF or CRLF, split anywhere. Comments and the other fields of the standard are
dropped; the data lines of one event are joined by a newline. Any other line may be a damaged part
of an event, so it is returned as an unreadable event. An event over the limit is an error, so that
memory stays bounded.
"""

from swarm.mailbox.errors import SwarmError

MAX_EVENT_BYTES = 16 * 1024 * 1024
DAMAGED = b"\xff"  # returned for a line that is invalid in an event stream; no decoder reads it
_BOM = b"\xef\xbb\xbf"
_PASSED_OVER = (b":", b"event:", b"id:", b"retry:")
_BARE = frozenset({b"event", b"id", b"retry"})


class EventTooLarge(SwarmError):
    """One event, or one line, is longer than the limit."""

    def __init__(self, *, limit_bytes: int) -> None:
        super().__init__(f"one event of the stream is over {limit_bytes:,} bytes")
        self.limit_bytes = limit_bytes


class SseSplitter:
    """Feed it chunks as they arrive; it returns the events that they complete."""

    def __init__(self, *, limit_bytes: int = MAX_EVENT_BYTES) -> None:
        self._limit = limit_bytes
        self._line: list[bytes] = []  # pieces of an incomplete line
        self._data: list[bytes] = []  # data lines of an incomplete event
        self._size = 0  # bytes held in both
        self._after_cr = False  # the last chunk ended in CR: a following LF belongs to it
        self._first = True  # the first line may begin with a byte order mark
        self.events_seen = 0

    def feed(self, chunk: bytes) -> list[bytes]:
        """The data of every event that `chunk` completes. Raises EventTooLarge."""
        if not chunk:
            return []
        if self._after_cr and chunk.startswith(b"\n"):
            chunk = chunk[1:]
        self._after_cr = chunk.endswith(b"\r")
        if b"\r" in chunk:
            chunk = chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        lines = chunk.split(b"\n")
        self._keep_piece(lines[0])
        events: list[bytes] = []
        if len(lines) > 1:
            self._take_line(self._whole_line(), events)
            for line in lines[1:-1]:
                self._take_line(line, events)
            self._keep_piece(lines[-1])
        return events

    def finish(self) -> list[bytes]:
        """The last event of a closed stream that lacks its blank line, if there is one."""
        events: list[bytes] = []
        if self._line:
            self._take_line(self._whole_line(), events)
        self._take_line(b"", events)
        self._size = 0
        return events

    def _whole_line(self) -> bytes:
        line = b"".join(self._line)
        self._line.clear()
        self._size -= len(line)
        return line

    def _keep_piece(self, piece: bytes) -> None:
        if piece:
            self._line.append(piece)
            self._grow(len(piece))

    def _take_line(self, line: bytes, events: list[bytes]) -> None:
        if self._first:
            self._first = False
            line = line.removeprefix(_BOM)
        if not line:
            if self._data:
                events.append(b"\n".join(self._data) if len(self._data) > 1 else self._data[0])
                self._data.clear()
                self._size = 0
                self.events_seen += 1
        elif line.startswith(b"data:"):
            value = line[6:] if line[5:6] == b" " else line[5:]
            self._data.append(value)
            self._grow(len(value) + 1)
        elif line == b"data":
            self._data.append(b"")
            self._grow(1)
        elif not line.startswith(_PASSED_OVER) and line not in _BARE:
            events.append(DAMAGED)

    def _grow(self, size_bytes: int) -> None:
        self._size += size_bytes
        if self._size > self._limit:
            raise EventTooLarge(limit_bytes=self._limit)

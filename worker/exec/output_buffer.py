"""A bounded buffer for long output: its first and last half, exact to the byte. No I/O."""

import msgspec

DEFAULT_LIMIT_BYTES = 1024 * 1024


class BufferedOutput(msgspec.Struct, frozen=True, kw_only=True):
    """What was kept. If nothing was omitted, `head + tail` is everything."""

    head: bytes
    tail: bytes
    omitted_bytes: int

    @property
    def total_bytes(self) -> int:
        return len(self.head) + self.omitted_bytes + len(self.tail)

    def joined(self) -> bytes:
        """Head and tail; nothing marks the omitted middle."""
        return self.head + self.tail


class HeadTailBuffer:
    """Add chunks in order of arrival; `take` what is kept and start over.

    Memory is bounded by 1.5 times the limit plus one chunk; adding costs two copies at most.
    Source: Codex `unified_exec/head_tail_buffer.rs`; here the tail is exact to the byte, not to the
    chunk.
    """

    def __init__(self, limit_bytes: int = DEFAULT_LIMIT_BYTES) -> None:
        """Raises ValueError if `limit_bytes` < 2. An odd limit gives the tail more."""
        if limit_bytes < 2:
            raise ValueError(f"limit_bytes must be at least 2, not {limit_bytes}")
        self._head_limit = limit_bytes // 2
        self._tail_limit = limit_bytes - self._head_limit
        self._reset()

    def _reset(self) -> None:
        self._head = bytearray()
        self._tail = bytearray()
        self._omitted = 0

    def add(self, chunk: bytes) -> None:
        """Keep `chunk`; the oldest bytes after the head are dropped if the limit requires it."""
        room = self._head_limit - len(self._head)
        if room > 0:
            self._head += chunk[:room]
            chunk = chunk[room:]
        self._tail += chunk
        if len(self._tail) > 2 * self._tail_limit:  # rarely, so that each byte moves once
            self._trim()

    def _trim(self) -> None:
        excess = max(0, len(self._tail) - self._tail_limit)
        del self._tail[:excess]
        self._omitted += excess

    def __len__(self) -> int:
        """Bytes that `take` would return."""
        return len(self._head) + min(len(self._tail), self._tail_limit)

    def take(self) -> BufferedOutput:
        """What came since the last take; the buffer is empty afterwards."""
        self._trim()
        kept = BufferedOutput(
            head=bytes(self._head), tail=bytes(self._tail), omitted_bytes=self._omitted
        )
        self._reset()
        return kept

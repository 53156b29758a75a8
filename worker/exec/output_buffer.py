"""A bounded memory of long output: the first and the last half, exact to the byte. Pure."""

import msgspec

DEFAULT_LIMIT_BYTES = 1024 * 1024


class BufferedOutput(msgspec.Struct, frozen=True, kw_only=True):
    """What was kept. Without omission `head + tail` is everything."""

    head: bytes
    tail: bytes
    omitted_bytes: int

    @property
    def total_bytes(self) -> int:
        return len(self.head) + self.omitted_bytes + len(self.tail)

    def joined(self) -> bytes:
        """Head and tail; the omitted middle leaves no mark."""
        return self.head + self.tail


class HeadTailBuffer:
    """Add chunks in order of arrival; `take` what is kept and begin anew.

    Memory is bounded by 1.5 times the limit plus one chunk; adding costs two copies at most.
    Source: Codex `unified_exec/head_tail_buffer.rs`; differs in that the tail is exact to the
    byte, not to the chunk.
    """

    def __init__(self, limit_bytes: int = DEFAULT_LIMIT_BYTES) -> None:
        """Raises ValueError: `limit_bytes` < 2. An odd limit gives the tail more."""
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
        """Keep `chunk`, dropping the oldest bytes behind the head if need be."""
        room = self._head_limit - len(self._head)
        if room > 0:
            self._head += chunk[:room]
            chunk = chunk[room:]
        self._tail += chunk
        if len(self._tail) > 2 * self._tail_limit:  # seldom, so that each byte moves once
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

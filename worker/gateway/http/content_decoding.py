"""Decode a response body by its `content-encoding`: gzip and deflate, in pieces. No I/O.

The gateway asks for `identity`, but some servers and proxies compress nevertheless. A small body
never decompresses into a large one in memory, nor into an endless one.
"""

import zlib
from collections.abc import Iterator
from typing import Protocol

from swarm.mailbox.base.errors import SwarmError

PIECE_BYTES = 256 * 1024
FREE_BYTES = 64 * 1024 * 1024  # any body may decompress to this size
MOST_RATIO = 100  # beyond `FREE_BYTES`; event streams compress 10 to 50 times, a bomb 1,000
_READ = frozenset({"gzip", "x-gzip", "deflate"})
_ANY_HEAD, _NO_HEAD = 47, -15  # zlib's window bits for: gzip or zlib by its header; raw deflate


class _Stream(Protocol):
    """zlib's decompression object, whose type has no public name."""

    @property
    def eof(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...
    @property
    def unconsumed_tail(self) -> bytes: ...
    def decompress(self, data: bytes, max_length: int, /) -> bytes: ...


class UndecodableContent(SwarmError):
    """The body has an unsupported encoding, is damaged, or is a decompression bomb."""


class ContentDecoder:
    """Feed it the pieces of one body. Raises UndecodableContent for an unsupported encoding."""

    def __init__(self, encoding: str) -> None:
        words = (word.strip().lower() for word in encoding.split(","))
        names = [word for word in words if word not in {"", "identity"}]
        self._name = names[0] if names else ""
        if len(names) > 1 or not _READ.issuperset(names):
            shown = encoding.encode("ascii", "replace").decode()[:40]
            raise UndecodableContent(
                f"the answer is packed as {shown!r}, which was not asked for and is not read here"
            )
        self._stream: _Stream | None = None
        self._head = b""
        self._came = self._made = 0

    def feed(self, data: bytes) -> Iterator[bytes]:
        """The decompressed data of the piece, in pieces. Raises UndecodableContent."""
        if not self._name:
            yield data
            return
        self._came += len(data)
        if self._stream is None:
            self._head += data
            if len(self._head) < 2:
                return
            self._stream, data = self._begin(self._head), self._head
        has_more = False  # of the data that was already fed
        while data or has_more:
            if self._stream.eof:  # one body may consist of several compressed streams
                self._stream = self._begin(data)
            try:
                piece = self._stream.decompress(data, PIECE_BYTES)
            except zlib.error as error:
                raise UndecodableContent(
                    f"the answer is packed as {self._name}, and damaged"
                ) from error
            self._made += len(piece)
            if self._made > max(FREE_BYTES, MOST_RATIO * self._came):
                raise UndecodableContent(
                    f"the answer is packed as {self._name}, and {self._came:,} bytes of it unpack "
                    f"to over {self._made:,}"
                )
            if piece:
                yield piece
            has_more = len(piece) == PIECE_BYTES and not self._stream.eof
            data = self._stream.unused_data if self._stream.eof else self._stream.unconsumed_tail

    def _begin(self, head: bytes) -> _Stream:
        """Deflate has a zlib header by its standard; some servers send it without one."""
        has_head = head[0] & 0x0F == 8 and int.from_bytes(head[:2], "big") % 31 == 0
        return zlib.decompressobj(_ANY_HEAD if has_head or self._name != "deflate" else _NO_HEAD)

    def finish(self) -> None:
        """Call it at the end of the body. Raises UndecodableContent if the body is incomplete."""
        if self._came and self._name and not (self._stream and self._stream.eof):
            raise UndecodableContent(
                f"the answer is packed as {self._name}, and ended in its middle"
            )

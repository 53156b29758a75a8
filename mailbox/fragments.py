"""Splits large bodies into fragments and joins them again. Pure.

Memory is bounded at both ends, whatever the sender does.
"""

from .errors import MessageTooLarge

KIB = 1024
FRAGMENT_BYTES = 256 * KIB  # a larger body is split into fragments of this size
MAX_MESSAGE_BYTES = 16 * KIB * KIB  # a larger one is refused; 64 fragments, so it fits one window


def split_into_fragments(body: bytes) -> list[bytes]:
    """Split `body` into fragments, in order; at least one, each of at most 256 KiB.

    Raises MessageTooLarge over 16 MiB.
    """
    size = len(body)
    if size <= FRAGMENT_BYTES:
        return [body]
    if size > MAX_MESSAGE_BYTES:
        raise MessageTooLarge(size_bytes=size, limit_bytes=MAX_MESSAGE_BYTES)
    return [body[at : at + FRAGMENT_BYTES] for at in range(0, size, FRAGMENT_BYTES)]


class FragmentAssembler:
    """Joins fragments that arrive in order. A body over the limit is dropped and reported once."""

    __slots__ = ("_parts", "_size", "count", "overflowed")

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._size = 0
        self.count = 0  # fragments received of the current body
        self.overflowed = False

    def add(self, part: bytes) -> None:
        """Add a fragment that is not the last."""
        self.count += 1
        self._size += len(part)
        if self._size > MAX_MESSAGE_BYTES:
            self.overflowed = True
            self._parts.clear()
        if not self.overflowed:
            self._parts.append(part)

    def finish(self, last: bytes) -> bytes | None:
        """Add the last fragment and reset; return the body, or None if it was over the limit."""
        if not self.count:
            return last
        self.add(last)
        whole = None if self.overflowed else b"".join(self._parts)
        self._parts.clear()
        self._size = self.count = 0
        self.overflowed = False
        return whole

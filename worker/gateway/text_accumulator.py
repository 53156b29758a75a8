"""The text of one item, out of the pieces in which it came. Pure.

The rule it guards: it is exactly what was sent, or nothing. Halves of a character are joined over
pieces, one that stays alone is no text; and a response is bounded in memory.
"""

import re

from swarm.mailbox.errors import SwarmError

from .event_payloads import UnreadableEvent

MOST_CHARS = 8 * 1024 * 1024  # of all texts of one response
_HALF = re.compile("[\ud800-\udfff]")
_ALONE = "half a character stands alone"


class ResponseTooLong(SwarmError):
    """The texts of one response are over the bound together."""

    def __init__(self) -> None:
        super().__init__(f"the response is over {MOST_CHARS:,} characters")


class ResponseSize:
    """How much of a response has come; its texts share one."""

    __slots__ = ("chars",)

    def __init__(self) -> None:
        self.chars = 0


class TextAccumulator:
    """A text that still arrives."""

    __slots__ = ("_half", "_pieces", "_size")

    def __init__(self, size: ResponseSize) -> None:
        self._size = size
        self._pieces: list[str] = []
        self._half = ""  # of a character: the other one must begin the next piece

    def __bool__(self) -> bool:
        """True once anything has come."""
        return bool(self._pieces or self._half)

    def add(self, piece: str) -> str:
        """What the piece adds, as far as it is clear. Raises Unreadable and TooLong."""
        self._size.chars += len(piece)
        if self._size.chars > MOST_CHARS:
            raise ResponseTooLong
        if piece and (self._half or not piece.isascii()):
            piece = self._join(piece)
        if piece:
            self._pieces.append(piece)
        return piece

    def _join(self, piece: str) -> str:
        piece = self._half + piece
        self._half = ""
        if _HALF.search(piece) is None:
            return piece
        if "\ud800" <= piece[-1] <= "\udbff":
            piece, self._half = piece[:-1], piece[-1]
        try:
            return piece.encode("utf-16-le", "surrogatepass").decode("utf-16-le")
        except UnicodeDecodeError:
            raise UnreadableEvent(_ALONE) from None

    def whole(self) -> str:
        """The text; no more will come. Raises Unreadable."""
        if self._half:
            raise UnreadableEvent(_ALONE)
        return "".join(self._pieces)

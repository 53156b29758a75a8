"""Assemble the text of one item from its fragments. No I/O.

The text is exactly what was sent, or an error. Surrogates are joined across fragments; a lone one
is an error. The size of a response in memory is limited.
"""

import re

from swarm.mailbox.errors import SwarmError

from .event_payloads import UnreadableEvent

MOST_CHARS = 8 * 1024 * 1024  # limit of all texts of one response together
_HALF = re.compile("[\ud800-\udfff]")
_ALONE = "half a character stands alone"


class ResponseTooLong(SwarmError):
    """The texts of one response together exceed the limit."""

    def __init__(self) -> None:
        super().__init__(f"the response is over {MOST_CHARS:,} characters")


class ResponseSize:
    """The characters received so far; all texts of a response share one counter."""

    __slots__ = ("chars",)

    def __init__(self) -> None:
        self.chars = 0


class TextAccumulator:
    """A text that still arrives."""

    __slots__ = ("_half", "_pieces", "_size")

    def __init__(self, size: ResponseSize) -> None:
        self._size = size
        self._pieces: list[str] = []
        self._half = ""  # a high surrogate: the next fragment must begin with the low one

    def __bool__(self) -> bool:
        """True once anything has arrived."""
        return bool(self._pieces or self._half)

    def add(self, piece: str) -> str:
        """Add a fragment; returns the complete characters. Raises UnreadableEvent and
        ResponseTooLong.
        """
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
        """The text, after the last fragment. Raises UnreadableEvent."""
        if self._half:
            raise UnreadableEvent(_ALONE)
        return "".join(self._pieces)

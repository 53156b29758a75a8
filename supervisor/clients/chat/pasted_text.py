"""Pasted text: a long paste stands in the line as a mark, and is put back when it is sent. Pure.

What was pasted is sent as it is, joiners and emoji included. Left out, and counted for the person,
is what is no text: controls, half characters, direction overrides, and tags and selectors that only
hide words from who reads them.
"""

import re
import unicodedata
from typing import NamedTuple

from ...base.safe_text import LINE_ENDS, is_joined

MOST_TEXT_BYTES = 512 << 10  # as `swarm send`
_NO_TEXT = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\ufff9-\ufffb\ufeff\ufdd0-\ufdef\ufffe\uffff"
    "\ud800-\udfff\U000e0000-\U000e0fff]"
)
_INLINE_CHARS, _INLINE_LINES = 1_500, 12


class Paste(NamedTuple):
    """What goes into the line, and what a person should know about it ("" for nothing)."""

    inline: str
    notice: str


class PastedTexts:
    """The long pastes of the line that is being written. One per conversation."""

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}

    def add(self, raw: str) -> Paste:
        """Clean a paste; a long one becomes a mark. Over `MOST_TEXT_BYTES` nothing is taken."""
        if len(raw) > 4 * MOST_TEXT_BYTES:
            return Paste("", _too_long(len(raw)))
        given = LINE_ENDS.sub("\n", raw)
        text = _NO_TEXT.sub(lambda found: found[0] if _is_text(given, found.start()) else "", given)
        dropped = len(given) - len(text)
        size = len(text.encode("utf-8", "replace"))
        if size > MOST_TEXT_BYTES:
            return Paste("", _too_long(size))
        notice = f"left out {dropped:,} characters that are not text" if dropped > 0 else ""
        if len(text) <= _INLINE_CHARS and text.count("\n") < _INLINE_LINES:
            return Paste(text, notice)
        lines = text.count("\n") + 1
        mark = f"[pasted {len(self._texts) + 1}: {len(text):,} characters, {lines:,} lines]"
        self._texts[mark] = text
        return Paste(mark, notice)

    def expand(self, line: str) -> str:
        """The line with the pastes in the places of their marks."""
        for mark, text in self._texts.items():
            line = line.replace(mark, text)
        return line

    def clear(self) -> None:
        """Forget all pastes: the line was sent."""
        self._texts.clear()


def _is_text(text: str, index: int) -> bool:
    """True for a tag in a flag, and for the selector of a variant behind a letter."""
    if "\U000e0100" <= text[index] <= "\U000e01ef":
        return index > 0 and unicodedata.category(text[index - 1]) == "Lo"
    return is_joined(text, index)


def _too_long(size: int) -> str:
    return (
        f"{size:,} bytes were pasted, over the {MOST_TEXT_BYTES >> 10} KiB of a message; put them "
        "into a file and name it with @"
    )

"""Splits what a terminal sends into letters and whole escape sequences. Pure.

A sequence is one whatever it means and however it was cut into reads: what is unknown can be left
out as a whole, and nothing of it is ever typed into a line. Grammar: ECMA-48, with the three forms
that do not follow it (keys of the Linux console, mouse reports of X10, a pasted text).
"""

import re
from collections.abc import Generator, Iterator

ESC = "\x1b"
PASTE_BEGIN, PASTE_END = "\x1b[200~", "\x1b[201~"
_MOST_CHARS = 4 << 20  # of a paste or of a reply that is kept; what is longer loses its middle
_INTRODUCERS = {"\x8f": "\x1bO", "\x90": "\x1bP", "\x98": "\x1bX", "\x9b": "\x1b[",
                "\x9d": "\x1b]", "\x9e": "\x1b^", "\x9f": "\x1b_"}  # fmt: skip
_STRING_OPENERS = frozenset("]PX^_")
_WHOLE = re.compile(
    r"\x1b\[(?:\[[^\x00-\x1f\x7f]|M(?![\x00-\x1f])(?:.{3})|(?!\[|M)[0-?]*[ -/]*[@-~])"  # CSI
    r"|\x1bO[0-9;]*[^\x00-\x1f0-9;\x7f]"  # SS3
    r"|\x1b[\]PX^_][^\x07\x1b\x9c]*(?:\x07|\x9c|\x1b\\)"  # OSC, DCS, SOS, PM, APC
    r"|\x1b\x1b(?:\[[0-?]*[ -/]*[@-~]|O[^\x00-\x1f\x7f])"  # Alt and a key
    r"|\x1b[^\[O\]PX^_\x1b]",  # Alt and a letter
    re.DOTALL,
)
_OPEN = re.compile(
    r"\x1b(?:[\]PX^_][^\x07\x1b\x9c]*\x1b?|\x1b?(?:\[(?:\[|M.{0,2}|[0-?]*[ -/]*)?|O[0-9;]*)?)",
    re.DOTALL,
)


class KeySequences:
    """One per terminal. `feed` takes text as it is read; `flush` says that no more has come."""

    def __init__(self) -> None:
        self._held = ""  # the beginning of a sequence
        self._pasted: str | None = None
        self._late = 0  # characters that were held when no more came with them

    def feed(self, text: str) -> Iterator[str]:
        """Each letter, each whole sequence, and each pasted text with its begin mark."""
        for sign, begin in _INTRODUCERS.items():
            text = text.replace(sign, begin)
        text, self._held = self._held + text, ""
        while text:
            if self._pasted is not None:
                text = yield from self._paste(text)
                continue
            part, text = self._first(text)
            if part == PASTE_BEGIN:
                self._pasted = ""
            elif part:
                yield part
        self._late = 0

    def flush(self) -> Iterator[str]:
        """A lone Esc, if that is what is held. The rest of a longer sequence may still come."""
        if self._pasted is None and self._held in (ESC, ESC + ESC):
            self._held = ""
            yield ESC
        self._late = len(self._held)

    def _paste(self, text: str) -> Generator[str, None, str]:
        """Take what belongs to a paste; returns what is behind it."""
        assert self._pasted is not None
        body, mark, rest = (self._pasted + text).partition(PASTE_END)
        if not mark:
            self._pasted = body if len(body) <= _MOST_CHARS else body[:100] + body[-_MOST_CHARS:]
            return ""
        self._pasted = None
        yield PASTE_BEGIN + body
        return rest

    def _first(self, text: str) -> tuple[str, str]:
        """The first letter or sequence, and the rest; "" for what is held or left out."""
        if text[0] != ESC:
            return text[0], text[1:]
        if whole := _WHOLE.match(text):
            return whole[0], text[whole.end() :]
        begun = _OPEN.match(text)
        length = len(begun[0]) if begun else 1
        is_string = text[1:2] in _STRING_OPENERS
        if is_string and self._late:  # its end came neither at once nor with the next piece:
            return "", text[self._late :]  # it was Alt and a sign, or is lost
        if length == len(text):
            end = ESC if text[2:].endswith(ESC) else ""
            self._held = text[:2] + end if is_string else text
            return "", ""
        if text.startswith(ESC + ESC):  # Esc, then the begin of something else
            return ESC, text[1:]
        return "", text[length:]  # a control character cuts a sequence off: it counts, not this

"""The whole screen of `swarm top`: only lines that changed are written, so nothing flickers."""

import os
from collections.abc import Sequence
from contextlib import suppress

from rich.color import ColorSystem
from rich.style import Style

from ...base.safe_text import clean_line
from ..console.columns import Line

_ENTER = "\x1b[22;2t\x1b[?1049h\x1b[?25l\x1b[2J"  # keep the title, another screen, no cursor
_LEAVE = "\x1b[?25h\x1b[?1049l\x1b[23;2t"


class TopScreen:
    """One per terminal. `enter` and `leave` may be called in turns."""

    def __init__(self, fd: int, *, coloured: bool, encoding: str) -> None:
        self._fd = fd
        self._encoding = encoding
        self._colors = ColorSystem.STANDARD if coloured else None
        self._drawn: list[str] = []
        self._size = (0, 0)
        self._title = ""
        self.is_ours = False

    def enter(self) -> None:
        self.is_ours, self._drawn, self._title = True, [], ""
        self._write(_ENTER)

    def leave(self) -> None:
        if self.is_ours:
            self.is_ours = False
            self._write(_LEAVE)

    def size(self) -> tuple[int, int]:
        """Columns and lines."""
        try:
            width, height = os.get_terminal_size(self._fd)
        except OSError:
            width, height = 0, 0
        return max(width or 80, 20), max(height or 24, 4)

    def draw(self, lines: Sequence[Line], *, title: str) -> None:
        """Show these lines and nothing else. They are cleaned and no wider than the screen."""
        if not self.is_ours:
            return
        size, out = self.size(), ""
        if size != self._size:
            self._size, self._drawn, out = size, [], "\x1b[2J"
        texts = [self._text(line) for line in lines]
        texts += [""] * (len(self._drawn) - len(texts))
        for row, text in enumerate(texts):
            if row >= len(self._drawn) or self._drawn[row] != text:
                out += f"\x1b[{row + 1};1H{text}\x1b[K"
        if title != self._title:
            out += f"\x1b]2;{clean_line(title, limit=60)}\x07"
        self._drawn, self._title = texts, title
        if out:
            self._write(out)

    def _text(self, line: Line) -> str:
        return "".join(
            (cell.style or Style.null()).render(cell.text, color_system=self._colors)
            for cell in line
        )

    def _write(self, text: str) -> None:
        rest = memoryview(text.encode(self._encoding, "replace"))
        with suppress(OSError):  # the terminal is gone: reading its keys ends all
            while rest:
                rest = rest[os.write(self._fd, rest) :]

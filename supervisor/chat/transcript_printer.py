"""Turns transcript parts into the bytes that a terminal gets: colours, wrapping, line ends."""

import io
from collections.abc import Mapping, Sequence

from rich.console import Console
from rich.markdown import Markdown

from ..console.terminal import ColorChoice, decide_color
from .chat_transcript import AnswerMarkdown, TranscriptPart


class TranscriptPrinter:
    """Renders at the width that it is told; one per terminal."""

    def __init__(self, *, color: ColorChoice, environment: Mapping[str, str]) -> None:
        self._coloured = decide_color(color, environment=environment, is_terminal=True)
        self._environment = {
            name: environment[name] for name in ("TERM", "COLORTERM") if name in environment
        }

    def render(self, parts: Sequence[TranscriptPart], *, width: int) -> str:
        """The parts as text with colour codes; each line ends with `\\r\\n`."""
        out = io.StringIO()
        console = Console(
            file=out,
            force_terminal=True,
            no_color=not self._coloured,
            width=max(width, 4),
            markup=False,
            emoji=False,
            highlight=False,
            legacy_windows=False,
            _environ=self._environment,
        )
        for part in parts:
            if isinstance(part, AnswerMarkdown):
                console.print(Markdown(part.text, hyperlinks=False))
            else:
                console.print(part, overflow="fold")
        lines = out.getvalue().split("\n")
        return "\r\n".join(line.rstrip(" ") for line in lines)

"""Turns transcript parts into the bytes that a terminal gets: colours, wrapping, line ends."""

import io
from collections.abc import Mapping, Sequence

from rich.console import Console
from rich.text import Text

from ..console.answer_markdown import answer_block, answer_console
from ..console.file_links import FileLinks, Linked
from ..console.terminal import ColorChoice, decide_color
from .chat_transcript import AnswerMarkdown, TranscriptPart


class TranscriptPrinter:
    """Renders at the width that it is told; one per terminal."""

    def __init__(
        self,
        *,
        color: ColorChoice,
        environment: Mapping[str, str],
        links: FileLinks | None = None,
    ) -> None:
        self._links = links
        self._coloured = decide_color(color, environment=environment, is_terminal=True)
        self._environment = environment

    def render(self, parts: Sequence[TranscriptPart], *, width: int) -> str:
        """The parts as text with colour codes; each line ends with `\\r\\n`."""
        out = io.StringIO()
        console = answer_console(
            out, width=width, coloured=self._coloured, environment=self._environment
        )
        for part in parts:
            if isinstance(part, AnswerMarkdown):
                console.print(answer_block(part.text, self._links))
            else:
                for line in _wrapped(part, console):
                    shown = line if self._links is None else Linked(line, self._links)
                    console.print(shown, overflow="fold")
        lines = out.getvalue().split("\n")
        return "\r\n".join(line.rstrip(" ") for line in lines)


def _wrapped(text: Text, console: Console) -> list[Text]:
    """The text at words; lines that continue an indented one are indented as it is."""
    indent = len(text.plain) - len(text.plain.lstrip(" "))
    if not 0 < indent < console.width // 2 or text.cell_len <= console.width:
        return [text]
    lines = text[indent:].wrap(console, console.width - indent, overflow="fold")
    blank = Text(" " * indent, style=text.style)
    return [blank.copy().append_text(line) for line in lines]

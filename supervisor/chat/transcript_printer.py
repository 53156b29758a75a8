"""Turns transcript parts into the bytes that a terminal gets: colours, wrapping, line ends."""

import io
from collections.abc import Mapping, Sequence
from typing import ClassVar

from rich.console import Console, ConsoleOptions, RenderResult
from rich.markdown import CodeBlock, Markdown
from rich.syntax import Syntax
from rich.text import Text

from ..console.terminal import ColorChoice, decide_color
from .chat_transcript import AnswerMarkdown, TranscriptPart


class _PlainCodeBlock(CodeBlock):
    """Code without the blank lines that Rich puts around it."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        code = str(self.text).rstrip()
        yield Syntax(code, self.lexer_name, theme=self.theme, word_wrap=True, padding=(0, 1))


class _AnswerMarkdown(Markdown):
    elements: ClassVar = {
        **Markdown.elements, "fence": _PlainCodeBlock, "code_block": _PlainCodeBlock
    }  # fmt: skip


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
                console.print(_AnswerMarkdown(part.text, hyperlinks=False))
            else:
                for line in _wrapped(part, console):
                    console.print(line, overflow="fold")
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

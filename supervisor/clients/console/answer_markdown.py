"""A model's answer as Markdown on a terminal, wrapped at words."""

import io
from collections.abc import Mapping
from typing import ClassVar

import msgspec
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.markdown import CodeBlock, Markdown
from rich.syntax import Syntax

from swarm.mailbox.base.bounded_formats import decode_json

from ...base.safe_text import clean_block
from .file_links import FileLinks, Linked


class _PlainCodeBlock(CodeBlock):
    """Code without the blank lines that Rich puts around it."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        code = str(self.text).rstrip()
        yield Syntax(code, self.lexer_name, theme=self.theme, word_wrap=True, padding=(0, 1))


class AnswerBlock(Markdown):
    """Markdown of a cleaned text."""

    elements: ClassVar = {
        **Markdown.elements, "fence": _PlainCodeBlock, "code_block": _PlainCodeBlock
    }  # fmt: skip


def answer_block(text: str, links: FileLinks | None = None) -> RenderableType:
    """Markdown of a cleaned text, in which names of files may be links, and nothing else is."""
    block = AnswerBlock(text, hyperlinks=False)
    return block if links is None else Linked(block, links)


def answer_console(
    out: io.StringIO, *, width: int, coloured: bool, environment: Mapping[str, str]
) -> Console:
    """A console that renders for a terminal of this width into a text."""
    return Console(
        file=out,
        force_terminal=True,
        no_color=not coloured,
        width=max(width, 4),
        markup=False,
        emoji=False,
        highlight=False,
        legacy_windows=False,
        _environ={name: environment[name] for name in ("TERM", "COLORTERM") if name in environment},
    )


def render_answer(
    answer: str,
    *,
    width: int,
    coloured: bool,
    environment: Mapping[str, str],
    links: FileLinks | None = None,
) -> str:
    """The answer as it is shown. JSON stays as it is: it is no Markdown."""
    text = clean_block(answer)
    if _is_json(answer):
        return text
    out = io.StringIO()
    console = answer_console(out, width=width, coloured=coloured, environment=environment)
    console.print(answer_block(text, links))
    return "\n".join(line.rstrip(" ") for line in out.getvalue().split("\n"))


def _is_json(text: str) -> bool:
    if not text.lstrip().startswith(("{", "[")):
        return False
    try:
        decode_json(text)
    except msgspec.DecodeError:
        return False
    return True

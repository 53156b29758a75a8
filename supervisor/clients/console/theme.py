"""The styles and glyphs of the console, and the Rich console itself.

Colour only repeats what a word already says.
"""

from collections.abc import Mapping
from typing import TextIO

import msgspec
from rich.console import Console
from rich.style import Style

from ...base.part_names import PART_EXIT_CODES
from .terminal import ColorChoice, decide_color, is_terminal, page_width

PLAIN = Style()
DIM = Style(dim=True)
HEAD = Style(bold=True)
NAME = Style(bold=True)
GOOD = Style(color="green")
BUSY = Style(color="cyan")
BAR = Style(color="cyan")
WARN = Style(color="yellow")
BAD = Style(color="red")
SELECTED = Style(reverse=True)
ATTENTION = Style(color="yellow", bold=True, reverse=True)

DIFF_STYLES: dict[str, Style] = {
    "header": DIM,
    "hunk": BUSY,
    "context": PLAIN,
    "removed": BAD,
    "added": GOOD,
    "note": DIM,
}

STATE_STYLES = {
    "running": BUSY,
    "idle": DIM,
    "starting": BUSY,
    "waiting": WARN,
    "restarting": WARN,
    "suspended": DIM,
    "queued": DIM,
    "completed": GOOD,
    "partial": WARN,
    "truncated": WARN,
    "interrupted": WARN,
    **dict.fromkeys(PART_EXIT_CODES, BAD),
    "budget": BAD,
    "deadline": BAD,
    "refused": BAD,
    "failed": BAD,
    "crashed": BAD,
    "killed": BAD,
    "terminated": WARN,
    "provider": BAD,
    "sandbox": BAD,
}


class Glyphs(msgspec.Struct, frozen=True, kw_only=True):
    fork: str
    corner: str
    pipe: str
    blank: str = "   "
    full: str
    empty: str
    dot: str
    ellipsis: str


UNICODE_GLYPHS = Glyphs(
    fork="├─ ", corner="└─ ", pipe="│  ", full="━", empty="─", dot=" · ", ellipsis="…"
)
ASCII_GLYPHS = Glyphs(
    fork="|- ", corner="`- ", pipe="|  ", full="#", empty="-", dot=" | ", ellipsis="~"
)


def glyphs_for(encoding: str) -> Glyphs:
    """Box-drawing glyphs only if the stream's encoding has them."""
    try:
        (
            UNICODE_GLYPHS.fork + UNICODE_GLYPHS.full + UNICODE_GLYPHS.dot + UNICODE_GLYPHS.ellipsis
        ).encode(encoding)
    except (LookupError, UnicodeError):
        return ASCII_GLYPHS
    return UNICODE_GLYPHS


def make_console(
    stream: TextIO,
    *,
    environment: Mapping[str, str],
    color: ColorChoice = "auto",
    buffer: TextIO | None = None,
) -> Console:
    """The only Console factory. No markup, no emoji codes, no highlighting: text stays unchanged.

    Args:
        stream: The final output; decides about colour.
        environment: Of the process.
        color: `--color`.
        buffer: Collects what Rich writes; the caller writes it to `stream`.
    """
    terminal = is_terminal(stream)
    coloured = decide_color(color, environment=environment, is_terminal=terminal)
    known = {name: environment[name] for name in ("TERM", "COLORTERM") if name in environment}
    return Console(
        file=buffer or stream,
        force_terminal=terminal or coloured,
        force_interactive=terminal and environment.get("TERM") != "dumb",
        color_system="standard" if coloured and not terminal else "auto",
        no_color=not coloured,
        width=page_width(environment),
        legacy_windows=False,
        markup=False,
        emoji=False,
        highlight=False,
        _environ=known,
    )

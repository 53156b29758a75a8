"""The styles and glyphs of the console. Colour only repeats what a word already says."""

import msgspec
from rich.style import Style

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

STATE_STYLES = {
    "running": BUSY,
    "starting": BUSY,
    "waiting": WARN,
    "restarting": WARN,
    "suspended": DIM,
    "queued": DIM,
    "completed": GOOD,
    "truncated": WARN,
    "interrupted": WARN,
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
    """The symbols for drawing."""

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

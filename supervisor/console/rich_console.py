"""Makes every Rich console of the program; importing Rich takes 35 ms.

So `NO_COLOR`, `FORCE_COLOR`, `CLICOLOR`, `TERM=dumb`, `COLUMNS` and `--color` have the same effect
everywhere.
"""

from collections.abc import Mapping
from typing import TextIO

from rich.console import Console

from .terminal import ColorChoice, decide_color, is_terminal, page_width


def make_console(
    stream: TextIO,
    *,
    environment: Mapping[str, str],
    color: ColorChoice = "auto",
    buffer: TextIO | None = None,
) -> Console:
    """No markup, no emoji codes, no highlighting: text stays unchanged.

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

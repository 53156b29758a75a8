"""Output helpers of the commands that print: aligned columns, JSON on stdout, cleaned text."""

import shutil
import sys
from collections.abc import Sequence

import click
import msgspec

from ....base.safe_text import clean_line

_LEAST_WRAP = 20  # cells


def print_json(value: object) -> None:
    """One JSON value on one line."""
    click.echo(msgspec.json.encode(value).decode())


def say(text: str) -> None:
    """Words for the person on stderr, after `swarm: `; on a terminal wrapped at words."""
    click.echo(wrap_words(f"swarm: {text}", _stderr_width()), err=True)


def _stderr_width() -> int:
    """0: no terminal reads it, so its lines stay whole."""
    try:
        return shutil.get_terminal_size().columns if sys.stderr.isatty() else 0
    except (AttributeError, ValueError, OSError):
        return 0


def wrap_words(text: str, width: int) -> str:
    """Each line in lines of at most `width` cells; a word that is longer stays whole."""
    if width < _LEAST_WRAP or all(len(line) * 2 <= width for line in text.split("\n")):
        return text
    from rich.cells import cell_len  # for a terminal alone

    lines: list[str] = []
    for line in text.split("\n"):
        indent = line[: len(line) - len(line.lstrip(" "))]
        row = ""
        for word in line[len(indent) :].split(" "):
            grown = f"{row} {word}" if row.strip() else f"{indent}{row}{word}"
            if cell_len(grown) > width and row.strip():
                lines.append(row)
                grown = f"{indent}  {word}"
            row = grown
        lines.append(row)
    return "\n".join(lines)


def print_columns(
    head: Sequence[str], rows: Sequence[Sequence[str]], *, right: str = "", fits: bool = False
) -> None:
    """A table of plain columns; the last one is not padded.

    Args:
        head: Column titles; left out if stdout is not a terminal, as in `ls`.
        rows: Cells as text; control characters are cleaned here.
        right: Titles of right-aligned columns, separated by blanks.
        fits: On a terminal a line that is too long is cut, so that none wraps.
    """
    cells = [[clean_line(cell, limit=200) for cell in row] for row in rows]
    is_terminal = sys.stdout.isatty()
    shown = [list(head), *cells] if is_terminal else cells
    if not shown:
        return
    widths = [max(len(row[index]) for row in shown) for index in range(len(head))]
    room = shutil.get_terminal_size().columns if fits and is_terminal else None
    ends = right.split()
    click.echo("\n".join(cut_line(align_cells(row, widths, head, ends), room) for row in shown))


def align_cells(
    row: Sequence[str], widths: Sequence[int], head: Sequence[str], ends: Sequence[str]
) -> str:
    """One line: each cell at its width, those below a title of `ends` at its end."""
    aligned = [
        cell.rjust(width) if title in ends else cell.ljust(width)
        for cell, width, title in zip(row, widths, head, strict=True)
    ]
    return "  ".join(aligned).rstrip()


def cut_line(line: str, room: int | None) -> str:
    """The line in at most `room` cells, which a mark shows; None: as it is."""
    if room is None or len(line) * 2 <= room:
        return line
    from ...console.columns import crop  # rich is for a terminal alone

    return crop(line, room)

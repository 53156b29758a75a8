"""Output helpers of the commands that print: aligned columns, JSON on stdout, cleaned text."""

import sys
from collections.abc import Sequence

import click
import msgspec

from ..console.safe_text import clean_line


def print_json(value: object) -> None:
    """One JSON value on one line."""
    click.echo(msgspec.json.encode(value).decode())


def print_columns(head: Sequence[str], rows: Sequence[Sequence[str]], *, right: str = "") -> None:
    """A table of plain columns; the last one is not padded.

    Args:
        head: Column titles; left out if stdout is not a terminal, as in `ls`.
        rows: Cells as text; control characters are cleaned here.
        right: Titles of right-aligned columns, separated by blanks.
    """
    cells = [[clean_line(cell, limit=200) for cell in row] for row in rows]
    shown = [list(head), *cells] if sys.stdout.isatty() else cells
    if not shown:
        return
    widths = [max(len(row[index]) for row in shown) for index in range(len(head))]
    ends = right.split()
    for row in shown:
        aligned = [
            cell.rjust(width) if title in ends else cell.ljust(width)
            for cell, width, title in zip(row, widths, head, strict=True)
        ]
        click.echo("  ".join(aligned).rstrip())

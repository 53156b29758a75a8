"""Fits lines to a width without cutting them. Pure."""

from collections.abc import Sequence

from rich.cells import cell_len, chop_cells

_LEAST_WIDTH = 20


def fold_lines(lines: Sequence[str], width: int) -> list[str]:
    """Lines of at most `width` cells; one that continues the line above it begins with `↳`."""
    room = max(width, _LEAST_WIDTH)
    folded: list[str] = []
    for line in lines:
        if cell_len(line) <= room:
            folded.append(line)
            continue
        indent = " " * (len(line) - len(line.lstrip(" ")))
        first, *_ = chop_cells(line, room)
        rest = chop_cells(line[len(first) :], room - len(indent) - 2)
        folded += [first, *(f"{indent}↳ {piece}" for piece in rest)]
    return folded

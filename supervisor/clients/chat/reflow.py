"""Where the live region begins after the terminal's width changed. Pure.

A terminal wraps the lines that it already shows again when it gets narrower, so the cursor is then
further below the first line of the region than it was.
"""

from collections.abc import Sequence


def rows_above_cursor(
    widths: Sequence[int], cursor_row: int, cursor_column: int, columns: int
) -> int:
    """Rows from the region's first line to the cursor, at the new width.

    Args:
        widths: Cells of each line of the region, as it was drawn.
        cursor_row: The cursor's line in the region, from 0.
        cursor_column: Its column, from 0.
        columns: The new width, ≥ 1.
    """
    columns = max(columns, 1)
    above = sum(_rows(width, columns) for width in widths[:cursor_row])
    return above + cursor_column // columns


def _rows(width: int, columns: int) -> int:
    return max(-(-width // columns), 1)

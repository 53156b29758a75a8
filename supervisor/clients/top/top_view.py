"""Draws the rows of `swarm top`: groups with their number, a line for each run. No I/O."""

from collections.abc import Sequence

from rich.cells import cell_len
from rich.segment import Segment

from ...base.number_format import render_age, render_count, render_usd
from ..console.columns import Line, crop, fill
from ..console.theme import ATTENTION, BUSY, DIM, HEAD, PLAIN, Glyphs
from ..console.tree_view import highlight_line
from .top_rows import NEEDS, Need, TopRow, order_rows

_STYLES = {"waits for you": ATTENTION, "at work": BUSY, "asleep": HEAD, "ended": DIM}
_KEYS = (
    "up, down select",
    "Enter tree",
    "a answer",
    "d diff",
    "c chat",
    "s send words",
    "p pause",
    "g go on",
    "x stop",
    "m merge",
    "q quit",
)
_WIDE = 100  # columns from which on tokens, cost and changes all have a place


def render_top(
    rows: Sequence[TopRow],
    *,
    width: int,
    height: int,
    now: float,
    glyphs: Glyphs,
    selected: str = "",
    foot: Sequence[Line] = (),
) -> list[Line]:
    """At most `height` lines of at most `width` cells; the selected run is always among them.

    `foot` stands at the bottom in place of the keys: a question, or words that are typed.
    """
    counts: dict[Need, int] = {need: sum(row.need == need for row in rows) for need in NEEDS}
    below = list(foot) or [[Segment(line, DIM)] for line in _key_lines(width, glyphs)]
    below = below[: max(height - 3, 0)]
    room = max(height - 2 - len(below), 0)
    need = ""
    body: list[tuple[str, Line]] = []  # each line with the id of its run, "" for a head
    for row in order_rows(rows):
        if row.need != need:
            need = row.need
            head = crop(f"{need} ({counts[row.need]})", width, mark=glyphs.ellipsis)
            body.append(("", [Segment(head, _STYLES[need])]))
        line = render_line(row, width=width, now=now, glyphs=glyphs)
        body.append((row.run_id, highlight_line(line, width) if row.run_id == selected else line))
    if not body:
        text = "there is no run yet; start one with `swarm run TASK.md` or `swarm`"
        body.append(("", [Segment(crop(text, width, mark=glyphs.ellipsis), DIM)]))
    chosen = next((at for at, (run, _) in enumerate(body) if run and run == selected), 0)
    first = min(max(chosen - room + 1, 0), max(len(body) - room, 0))
    shown = [line for _, line in body[first : first + room]]
    head_lines = [_summary(counts, width, glyphs), _heading(width)]
    return [*head_lines, *shown, *below][:height]


def waiting_count(rows: Sequence[TopRow]) -> int:
    return sum(row.need == "waits for you" for row in rows)


def _summary(counts: dict[Need, int], width: int, glyphs: Glyphs) -> Line:
    words = {"waits for you": "for you"}
    parts = [
        f"{count} {words.get(need, need)}"
        for need, count in counts.items()
        if count and need != "ended"
    ]
    text = glyphs.dot.join(["swarm top", *parts])
    return [Segment(crop(text, width, mark=glyphs.ellipsis), HEAD)]


def _widths(width: int) -> tuple[int, int, tuple[int, ...]]:
    """Cells of the title, of what it does, and of agents, age, tokens, cost and changes."""
    figures = (6, 4, 6, 6, 10) if width >= _WIDE else (0, 4, 6, 6, 0) if width >= 60 else (0, 4)
    left = width - 9 - sum(size + 1 for size in figures if size)
    title = min(max(left // 3, 8), 40)
    return title, max(left - title - 1, 0), figures


def _heading(width: int) -> Line:
    title, doing, figures = _widths(width)
    cells = [fill("RUN", 8), fill("TITLE", title)]
    cells += [fill("NOW", doing)] if doing else []
    heads = ("AGENTS", "AGE", "TOKENS", "COST", "+/-")
    cells += [
        fill(head, size, right=True) for head, size in zip(heads, figures, strict=False) if size
    ]
    return [Segment(crop(" ".join(cells), width), DIM)]


def render_line(row: TopRow, *, width: int, now: float, glyphs: Glyphs) -> Line:
    title, doing, figures = _widths(width)
    name = f"{row.project}: {row.title}" if row.project else row.title
    what = row.doing if row.need != "ended" else f"{row.state}: {row.doing}".rstrip(": ")
    texts = (
        str(row.agents or ""),
        render_age(now - row.started) if row.started else "",
        render_count(row.total_tokens) if row.total_tokens else "",
        "" if row.usd is None else render_usd(row.usd),
        f"+{row.added} -{row.removed}" if row.added or row.removed else "",
    )
    mark = glyphs.ellipsis
    line = [
        Segment(fill(row.short_id, 8), HEAD),
        Segment(" " + fill(name, title, mark=mark), PLAIN),
    ]
    if doing:
        line.append(Segment(" " + fill(what, doing, mark=mark), PLAIN if row.is_alive else DIM))
    for text, size in zip(texts, figures, strict=False):
        if size:
            line.append(Segment(" " + fill(text, size, right=True, mark=mark), DIM))
    text = "".join(cell.text for cell in line)
    return line if cell_len(text) <= width else [Segment(crop(text, width, mark=mark), PLAIN)]


def _key_lines(width: int, glyphs: Glyphs) -> list[str]:
    lines, line = list[str](), ""
    for key in _KEYS:
        grown = f"{line}{glyphs.dot}{key}" if line else key
        if cell_len(grown) > width and line:
            lines.append(line)
            grown = key
        line = grown
    return [crop(one, width, mark=glyphs.ellipsis) for one in (*lines, line)]

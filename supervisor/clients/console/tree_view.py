"""Render a run: header, one line per agent, progress, footer. Equal views give equal output.

A line consists of cells of known width, so nothing ever wraps. Cells are Rich segments, never
markup to be parsed, so text of a model or a command cannot act as markup.
"""

from collections.abc import Iterator
from io import StringIO
from re import DOTALL, sub

import msgspec
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderResult
from rich.segment import Segment
from rich.style import Style

from swarm.mailbox.base.ids import is_reviewer, short_id
from swarm.mailbox.protocol.control import RunView

from ...base.number_format import render_count, render_span, render_usd
from ...base.safe_text import clean_line
from ...parts.part_lines import describe_figures
from ...views.budget_description import budget_parts, describe_widening, limit_parts
from ...views.row_selection import (
    SortOrder,
    TreeRow,
    has_failed,
    select_list_rows,
    select_tree_rows,
)
from .columns import Line, crop, plan_columns, render_heading, render_row
from .theme import BAD, BAR, DIM, HEAD, PLAIN, SELECTED, STATE_STYLES, UNICODE_GLYPHS, WARN, Glyphs

_MIN_FOR_HEADING = 8  # lines of the screen
_MIN_TEAM = 3  # agents below the root, from which on their progress is a line of its own
FINAL_ROWS = 16  # number of agents left on the screen when a run has ended
_WINDOW_S = 300.0  # the rate is computed over the last five minutes
_MIN_ENDS_FOR_ESTIMATE = 10  # ended items before tokens and cost are estimated


class TreeOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How a person wants to see the tree."""

    sort: SortOrder = "tree"
    open_paths: frozenset[str] = frozenset()  # ended subtrees that are unfolded
    glyphs: Glyphs = UNICODE_GLYPHS
    selected: str = ""  # the path of the highlighted line
    hint: str = ""  # the last line: what keys do


class RenderedLines:
    """Lines of segments: a Rich renderable that needs no layout of its own."""

    def __init__(self, lines: list[Line]) -> None:
        self.lines = lines

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        newline = Segment.line()
        for line in self.lines:
            yield from line
            yield newline

    @property
    def text(self) -> str:
        """The text on the screen, without trailing blanks."""
        return "\n".join("".join(cell.text for cell in line).rstrip() for line in self.lines)

    @property
    def widths(self) -> list[int]:
        """Terminal cells of each line."""
        return [sum(cell_len(cell.text) for cell in line) for line in self.lines]


def render_run(
    view: RunView, *, width: int, height: int, now: float, options: TreeOptions | None = None
) -> RenderedLines:
    """One snapshot as at most `height` lines of at most `width` cells.

    Args:
        view: The run; `agents` sorted by path.
        width: Cells, ≥ 1; below 20 it is only guaranteed that the lines fit.
        height: Lines, ≥ 1. Below 6 the header is left out first, then the footer.
        now: Unix seconds, for ages and rates.
    """
    chosen = options or TreeOptions()
    if view.status not in {"running", "idle"} and view.agents:  # its time has stopped
        now = max(agent.last_progress for agent in view.agents) or now
    head = header_lines(view, width, chosen.glyphs)
    fan = measure_fan_out(view, now=now) or measure_team(view)
    foot = [_fan_out_line(fan, width, chosen.glyphs)] if fan else []
    if view.fetching:
        foot.append(_fetch_line(view, width, chosen.glyphs))
    foot.append(_footer(view, width, now, chosen.glyphs))
    if chosen.hint:
        foot.append(_fit([(chosen.hint, DIM)], width, chosen.glyphs))
    if height < len(head) + len(foot) + 2:
        head = head[:1]
    if height < len(head) + len(foot) + 2:
        head = []
    heads = 1 if head and height > _MIN_FOR_HEADING else 0
    room = height - len(head) - len(foot) - heads
    rows: tuple[TreeRow, ...] = ()
    if room > 0 and chosen.sort == "tree":
        rows = select_tree_rows(
            view.agents, height=room, open_paths=chosen.open_paths, keep=chosen.selected
        )
    elif room > 0:
        rows = select_list_rows(view.agents, height=room, sort=chosen.sort, keep=chosen.selected)
    body = _body(rows, view, width, chosen, now, with_heading=heads > 0)
    return RenderedLines([*head, *body, *foot][: max(height, 1)])


def render_final(
    view: RunView, *, width: int, height: int, now: float, options: TreeOptions | None = None
) -> RenderedLines:
    """The tree that stays on the screen at the end: at most `FINAL_ROWS` agents, no footer.

    The summary of the run (`final_answer.summarize_run`) takes the footer's place.
    """
    rows = min(height, FINAL_ROWS + 4)
    plain = msgspec.structs.replace(options or TreeOptions(), selected="", hint="")
    picture = render_run(view, width=width, height=rows, now=now, options=plain)
    return RenderedLines(picture.lines[:-1]) if len(picture.lines) > 1 else picture


def export_svg(view: RunView, *, now: float, title: str = "swarm run") -> str:
    """The tree as an SVG of 100 columns, for the README. The SVG loads no external resources."""
    picture = render_run(view, width=100, height=40, now=now)
    console = Console(
        file=StringIO(), record=True, width=100, force_terminal=True, color_system="truecolor",
        legacy_windows=False, _environ={},
    )  # fmt: skip
    console.print(picture)
    svg = console.export_svg(title=clean_line(title), unique_id="swarm")
    return sub(r"@font-face \{.*?\}\s*", "", svg, flags=DOTALL)


def _body(
    rows: tuple[TreeRow, ...],
    view: RunView,
    width: int,
    options: TreeOptions,
    now: float,
    *,
    with_heading: bool,
) -> Iterator[Line]:
    columns = plan_columns(width, rows, model=view.model)
    if with_heading and columns.activity:
        yield render_heading(columns, glyphs=options.glyphs)
    for row in rows:
        line = render_row(row, columns, now=now, glyphs=options.glyphs)
        is_selected = row.agent is not None and row.agent.path == options.selected
        yield highlight_line(line, width) if is_selected else line


def highlight_line(line: Line, width: int) -> Line:
    blank = Segment(" " * (width - sum(cell_len(cell.text) for cell in line)))
    marked = [cell for cell in (*line, blank) if cell.text]
    return [Segment(cell.text, (cell.style or PLAIN) + SELECTED) for cell in marked]


def header_lines(view: RunView, width: int, glyphs: Glyphs) -> list[Line]:
    """The run's name and title; its provider, its model, and why these."""
    name = f"swarm {short_id(view.run_id)}" if view.run_id else "swarm"
    first = [
        (name, HEAD),
        (f" {clean_line(describe_widening(view.widened)).strip()}" if view.widened else "", BAD),
        (f"  {clean_line(view.title)}" if view.title else "", PLAIN),
    ]
    text = [clean_line(word) for word in (view.provider, view.model, view.why)]
    second = glyphs.dot.join(word for word in text if word) or "choosing a provider"
    return [_fit(first, width, glyphs), _fit([(second, DIM)], width, glyphs)]


class FanOutProgress(msgspec.Struct, frozen=True, kw_only=True):
    """Counts, and estimates from items that ended since the run was started or resumed."""

    total: int
    done: int
    failed: int
    running: int
    per_minute: float | None = None
    left_s: float | None = None
    tokens_in_all: int | None = None
    usd_in_all: float | None = None


def measure_fan_out(view: RunView, *, now: float) -> FanOutProgress | None:
    """The progress; None if the run has no fan-out."""
    if not view.fan_total:
        return None
    ended = view.fan_done + view.fan_failed
    going = [agent for agent in view.agents if agent.state not in {"ended", "queued"}]
    running = sum(agent.path.count("/") == 2 for agent in going)
    base = FanOutProgress(
        total=view.fan_total, done=view.fan_done, failed=view.fan_failed, running=running
    )
    begin = max(view.started, now - _WINDOW_S)
    lately = sum(
        agent.last_progress >= begin and agent.path.count("/") == 2
        for agent in view.agents
        if agent.state == "ended"
    )
    if lately and now > begin and view.status == "running":
        rate = lately / (now - begin)
        left = max(view.fan_total - ended, 0)
        base = msgspec.structs.replace(base, per_minute=rate * 60, left_s=left / rate)
    if ended < _MIN_ENDS_FOR_ESTIMATE or ended >= view.fan_total:
        return base
    share = view.fan_total / ended
    usd = None if view.usd is None else view.usd * share
    tokens = round(view.usage.total_tokens * share)
    return msgspec.structs.replace(base, tokens_in_all=tokens or None, usd_in_all=usd)


def measure_team(view: RunView) -> FanOutProgress | None:
    """How many of the spawned agents have ended; None for fewer than three."""
    team = [agent for agent in view.agents if agent.path.count("/") > 1]
    own = [agent for agent in team if not is_reviewer(agent.path)]
    if len(own) + view.unlisted < _MIN_TEAM or view.status not in {"running", "idle"}:
        return None
    failed = sum(map(has_failed, own))
    resting = sum(agent.state in {"ended", "idle"} for agent in own)
    queued = sum(agent.state == "queued" for agent in own)
    return FanOutProgress(
        total=len(own) + view.unlisted,
        done=resting - failed + view.unlisted,
        failed=failed,
        running=len(own) - resting - queued,
    )


def _fan_out_line(fan: FanOutProgress, width: int, glyphs: Glyphs) -> Line:
    ended = min(fan.done + fan.failed, fan.total)
    head = f"{ended}/{fan.total} "
    bar = _bar(ended / fan.total, width, glyphs)
    tail = [(f"{fan.done} done", PLAIN), (f"{fan.running} running", PLAIN)]
    if fan.failed:
        tail.append((f"{fan.failed} failed", BAD))
    if fan.left_s is not None and ended < fan.total:
        tail.append((f"about {render_span(fan.left_s)} left", PLAIN))
    if fan.per_minute is not None:
        tail.append((f"{fan.per_minute:.1f}/min", DIM))
    if fan.tokens_in_all:
        cost = "" if fan.usd_in_all is None else f", {render_usd(fan.usd_in_all)}"
        tail.append((f"~{render_count(fan.tokens_in_all)} tokens{cost} in all", DIM))
    parts = [(head, HEAD), *bar, (" ", DIM)]
    line = _fit(parts, width, glyphs)
    room = width - sum(len(text) for text, _ in parts)
    return line + _join(tail, room, glyphs) if room > 0 else line


def _fetch_line(view: RunView, width: int, glyphs: Glyphs) -> Line:
    """The progress bar of a model download."""
    have, total = view.fetched_bytes, max(view.fetch_total_bytes, view.fetched_bytes, 1)
    bar = _bar(have / total, width, glyphs)
    sizes = f" {have / 1e6:.0f} of {total / 1e6:.0f} MB"
    return _fit([(f"fetching {view.fetching} ", HEAD), *bar, (sizes, PLAIN)], width, glyphs)


def _bar(share: float, width: int, glyphs: Glyphs) -> list[tuple[str, Style]]:
    """A progress bar; `share` is from 0 to 1, `width` that of the line."""
    size = min(max(width // 5, 8), 30)
    full = round(size * share)
    return [(glyphs.full * full, BAR), (glyphs.empty * (size - full), DIM)]


def _footer(view: RunView, width: int, now: float, glyphs: Glyphs) -> Line:
    parts: list[tuple[str, Style]] = []
    if view.status != "running":
        parts.append((clean_line(view.status), STATE_STYLES.get(view.status, BAD)))
    if view.throttle:
        parts.append((clean_line(view.throttle), WARN))
    slots = f"{view.slots_used}/{view.slots_max}" if view.slots_max else str(view.slots_used)
    parts.append((f"slots {slots}", PLAIN))
    parts.append((f"{render_count(view.usage.total_tokens)} tokens", PLAIN))
    if view.usd is not None and view.budget.usd is None:  # else it stands beside its limit
        parts.append((render_usd(view.usd), PLAIN))
    if spent := view.review_usage.total_tokens:
        cost = "" if view.review_usd is None else f" {render_usd(view.review_usd)}"
        parts.append((f"reviews {render_count(spent)} tokens{cost}", DIM))
    parts += [(text, WARN if is_tight else PLAIN) for text, is_tight in budget_parts(view, now=now)]
    parts += [(text, WARN if is_tight else DIM) for text, is_tight in limit_parts(view)]
    if view.unlisted:
        parts.append((f"{view.unlisted} ended before", DIM))
    parts += [(text, DIM) for text in describe_figures(view.parts)]
    if view.warnings:
        noun = "warning" if view.warnings == 1 else "warnings"
        parts.append((f"{view.warnings} {noun}", WARN))
    if view.started:
        parts.append((render_span(now - view.started), DIM))
    return _join(parts, width, glyphs)


def _join(parts: list[tuple[str, Style]], width: int, glyphs: Glyphs) -> Line:
    """Join parts with dots, as many as fit completely; only the first may be cropped."""
    line = _fit(parts[:1], width, glyphs)
    room = width - cell_len(parts[0][0])
    for text, style in parts[1:]:
        room -= cell_len(text) + len(glyphs.dot)
        if room < 0:
            break
        line += [Segment(glyphs.dot, DIM), Segment(text, style)]
    return line


def _fit(parts: list[tuple[str, Style]], width: int, glyphs: Glyphs) -> Line:
    """Join parts until the width is used up."""
    line: Line = []
    room = width
    for text, style in parts:
        shown = crop(text, room, mark=glyphs.ellipsis)
        if shown:
            line.append(Segment(shown, style))
        room -= cell_len(shown)
        if shown != text or room <= 0:
            break
    return line

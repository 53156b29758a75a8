"""Layout of an agent's line: the columns for a width, and the content of each.

The cells of a row never exceed the width, counted in terminal cells and not in characters. Content
that does not fit is cropped; the least important columns are left out first.
"""

import msgspec
from rich.cells import cell_len, set_cell_size
from rich.segment import Segment
from rich.style import Style

from swarm.mailbox.protocol.control import AgentView

from ...base.number_format import render_age, render_bytes, render_count, render_usd
from ...base.safe_text import clean_line, first_line, last_line
from ...views.row_selection import TreeRow, needs_answer
from .theme import ATTENTION, BAD, DIM, NAME, PLAIN, STATE_STYLES, WARN, Glyphs

Line = list[Segment]
_QUIET_S, _STUCK_S = 60.0, 300.0


class Columns(msgspec.Struct, frozen=True, kw_only=True):
    """Widths in cells; 0 = not shown at this width. `activity` takes the remaining width."""

    name: int
    state: int
    activity: int
    steps: int = 0
    time: int = 0
    tokens: int = 0
    context: int = 0
    model: int = 0
    cost: int = 0
    memory: int = 0
    every_role: bool = False  # show the role also if it is [default]


# minimum width → maximum width of the name, then the fixed columns
_TIERS: tuple[tuple[int, dict[str, int]], ...] = (
    (150, {"name": 46, "state": 11, "steps": 5, "time": 4, "tokens": 6, "context": 4,
           "model": 24, "cost": 6, "memory": 4}),
    (100, {"name": 32, "state": 11, "steps": 5, "time": 4, "tokens": 6, "context": 4,
           "model": 14, "cost": 6, "memory": 4}),
    (70, {"name": 24, "state": 9, "steps": 5, "time": 4, "tokens": 6, "context": 4}),
    (48, {"name": 19, "state": 9, "time": 4, "tokens": 6}),
    (30, {"name": 14, "state": 8}),
    (0, {"name": 10, "state": 6}),
)  # fmt: skip


def plan_columns(width: int, rows: tuple[TreeRow, ...], *, model: str = "") -> Columns:
    """The columns for a width. A column that is empty, or repeats the header, is not shown.

    Args:
        width: Cells of the line.
        rows: The rows to draw.
        model: The run's model, as the header names it.
    """
    tier = dict(next(tier for least, tier in _TIERS if width >= least))
    agents = [row.agent for row in rows if row.agent is not None]
    if all(agent.usd is None for agent in agents):
        tier.pop("cost", None)
    if not any(agent.rss_bytes for agent in agents):
        tier.pop("memory", None)
    if all(agent.model in {"", model} for agent in agents):  # the header names it
        tier.pop("model", None)
    if not any(agent.steps for agent in agents):
        tier.pop("steps", None)
    if not any(agent.context_tokens for agent in agents):
        tier.pop("context", None)
    every_role = width >= 100
    needed = max((_name_needed(row, every_role=every_role) for row in rows), default=0)
    tier["name"] = max(min(tier["name"], needed), 6)
    activity = width - sum(size + 1 for size in tier.values())
    if activity < 4:
        state = width // 3 if width >= 12 else 0
        return Columns(name=max(width - state - bool(state), 1), state=state, activity=0)
    return Columns(**tier, activity=activity, every_role=every_role)


def crop(text: str, width: int, *, mark: str = "…") -> str:
    """At most `width` cells; a cut text ends in `mark`."""
    if text.isascii():
        return text if len(text) <= width else text[: max(width - 1, 0)] + mark[: max(width, 0)]
    if cell_len(text) <= width:
        return text
    return set_cell_size(text, width - 1).rstrip() + mark if width > 0 else ""


def fill(text: str, width: int, *, right: bool = False, mark: str = "…") -> str:
    """Exactly `width` cells."""
    text = crop(text, width, mark=mark)
    room = " " * (width - (len(text) if text.isascii() else cell_len(text)))
    return room + text if right else text + room


def render_row(row: TreeRow, columns: Columns, *, now: float, glyphs: Glyphs) -> Line:
    mark = glyphs.ellipsis
    if row.agent is None:
        width = sum(_sizes(columns)) + len(_sizes(columns)) - 1
        return [Segment(crop(_branch(row, glyphs) + row.hidden_summary, width, mark=mark), DIM)]
    agent = row.agent
    line = _name_cell(row, columns, glyphs)
    if columns.model:
        line.append(Segment(" " + fill(clean_line(agent.model), columns.model, mark=mark), DIM))
    word, style = _state(agent)
    if columns.state:
        line.append(Segment(" " + fill(word, columns.state, mark=mark), style))
    if columns.activity:
        text, style = _with_silence(agent, now, *describe_activity(agent))
        line.append(Segment(" " + fill(text, columns.activity, mark=mark), style))
    line.extend(_figures(agent, columns, now))
    while line and line[-1].text.isspace():  # trailing blanks would wrap in a narrower window
        line.pop()
    last = line.pop()
    return [*line, Segment(last.text.rstrip(), last.style)]


def render_heading(columns: Columns, *, glyphs: Glyphs) -> Line:
    """The names of the columns, as wide as these."""
    cells = [fill("AGENT", columns.name, mark=glyphs.ellipsis)]
    for name, width, right in (
        ("MODEL", columns.model, False),
        ("STATE", columns.state, False),
        ("NOW", columns.activity, False),
        ("STEPS", columns.steps, True),
        ("TIME", columns.time, True),
        ("TOKENS", columns.tokens, True),
        ("COST", columns.cost, True),
        ("CTX", columns.context, True),
        ("MEM", columns.memory, True),
    ):
        if width:
            cells.append(fill(name, width, right=right, mark=glyphs.ellipsis))
    return [Segment(" ".join(cells).rstrip(), DIM)]


def _with_silence(agent: AgentView, now: float, text: str, style: Style) -> tuple[str, Style]:
    """What it does, after how long it has said nothing, if that is long."""
    silent_s = now - agent.last_progress
    if agent.state != "running" or agent.last_progress <= 0 or silent_s <= _QUIET_S:
        return text, style
    return f"silent {render_age(silent_s)}, {text}", BAD if silent_s > _STUCK_S else WARN


def describe_activity(agent: AgentView) -> tuple[str, Style]:
    """What the agent does now, why it does nothing, or its result."""
    if needs_answer(agent):
        return clean_line(agent.note), ATTENTION
    if agent.state == "ended":
        return (clean_line(agent.note), BAD) if agent.note else (_result_line(agent), DIM)
    if agent.tool and not (agent.note and agent.state == "waiting"):
        if agent.doing:
            return clean_line(agent.doing), PLAIN
        tool = "$" if agent.tool == "exec_command" else agent.tool
        return clean_line(f"{tool} {agent.argument}"), PLAIN
    if agent.note:
        return clean_line(agent.note), WARN
    if agent.text and (text := last_line(agent.text)):
        return text, PLAIN
    if agent.state == "idle" and agent.result:
        return _result_line(agent), DIM
    return clean_line(agent.task), DIM


def _result_line(agent: AgentView) -> str:
    """What it changed in its copy, and how its answer begins."""
    parts = (clean_line(agent.change), first_line(agent.result))
    return " · ".join(part for part in parts if part)


def _state(agent: AgentView) -> tuple[str, Style]:
    word = clean_line(agent.end_state if agent.state == "ended" else agent.state)
    if needs_answer(agent):
        return word, ATTENTION
    return word or "ended", STATE_STYLES.get(word, PLAIN)


def _figures(agent: AgentView, columns: Columns, now: float) -> Line:
    cells: Line = []
    if columns.steps:
        text = str(agent.steps) if agent.steps else ""
        cells.append(Segment(" " + fill(text, columns.steps, right=True), DIM))
    if columns.time:
        spent_s = agent.worked_s + (now - agent.turn_began if agent.turn_began else 0.0)
        text = render_age(spent_s) if spent_s > 0 else ""
        cells.append(Segment(" " + fill(text, columns.time, right=True), DIM))
    if columns.tokens:
        text = render_count(agent.usage.total_tokens) if agent.usage.total_tokens else ""
        cells.append(Segment(" " + fill(text, columns.tokens, right=True), PLAIN))
    if columns.cost:
        text = "" if agent.usd is None else render_usd(agent.usd)
        cells.append(Segment(" " + fill(text, columns.cost, right=True), PLAIN))
    if columns.context:
        cells.append(_context_cell(agent, columns.context))
    if columns.memory:
        text = render_bytes(agent.rss_bytes) if agent.rss_bytes else ""
        cells.append(Segment(" " + fill(text, columns.memory, right=True), DIM))
    return cells


def _context_cell(agent: AgentView, width: int) -> Segment:
    if agent.context_window <= 0 or agent.context_tokens <= 0:
        return Segment(" " * (width + 1), PLAIN)
    percent = min(round(100 * agent.context_tokens / agent.context_window), 999)
    style = WARN if percent >= 80 else DIM
    return Segment(" " + fill(f"{percent}%", width, right=True), style)


def _name_cell(row: TreeRow, columns: Columns, glyphs: Glyphs) -> Line:
    assert row.agent is not None
    branch = _branch(row, glyphs)
    if len(branch) > columns.name // 2:  # very deep: only the last fork
        branch = branch[-3:] if columns.name > 9 else ""
    name, *rest = _name_parts(row.agent, row, every_role=columns.every_role)
    room = columns.name - len(branch)
    shown = crop(name, room, mark=glyphs.ellipsis)
    room -= cell_len(shown)
    tail = ""
    for part in rest:
        if cell_len(part) > room:
            break
        tail += part
        room -= cell_len(part)
    style = NAME if row.agent.state not in {"ended", "queued"} else PLAIN
    cells = [Segment(branch, DIM), Segment(shown, style), Segment(tail + " " * room, DIM)]
    return [cell for cell in cells if cell.text]


def _name_parts(agent: AgentView, row: TreeRow, *, every_role: bool) -> list[str]:
    path = clean_line(agent.path)
    parts = [path if row.depth == 0 else path.rpartition("/")[2]]
    if row.collapsed:
        parts.append(f" +{row.collapsed}")
    if agent.node:
        parts.append(f" @{clean_line(agent.node.partition('/')[2])}")
    if agent.role and (every_role or agent.role != "default"):
        parts.append(f" [{clean_line(agent.role)}]")
    if agent.in_copy and not agent.node:  # on another machine all work in copies
        parts.append(" (copy)")
    return parts


def _name_needed(row: TreeRow, *, every_role: bool) -> int:
    if row.agent is None:
        return 0
    return 3 * row.depth + cell_len("".join(_name_parts(row.agent, row, every_role=every_role)))


def _branch(row: TreeRow, glyphs: Glyphs) -> str:
    if row.depth == 0:
        return ""
    above = "".join(glyphs.pipe if goes_on else glyphs.blank for goes_on in row.ancestors_continue)
    return above + (glyphs.corner if row.last else glyphs.fork)


def _sizes(columns: Columns) -> list[int]:
    sizes = (
        columns.name, columns.state, columns.activity, columns.steps, columns.time, columns.tokens,
        columns.context, columns.model, columns.cost, columns.memory,
    )  # fmt: skip
    return [size for size in sizes if size]

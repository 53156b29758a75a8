"""Draws a context report: a bar of the window, and a line for each part, as wide as asked. Pure."""

from collections.abc import Sequence

from rich.cells import cell_len
from rich.style import Style
from rich.text import Text

from ...base.number_format import render_count
from ...base.safe_text import clean_line
from ..context_report.context_fold import ContextPart, ContextReport
from ..context_report.context_parts import PartGroup
from .columns import crop
from .theme import BAR, BUSY, DIM, GOOD, HEAD, PLAIN, WARN, Glyphs

_MOST_SOURCES = 8  # named below a part; the others are one line
_NAMES: dict[PartGroup, str] = {
    "instructions": "instructions",
    "tools": "tools",
    "mcp_tools": "tools of MCP servers",
    "permissions": "permissions",
    "team": "team",
    "role": "role",
    "skills": "list of skills",
    "agents_md": "AGENTS.md",
    "environment": "environment",
    "memories": "from earlier runs",
    "summary": "summary",
    "person": "your messages",
    "skill_texts": "skills that were named",
    "agents": "mail of agents",
    "answers": "answers",
    "calls": "tool calls",
    "outputs": "tool outputs",
    "notes": "notes of the harness",
}
_NAMED_SOURCES: frozenset[PartGroup] = frozenset(
    ("instructions", "mcp_tools", "skills", "agents_md", "skill_texts", "outputs", "agents", "role")
)
# One letter for each group of parts in the bar, with its style.
_SECTIONS: tuple[tuple[str, str, Style, tuple[PartGroup, ...]], ...] = (
    ("i", "instructions", BUSY, ("instructions", "permissions", "team", "role")),
    ("t", "tools", BAR, ("tools", "mcp_tools")),
    ("p", "project", GOOD, ("skills", "agents_md", "environment", "memories")),
    (
        "h", "history", WARN,
        ("summary", "person", "skill_texts", "agents", "answers", "calls", "outputs", "notes"),
    ),
)  # fmt: skip


def context_lines(report: ContextReport, *, width: int, glyphs: Glyphs) -> list[Text]:
    """The report in lines of at most `width` cells."""
    if not report.parts:
        return [Text(crop(f"{clean_line(report.agent)} has not asked a model yet", width))]
    lines = [_heading(report, width), *_bar_lines(report, width), Text()]
    for group, name in _NAMES.items():
        parts = [part for part in report.parts if part.group == group]
        if parts:
            lines.append(_row(name, parts, report, width))
        if group in _NAMED_SOURCES:
            lines += _source_rows(parts, width, glyphs)
    lines.append(Text())
    lines += [Text(crop(line, width), style=DIM) for line in _remarks(report)]
    return lines


def _heading(report: ContextReport, width: int) -> Text:
    model = f"{report.provider}:{report.model}" if report.model else "no model yet"
    used = f"{report.used_tokens:,} tokens"
    if report.window_tokens:
        share = 100 * report.used_tokens / report.window_tokens
        used += f" of {report.window_tokens:,} ({share:.0f} %), {report.left_tokens:,} left"
    text = f"{clean_line(report.agent)} · {clean_line(model)} · {used}"
    return Text(crop(text, width), style=HEAD)


def _bar_lines(report: ContextReport, width: int) -> list[Text]:
    """The window as a bar of letters, and what the letters mean."""
    room = max(10, width - 2)
    whole = max(report.window_tokens, report.used_tokens, 1)
    bar, legend, begun, reached = Text("["), Text(" "), 0, 0
    for letter, name, style, groups in _SECTIONS:
        tokens = sum(part.tokens for part in report.parts if part.group in groups)
        reached += tokens
        # From one end to the next, so that rounding never makes the bar longer than its room.
        cells = min(room, -(-reached * room // whole)) - begun
        begun += cells
        bar.append(letter * cells, style=style)
        legend.append(f"{letter} {name} {render_count(tokens)}  ", style=style)
    bar.append("." * (room - begun), style=DIM)
    bar.append("]")
    if (left := report.left_tokens) is not None:
        legend.append(f". left {render_count(left)}", style=DIM)
    legend.truncate(width)
    return [bar, legend]


def _row(name: str, parts: Sequence[ContextPart], report: ContextReport, width: int) -> Text:
    tokens = sum(part.tokens for part in parts)
    share = 100 * tokens / max(report.used_tokens, 1)
    waiting = sum(part.tokens for part in parts if not part.is_sent)
    more = f"  {render_count(waiting)} not sent yet" if waiting else ""
    text = f"  {name:<24}{tokens:>9,}  {share:>3.0f} %{more}"
    return Text(crop(text, width), style=PLAIN if parts else DIM)


def _source_rows(parts: Sequence[ContextPart], width: int, glyphs: Glyphs) -> list[Text]:
    tokens: dict[str, int] = {}
    for part in parts:
        if part.source:
            tokens[part.source] = tokens.get(part.source, 0) + part.tokens
    ordered = sorted(tokens.items(), key=lambda one: -one[1])
    shown = ordered[:_MOST_SOURCES]
    if rest := ordered[_MOST_SOURCES:]:
        shown.append((f"{len(rest)} more", sum(count for _, count in rest)))
    return [
        Text(f"{count:>35,}  {_cut_left(clean_line(source), width - 37, glyphs)}", style=DIM)
        for source, count in shown
    ]


def _cut_left(text: str, room: int, glyphs: Glyphs) -> str:
    """The end of a text: of a path it says most."""
    if cell_len(text) <= room:
        return text
    room = max(1, room - cell_len(glyphs.ellipsis))
    while cell_len(text) > room:
        text = text[max(1, (cell_len(text) - room) // 2) :]
    return glyphs.ellipsis + text


def _remarks(report: ContextReport) -> list[str]:
    known = "counted by the server" if report.counted else "estimated: four bytes are one token"
    remarks = [f"the sum is {known}; parts are shares of it by size"]
    if report.waiting_tokens:
        remarks.append(
            f"{report.waiting_tokens:,} tokens came after the newest request (estimated)"
        )
    if report.cached_tokens:
        remarks.append(f"{report.cached_tokens:,} tokens came from the provider's cache")
    if not report.head_known:
        remarks.append("instructions and tools were not recorded: no request was answered yet")
    return remarks

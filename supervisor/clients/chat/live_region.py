"""The live region above the input line: text that arrives, the folded tree, a question. Pure.

It is never higher than the room it gets. What is cut first: the arriving text, then the tree, then
the details of a question; a question's head and keys stay.
"""

from textwrap import wrap
from typing import Literal

import msgspec
from rich.cells import chop_cells
from rich.segment import Segment

from swarm.mailbox.base.ids import ROOT_PATH
from swarm.mailbox.protocol.control import AgentView, RunView

from ...base.number_format import render_count, render_span, render_usd
from ...base.safe_text import clean_line
from ...views.row_selection import select_tree_rows
from ..console.columns import Line, crop, describe_activity, plan_columns, render_row
from ..console.theme import ATTENTION, BUSY, DIM, HEAD, PLAIN, SELECTED, UNICODE_GLYPHS, WARN

TreeSize = Literal["small", "large", "transcript"]  # the order in which Ctrl-T goes through them
_SMALL_ROWS = 5
_TEXT_ROWS = 6
_NOTICE_ROWS = 3
_WAITING_FOR_MODEL_S = 2.0


class LiveContent(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that the region may show at one moment."""

    view: RunView | None = None
    selected: str = ROOT_PATH
    size: TreeSize = "small"
    arriving: tuple[str, ...] = ()
    arriving_is_answer: bool = False
    queued: tuple[str, ...] = ()
    panel: tuple[str, ...] = ()  # an open question
    panel_foot: tuple[str, ...] = ()
    transcript: tuple[str, ...] = ()  # of the selected agent, its last lines
    notices: tuple[str, ...] = ()  # short texts for the person, newest last
    starting: str = ""


def render_live_region(content: LiveContent, *, width: int, height: int, now: float) -> list[Line]:
    """At most `height` lines (≥ 0) of at most `width` cells."""
    height = max(height - 1, 0)  # a blank line parts it from the transcript
    panel = _panel(content, width, height)
    below = [*_notices(content, width), *_queued(content, width)]
    room = max(height - len(panel), 0)
    below = below[-room:] if room else []
    room -= len(below)
    tree = _tree(content, width, room, now)
    room -= len(tree)
    text = _arriving(content, width, min(room, _TEXT_ROWS))
    lines = [*text, *tree, *panel, *below][:height]
    return [[], *lines] if height else lines


def status_line(view: RunView | None, *, words: str, width: int, alone: bool = False) -> Line:
    """The line below the input: what keys do now, then model, tokens and cost if they fit."""
    parts = [words] if words else []
    if view is not None:
        parts += [clean_line(view.model), f"{render_count(view.usage.total_tokens)} tokens"]
        parts += [] if view.usd is None else [render_usd(view.usd)]
        parts += [] if alone else [_agents(_live_agents(view))]
    line = ""
    for part in parts:
        grown = f"{line} · {part}" if line else part
        if len(grown) > width and line:
            break
        line = grown
    return [Segment(crop(line, width), DIM)]


def describe_wait(agent: AgentView, now: float) -> tuple[str, bool]:
    """What an agent does now in words, and whether it is out of the ordinary.

    Between a request and the first words of its answer nothing else is known than how long.
    """
    silent_s = now - agent.last_progress if agent.last_progress else 0.0
    if agent.state == "running" and not (agent.tool or agent.text or agent.note):
        if silent_s >= _WAITING_FOR_MODEL_S:
            return f"waiting for the model, {render_span(silent_s)}", silent_s > 60
        return "waiting for the model", False
    text, _ = describe_activity(agent)
    return text, False


def _agents(count: int) -> str:
    return "1 agent" if count == 1 else f"{count} agents"


def _live_agents(view: RunView) -> int:
    return sum(agent.state not in {"ended", "queued"} for agent in view.agents)


def _arriving(content: LiveContent, width: int, room: int) -> list[Line]:
    if room <= 0 or not content.arriving:
        return []
    style = PLAIN if content.arriving_is_answer else DIM
    wrapped: list[str] = []
    for line in content.arriving[-room:]:
        indented = line.replace("\t", "    ")
        wrapped += chop_cells(indented, max(width - 2, 1)) if indented else [""]
    return [[Segment(crop(f"  {line}", width), style)] for line in wrapped[-room:]]


def _tree(content: LiveContent, width: int, room: int, now: float) -> list[Line]:
    view = content.view
    if room <= 0:
        return []
    if content.starting:
        return [[Segment(crop(f"• {content.starting}", width), BUSY)]]
    if view is None or not view.agents:
        return []
    if content.size == "transcript":
        lines = content.transcript[-(room - 1) :] if room > 1 else ()
        head = f"{clean_line(content.selected)} (Ctrl-T: back)"
        return [
            [Segment(crop(head, width), HEAD)],
            *([Segment(crop(f"  {line}", width), DIM)] for line in lines),
        ]
    if len(view.agents) == 1:
        return _alone(view.agents[0], width, now)
    rows = min(room, _SMALL_ROWS) if content.size == "small" else room
    shown = select_tree_rows(view.agents, height=rows, keep=content.selected)
    columns = plan_columns(width, shown, model=view.model)
    drawn: list[Line] = []
    for row in shown:
        line = render_row(row, columns, now=now, glyphs=UNICODE_GLYPHS)
        chosen = row.agent is not None and row.agent.path == content.selected
        if chosen and content.selected != ROOT_PATH:
            line = [Segment(cell.text, SELECTED) for cell in line]
        drawn.append(line)
    return drawn


def _alone(agent: AgentView, width: int, now: float) -> list[Line]:
    """One line for an agent without others, only while it works."""
    if agent.state in {"idle", "ended", "suspended"}:
        return []
    text, odd = describe_wait(agent, now)
    return [[Segment(crop(f"• {text or agent.state}", width), WARN if odd else BUSY)]]


def _panel(content: LiveContent, width: int, height: int) -> list[Line]:
    if not content.panel or height <= 0:
        return []
    foot = list(content.panel_foot)
    room = max(height - len(foot), 1)
    text = list(content.panel)
    if len(text) > room:
        text = [*text[: max(room - 1, 1)], f"  … {len(text) - max(room - 1, 1)} more lines"][:room]
    head = [Segment(crop(text[0], width), ATTENTION)]
    body = [[Segment(crop(line, width), PLAIN)] for line in text[1:]]
    return [head, *body, *([Segment(crop(line, width), HEAD)] for line in foot)][:height]


def _queued(content: LiveContent, width: int) -> list[Line]:
    texts = [f"  queued: {clean_line(text)}" for text in content.queued[:3]]
    texts += [f"  and {len(content.queued) - 3} more queued"] if len(content.queued) > 3 else []
    return [[Segment(crop(text, width), DIM)] for text in texts]


def _notices(content: LiveContent, width: int) -> list[Line]:
    lines = [
        line
        for text in content.notices[-2:]
        for line in wrap(clean_line(text), max(width - 2, 1))[:_NOTICE_ROWS]
    ]
    return [[Segment(crop(f"  {line}", width), WARN)] for line in lines]

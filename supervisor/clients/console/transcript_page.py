"""A scrollable page with one agent's transcript, which grows while the run goes on. Pure.

Lines are wrapped to the width; without scrolling the newest lines are shown. Memory is bounded: the
oldest lines are dropped beyond `MOST_LINES`.
"""

from collections import deque
from collections.abc import Iterable

from rich.cells import chop_cells
from rich.segment import Segment
from rich.style import Style
from rich.text import Text

from swarm.mailbox.protocol.control import AgentView
from swarm.mailbox.protocol.records import Record

from ...base.safe_text import clean_block, clean_line
from .agent_transcript import AgentTranscript
from .columns import Line, crop, describe_activity
from .theme import BUSY, DIM, HEAD, PLAIN, Glyphs
from .tree_view import RenderedLines

MOST_LINES = 20_000
_LIVE_LINES = 6  # lines of the text that is arriving
_HINT = "Esc: back to the tree · up, down, PgUp, PgDn, Home, End: scroll"
_LEAVE = " · q: quit"


class TranscriptPage:
    """The page of one agent. `add_records` takes records in order; repeated ones are skipped."""

    def __init__(self, path: str, *, may_leave: bool = True) -> None:
        self.path = path
        self._hint = _HINT + _LEAVE if may_leave else _HINT
        self._transcript = AgentTranscript(path)
        self._lines: deque[tuple[str, Style]] = deque(maxlen=MOST_LINES)
        self._seen = 0
        self._scroll = 0  # wrapped lines below the last visible one
        self._body_height = 1

    def add_records(self, records: Iterable[Record]) -> None:
        """Add the records that are new."""
        for record in records:
            if record.seq > self._seen:
                self._seen = record.seq
                self._lines.extend(_plain(line) for line in self._transcript.add_record(record))

    def handle_key(self, key: str) -> None:
        """Scroll; other keys do nothing."""
        page = max(self._body_height - 1, 1)
        step = {"up": 1, "down": -1, "page_up": page, "page_down": -page, " ": -page}
        if key == "home":
            self._scroll = 1 << 30
        elif key == "end":
            self._scroll = 0
        else:
            self._scroll = max(self._scroll + step.get(key, 0), 0)

    def render(
        self, agent: AgentView | None, *, width: int, height: int, glyphs: Glyphs
    ) -> RenderedLines:
        """At most `height` lines (≥ 1) of at most `width` cells (≥ 1)."""
        head = [_cell(_title(agent, self.path), HEAD, width, glyphs)]
        foot = [_cell(self._hint.replace(" · ", glyphs.dot), DIM, width, glyphs)]
        if height < 4:
            head, foot = head[:height], []
        self._body_height = max(height - len(head) - len(foot), 0)
        below = _streaming_lines(agent) if self._scroll == 0 else []
        body = self._window(width, self._body_height, below)
        return RenderedLines([*head, *body, *foot][:height])

    def _window(self, width: int, room: int, below: list[tuple[str, Style]]) -> list[Line]:
        """The last `room` wrapped lines above the scroll position, which is limited to the first
        line.
        """
        wanted = room + self._scroll
        found: deque[Line] = deque()
        for text, style in (*reversed(below), *reversed(self._lines)):
            parts = chop_cells(text, width) if text else [""]
            found.extendleft([Segment(_fit(part, width), style)] for part in reversed(parts))
            if len(found) >= wanted:
                break
        self._scroll = max(min(self._scroll, len(found) - room), 0)
        end = len(found) - self._scroll
        return list(found)[max(end - room, 0) : end]


def _fit(part: str, width: int) -> str:
    """A character of two cells does not fit into a window of one."""
    return part if width > 1 else crop(part, width, mark="")


def _plain(line: Text) -> tuple[str, Style]:
    return line.plain, line.style if isinstance(line.style, Style) else PLAIN


def _streaming_lines(agent: AgentView | None) -> list[tuple[str, Style]]:
    """What the agent does or writes now, which is not yet a record."""
    if agent is None or agent.state == "ended":
        return []
    if agent.text:
        lines = clean_block(agent.text).rstrip().split("\n")[-_LIVE_LINES:]
        return [("", PLAIN), *((f"  {line}", BUSY) for line in lines)]
    text, style = describe_activity(agent)
    return [("", PLAIN), (f"  {text}", style)] if agent.tool or agent.note else []


def _title(agent: AgentView | None, path: str) -> str:
    if agent is None:
        return clean_line(path)
    parts = [path, f"[{agent.role}]", agent.nickname, agent.end_state or agent.state]
    return clean_line(" ".join(part for part in parts if part))


def _cell(text: str, style: Style, width: int, glyphs: Glyphs) -> Line:
    return [Segment(crop(text, width, mark=glyphs.ellipsis), style)]

"""What a run came to: a line for each agent, totals, changed files, and what to type next. Pure.

Agents that failed, or whose requests were denied, come first, each with a line of its own. If not
all agents have room, the others are grouped by state, with their number.
"""

from collections.abc import Iterator, Sequence

import msgspec
from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style

from swarm.mailbox.base.ids import ROOT_PATH, is_reviewer, short_id
from swarm.mailbox.protocol.control import AgentView, RunView

from ...base.number_format import render_count, render_span, render_usd
from ...base.part_names import PART_NEXT
from ...base.safe_text import clean_line, first_line
from ...views.row_selection import end_word, has_failed
from .columns import Line, crop, fill
from .file_links import FileLinks, FileOpener
from .theme import BAD, DIM, HEAD, PLAIN, STATE_STYLES, UNICODE_GLYPHS, WARN, Glyphs
from .tree_view import header_lines

_GOOD_STATUSES = frozenset({"completed", "partial"})  # the root gave its answer
_MOST_FILES = 8  # names in the line of changed files
_MOST_CELLS = 13  # of a state or a figure
_MIN_ANSWER = 12  # cells; with less room the columns on the left go first
_INDENT = "  "


class RunOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """What else is known about a run once it has ended."""

    changed: tuple[str, ...] = ()  # files in the project, relative to its folder, as they are named
    added: int = 0
    removed: int = 0
    unmerged: str = ""  # `/root/one 2 files, /root/two 1 file`; "": nothing waits
    opener: FileOpener = "file"  # of links to files
    is_kept: bool = True  # False: the run's folder is gone, so no command finds it


class SummaryRoom(msgspec.Struct, frozen=True, kw_only=True):
    """Where it is shown. `lines` 0: as many as there are."""

    width: int = 100
    lines: int = 0
    glyphs: Glyphs = UNICODE_GLYPHS


def summary_lines(
    view: RunView, outcome: RunOutcome, room: SummaryRoom, *, totals: str = ""
) -> list[Line]:
    """The run's name, its agents, totals, files, unmerged work, next commands.

    `totals`: how the run ended, in one line, if that is known.
    """
    tail = [[Segment(totals or describe_totals(view), HEAD)], *outcome_lines(view, outcome, room)]
    lines = max(room.lines - len(tail) - 3, 4) if room.lines else 0
    table = agent_lines(view, msgspec.structs.replace(room, lines=lines))
    return [*header_lines(view, room.width, room.glyphs), *table, *tail]


def outcome_lines(view: RunView, outcome: RunOutcome, room: SummaryRoom) -> Iterator[Line]:
    """The lines below the totals: files, work that is not merged, next commands."""
    if outcome.changed:
        count = len(outcome.changed)
        links = FileLinks(view.cwd, outcome.opener)
        shown = outcome.changed[:_MOST_FILES]
        names = [(clean_line(name), links.style_of(name)) for name in shown]
        more = [(f"and {count - _MOST_FILES} more", PLAIN)] if count > _MOST_FILES else []
        head = f"{count} file{'' if count == 1 else 's'} changed"
        sizes = f", +{outcome.added} -{outcome.removed}" if outcome.added or outcome.removed else ""
        listed = [part for name in (*names, *more) for part in ((", ", PLAIN), name)]
        yield _fitted([(f"{head}{sizes}: ", HEAD), *listed[1:]], room)
    if outcome.unmerged:
        yield _fitted([("not merged yet: ", WARN), (clean_line(outcome.unmerged), PLAIN)], room)
    if outcome.is_kept and view.run_id and view.status not in {"running", "idle"}:
        yield from _wrapped("next: ", next_commands(view, outcome), room)


def next_commands(view: RunView, outcome: RunOutcome) -> list[str]:
    """The commands that fit this end of a run, the most urgent first."""
    run = short_id(view.run_id)
    found: list[str] = []
    if view.fan_failed:
        found.append(f"swarm result {run} --items")
    if view.status in PART_NEXT:
        found += [one.replace("{run}", run) for one in PART_NEXT[view.status]]
    elif view.status not in _GOOD_STATUSES or view.fan_failed:
        found.append(f"swarm resume {run}")
    if outcome.unmerged:
        found.append(f"swarm merge {run}")
    if outcome.changed:
        found += [f"swarm diff {run}", f"swarm undo {run}"]
    agents = ordered_agents(view)
    if len(agents) > 1:
        named = next((one for one in agents if _needs_a_look(one)), agents[-1])
        found.append(f"swarm show {run} {short_name(named.path)}")
    if view.status == "completed" and not view.fan_failed:
        found.append(f"swarm resume {run} -p TEXT")
    return found


def ordered_agents(view: RunView) -> list[AgentView]:
    """Failed ones first, then denied ones, then the others in the order of the tree."""
    own = [agent for agent in view.agents if not is_reviewer(agent.path)]
    return sorted(own, key=lambda agent: (not has_failed(agent), not agent.denied))


def short_name(path: str) -> str:
    """The name that commands take: the path below the root."""
    return clean_line(path if path == ROOT_PATH else path.removeprefix(f"{ROOT_PATH}/"))


def _needs_a_look(agent: AgentView) -> bool:
    return has_failed(agent) or agent.denied > 0


def agent_lines(view: RunView, room: SummaryRoom) -> list[Line]:
    """Headings and a line for each agent; with too little room, groups with their number."""
    agents = ordered_agents(view)
    if not agents:
        return []
    table = _Table(agents, room)
    if not room.lines or len(agents) + 1 <= room.lines:
        return [table.heading(), *(table.row(agent) for agent in agents)]
    return [table.heading(), *_grouped(view, agents, table, room.lines - 1)]


def _grouped(
    view: RunView, agents: Sequence[AgentView], table: "_Table", lines: int
) -> Iterator[Line]:
    """Each state with its number; all agents that need a look, and of the others what fits."""
    groups: dict[str, list[AgentView]] = {}
    for agent in agents:
        groups.setdefault(state_word(agent), []).append(agent)
    urgent = sum(map(_needs_a_look, agents))
    left = max(lines - urgent - 2 * len(groups), 0)
    for state, members in groups.items():
        yield [Segment(f"{state} ({len(members)})", STATE_STYLES.get(state, HEAD))]
        shown = [agent for agent in members if _needs_a_look(agent)]
        others = [agent for agent in members if not _needs_a_look(agent)]
        shown += others[:left]
        left -= min(len(others), left)
        yield from (table.row(agent, indent=_INDENT) for agent in shown)
        if hidden := len(members) - len(shown):
            run = short_id(view.run_id)
            yield [Segment(f"{_INDENT}{hidden} more: swarm show {run} --all", DIM)]


def state_word(agent: AgentView) -> str:
    if agent.state != "ended":
        return clean_line(agent.state) or "ended"
    return clean_line(end_word(agent.end_state, cut_off=agent.cut_off)) or "ended"


class _Table:
    """The columns that have something to say, and what stands in them."""

    def __init__(self, agents: Sequence[AgentView], room: SummaryRoom) -> None:
        self._room = room
        rows = {agent.path: _cells(agent) for agent in agents}
        heads = ("AGENT", "STATE", "STEPS", "TIME", "TOKENS", "COST", "+/-")
        widths = [max(cell_len(row[at]) for row in rows.values()) for at in range(len(heads))]
        widths[0] = min(widths[0], max(room.width // 3, 5))
        widths[1:] = [min(width, _MOST_CELLS) for width in widths[1:]]
        self._columns = [
            (at, head, max(width, len(head)))
            for at, (head, width) in enumerate(zip(heads, widths, strict=True))
            if width
        ]
        while len(self._columns) > 2 and self._answer_width() < _MIN_ANSWER:
            self._columns.pop(self._least_needed())

    def _answer_width(self) -> int:
        return self._room.width - len(_INDENT) - sum(width + 1 for _, _, width in self._columns)

    def _least_needed(self) -> int:
        """Where the column stands that goes first: cost, then steps, tokens, time, changes."""
        known = [head for _, head, _ in self._columns]
        order = ("COST", "STEPS", "TOKENS", "TIME", "+/-")
        return next(known.index(head) for head in order if head in known)

    def heading(self) -> Line:
        cells = [fill(head, width, right=at > 1) for at, head, width in self._columns]
        return _fitted([(" ".join([*cells, "ANSWER"]), DIM)], self._room)

    def row(self, agent: AgentView, *, indent: str = "") -> Line:
        cells, line = _cells(agent), [Segment(indent)] if indent else []
        for at, _, width in self._columns:
            room = width - len(indent) if at == 0 else width
            text = fill(cells[at], room, right=at > 1, mark=self._room.glyphs.ellipsis)
            style = STATE_STYLES.get(cells[1], PLAIN) if at == 1 else PLAIN
            line.append(Segment(text + " ", style))
        words, style = _answer(agent)
        line.append(
            Segment(crop(words, self._answer_width(), mark=self._room.glyphs.ellipsis), style)
        )
        last = line.pop()
        return [*line, Segment(last.text.rstrip(), last.style)]


def _cells(agent: AgentView) -> tuple[str, ...]:
    tokens = agent.usage.total_tokens
    return (
        short_name(agent.path),
        state_word(agent),
        str(agent.steps) if agent.steps else "",
        render_span(agent.worked_s) if agent.worked_s else "",
        render_count(tokens) if tokens else "",
        "" if agent.usd is None else render_usd(agent.usd),
        _change(agent),
    )


def _change(agent: AgentView) -> str:
    """`+120 -14`; with `~` if some of it may be the work of others at the same time."""
    if agent.in_copy and agent.change:
        return clean_line(agent.change.partition(" in ")[0])
    if not (agent.added or agent.removed):
        return ""
    return f"{'~' if agent.shared_change else ''}+{agent.added} -{agent.removed}"


def _answer(agent: AgentView) -> tuple[str, Style]:
    words = agent.note if has_failed(agent) else first_line(agent.result)
    words = clean_line(words or agent.note or agent.task)
    if agent.denied:
        return f"{agent.denied} denied{f', {words}' if words else ''}", BAD
    return words, BAD if has_failed(agent) else DIM


def describe_totals(view: RunView) -> str:
    """`completed: 13 agents (1 failed, 12 completed), 221k tokens, $0.34`."""
    number = sum(not is_reviewer(agent.path) for agent in view.agents) + view.unlisted
    cost = "" if view.usd is None else f", {render_usd(view.usd)}"
    agents = f"{number} agent{'' if number == 1 else 's'}{describe_ends(view)}"
    tokens = f"{render_count(view.usage.total_tokens)} tokens"
    return f"{clean_line(view.status)}: {agents}, {tokens}{cost}"


def describe_ends(view: RunView) -> str:
    """` (1 failed, 12 completed, 2 denied)`; "" if all is well and it need not be said."""
    counts: dict[str, int] = {}
    for agent in ordered_agents(view):
        counts[state_word(agent)] = counts.get(state_word(agent), 0) + 1
    parts = [f"{count} {state}" for state, count in counts.items()]
    if set(counts) <= {"completed"}:
        parts.clear()
    if view.fan_failed:
        parts.append(f"{view.fan_failed} of {view.fan_total} items failed")
    if view.denied:
        parts.append(f"{view.denied} request{'' if view.denied == 1 else 's'} denied")
    return f" ({', '.join(parts)})" if parts else ""


def _fitted(parts: list[tuple[str, Style]], room: SummaryRoom) -> Line:
    """The parts, as far as the width reaches."""
    line: Line = []
    left = room.width
    for text, style in parts:
        shown = crop(text, left, mark=room.glyphs.ellipsis)
        left -= cell_len(shown)
        if shown:
            line.append(Segment(shown, style))
        if shown != text:
            break
    return line


def _wrapped(head: str, words: list[str], room: SummaryRoom) -> Iterator[Line]:
    """Whole commands, so that each can be copied; a new line where one does not fit."""
    text, dot = head, ""
    for word in words:
        if text.strip() and text != head and cell_len(text + dot + word) > room.width:
            yield [Segment(text, DIM)]
            text, dot = " " * len(head), ""
        text += dot + word
        dot = room.glyphs.dot
    if text != head:
        yield [Segment(text, DIM)]

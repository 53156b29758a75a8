"""Select the agents to draw if not all fit the height. Pure.

There are never more rows than requested, and agents left out are counted by state. The priority is:
waits for a person, works or waits, failed, idle, ended most recently, queued. A subtree whose
agents have all ended with an answer is one row; drawn rows keep their place in the tree.
"""

from bisect import bisect_left
from collections import Counter
from heapq import nlargest
from typing import Literal, assert_never

import msgspec

from swarm.mailbox.protocol.control import AgentView

from ..agents.end_states import GOOD_ENDS
from ..base.safe_text import clean_line

SortOrder = Literal["tree", "tokens", "cost", "age", "memory", "context"]

_WORKING_STATES = frozenset({"running", "waiting", "starting", "restarting"})


class TreeRow(msgspec.Struct, frozen=True, kw_only=True):
    """One line. `agent` None: the line that counts what is left out, in `hidden_summary`."""

    agent: AgentView | None = None
    # Per level above: does that branch continue below this row?
    ancestors_continue: tuple[bool, ...] = ()
    last: bool = True  # no sibling below
    depth: int = 0
    collapsed: int = 0  # number of ended descendants that this row represents
    hidden_summary: str = ""


def select_tree_rows(
    agents: tuple[AgentView, ...],
    *,
    height: int,
    open_paths: frozenset[str] = frozenset(),
    keep: str = "",
) -> tuple[TreeRow, ...]:
    """At most `height` rows (≥ 1) of a tree.

    Args:
        agents: Sorted by path, so that a parent precedes its descendants.
        height: Number of lines.
        open_paths: Ended subtrees that a person unfolded.
        keep: The path of an agent that has priority over all others.
    """
    height = max(height, 1)
    depths = [agent.path.count("/") for agent in agents]
    folded = _collapse_ended(agents, depths, open_paths)
    visible = _visible(len(agents), folded)
    if len(visible) <= height:
        return tuple(_make_rows(agents, depths, visible, folded, more=""))
    chosen = _choose(agents, visible, height - 1, keep)
    hidden = [index for index in visible if index not in chosen]
    inside = sum(folded.get(index, 0) for index in hidden)
    more = _describe_hidden(agents, hidden, inside)
    return tuple(_make_rows(agents, depths, sorted(chosen), folded, more=more))


def select_list_rows(
    agents: tuple[AgentView, ...], *, height: int, sort: SortOrder, keep: str = ""
) -> tuple[TreeRow, ...]:
    """At most `height` rows, greatest first, without a tree, like `top`.

    The agent with the path `keep` is drawn last if its rank would leave it out.
    """
    height = max(height, 1)
    order = _ranked(agents, sort)
    if len(order) <= height:
        return tuple(TreeRow(agent=agents[index]) for index in order)
    shown, hidden = order[: height - 1], order[height - 1 :]
    kept = next((index for index in hidden if agents[index].path == keep), None)
    if kept is not None and shown:
        hidden = [shown[-1], *(index for index in hidden if index != kept)]
        shown = [*shown[:-1], kept]
    rows = [TreeRow(agent=agents[index]) for index in shown]
    return (*rows, TreeRow(hidden_summary=_describe_hidden(agents, hidden, 0)))


def paths_in_order(
    agents: tuple[AgentView, ...], *, sort: SortOrder, open_paths: frozenset[str] = frozenset()
) -> tuple[str, ...]:
    """The paths of all agents that can have a line, in drawing order, whatever the height."""
    if sort != "tree":
        return tuple(agents[index].path for index in _ranked(agents, sort))
    depths = [agent.path.count("/") for agent in agents]
    visible = _visible(len(agents), _collapse_ended(agents, depths, open_paths))
    return tuple(agents[index].path for index in visible)


def _ranked(agents: tuple[AgentView, ...], sort: SortOrder) -> list[int]:
    return sorted(
        range(len(agents)), key=lambda index: _sort_key(agents[index], sort), reverse=True
    )


def needs_answer(agent: AgentView) -> bool:
    """True if the agent waits for a person's answer and must stand out."""
    return bool(agent.approval)


def _sort_key(agent: AgentView, sort: SortOrder) -> float:
    match sort:
        case "tokens":
            return agent.usage.total_tokens
        case "cost":
            return agent.usd or 0.0
        case "memory":
            return agent.rss_bytes
        case "context":
            return agent.context_tokens / max(agent.context_window, 1)
        case "age":  # the longest silence among agents that have not ended
            return -agent.last_progress if agent.state != "ended" else -1e18
        case "tree":
            return -agent.started
        case _:
            assert_never(sort)


def _collapse_ended(
    agents: tuple[AgentView, ...], depths: list[int], open_paths: frozenset[str]
) -> dict[int, int]:
    """Index of each ended agent whose descendants have all ended → their number."""
    folded: dict[int, int] = {}
    parents = [index for index in range(len(depths) - 1) if depths[index + 1] > depths[index]]
    done_to = 0
    for index in parents:
        if index < done_to or agents[index].state != "ended" or agents[index].path in open_paths:
            continue
        end = index + 1
        while end < len(depths) and depths[end] > depths[index] and _may_fold(agents[end]):
            end += 1
        if end == len(depths) or depths[end] <= depths[index]:
            folded[index] = end - index - 1
            done_to = end
    return folded


def _may_fold(agent: AgentView) -> bool:
    """True for an agent whose end needs no look: failed ones stay on the screen."""
    return agent.state == "ended" and not has_failed(agent)


def end_word(state: str, *, cut_off: bool) -> str:
    """How an agent ended. Who was cut off by the end of the run was interrupted by nobody."""
    return "cut off" if cut_off and state == "interrupted" else state


def has_failed(agent: AgentView) -> bool:
    """True if it ended in another way than with an answer."""
    return agent.state == "ended" and agent.end_state not in (*GOOD_ENDS, "")


def _visible(count: int, folded: dict[int, int]) -> list[int]:
    visible: list[int] = []
    begin = 0
    for index, size in folded.items():  # ascending, never nested
        visible.extend(range(begin, index + 1))
        begin = index + size + 1
    visible.extend(range(begin, count))
    return visible


def _choose(agents: tuple[AgentView, ...], visible: list[int], room: int, keep: str) -> set[int]:
    """The indexes to draw: by priority, each with its ancestors."""
    chosen: set[int] = set()
    first = [index for index in visible if keep and agents[index].path == keep]
    for index in (*first, *_by_priority(agents, visible, room)):
        if len(chosen) >= room:
            break
        line = {index, *_ancestors(agents, index)} - chosen
        if len(chosen) + len(line) <= room:
            chosen |= line
    return chosen


def _ancestors(agents: tuple[AgentView, ...], index: int) -> list[int]:
    found: list[int] = []
    path = agents[index].path.rpartition("/")[0]
    while path:
        above = bisect_left(agents, path, hi=index, key=_path_of)
        if agents[above].path == path:
            found.append(above)
        path = path.rpartition("/")[0]
    return found


def _path_of(agent: AgentView) -> str:
    return agent.path


def _by_priority(agents: tuple[AgentView, ...], visible: list[int], room: int) -> list[int]:
    """The indexes by priority; of the ended agents only the most recent `room`."""
    ended = [index for index in visible if agents[index].state == "ended"]
    going = [index for index in visible if agents[index].state != "ended"]
    ranks: dict[int, list[int]] = {rank: [] for rank in range(4)}
    for index in going:
        ranks[_priority(agents[index])].append(index)
    failed = [index for index in ended if has_failed(agents[index])][:room]
    recent = nlargest(room, ended, key=lambda index: agents[index].last_progress)
    return [*visible[:1], *ranks[0], *ranks[1], *failed, *ranks[2], *recent, *ranks[3][:room]]


def _priority(agent: AgentView) -> int:
    if needs_answer(agent):
        return 0
    if agent.state in _WORKING_STATES:
        return 1
    return 3 if agent.state == "queued" else 2


def _make_rows(
    agents: tuple[AgentView, ...],
    depths: list[int],
    shown: list[int],
    folded: dict[int, int],
    *,
    more: str,
) -> list[TreeRow]:
    """The rows with their tree positions; built from below, so that each knows what follows."""
    rows: list[TreeRow] = []
    top = min((depths[index] for index in shown), default=1)
    goes_on: list[bool] = []  # per depth: is there a row of that depth below, in this branch?
    if more:
        rows.append(TreeRow(hidden_summary=more, depth=1))
        goes_on = [False, True]
    for index in reversed(shown):
        depth = depths[index] - top
        known = goes_on[: depth + 1] + [False] * (depth + 1 - len(goes_on))
        rows.append(
            TreeRow(
                agent=agents[index],
                ancestors_continue=tuple(known[1:depth]),
                last=not known[depth],
                depth=depth,
                collapsed=folded.get(index, 0),
            )
        )
        known[depth] = True
        goes_on = known
    rows.reverse()
    return rows


def _describe_hidden(agents: tuple[AgentView, ...], hidden: list[int], inside: int) -> str:
    """`… 163 more: 150 completed, 13 queued`; the most frequent first."""
    kinds = Counter([agents[index].end_state or agents[index].state for index in hidden])
    parts = [f"{number} {clean_line(kind)}" for kind, number in kinds.most_common(6)]
    if inside:
        parts.append(f"{inside} inside them")
    return f"… {len(hidden) + inside} more: {', '.join(parts)}"

"""Which agents are drawn when not all of them fit."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from swarm.mailbox.protocol.control import AgentView
from swarm.mailbox.protocol.items import TokenUsage
from swarm.supervisor.views.row_selection import select_list_rows, select_tree_rows


def agent(path, state="running", *, at=0.0, end="", note="", tokens=0, approval=""):
    return AgentView(
        path=path,
        state=state,
        end_state=end or ("completed" if state == "ended" else ""),
        last_progress=at,
        note=note,
        approval=approval,
        usage=TokenUsage(total_tokens=tokens),
    )


def tree(*agents):
    return tuple(sorted(agents, key=lambda view: view.path))


def names(rows):
    return [row.agent.path.rpartition("/")[2] if row.agent else row.hidden_summary for row in rows]


FLAT = tree(
    agent("/root", "idle"),
    agent("/root/a", "ended", at=1),
    agent("/root/b", "ended", at=3),
    agent("/root/c", "running"),
    agent("/root/d", "queued"),
    agent("/root/e", "waiting", note="needs approval a1: rm -rf build", approval="a1"),
    agent("/root/f", "idle"),
    agent("/root/g", "ended", at=2, end="failed"),
)


@pytest.mark.parametrize(
    ("height", "expected"),
    [
        (8, ["root", "a", "b", "c", "d", "e", "f", "g"]),
        (7, ["root", "b", "c", "e", "f", "g", "… 2 more: 1 completed, 1 queued"]),
        (5, ["root", "c", "e", "g", "… 4 more: 2 completed, 1 queued, 1 idle"]),
        (3, ["root", "e", "… 6 more: 2 completed, 1 running, 1 queued, 1 idle, 1 failed"]),
        (2, ["root", "… 7 more: 2 completed, 1 running, 1 queued, 1 waiting, 1 idle, 1 failed"]),
    ],
)
def test_who_waits_for_a_person_comes_first_then_those_at_work_then_failed_ones(height, expected):
    assert names(select_tree_rows(FLAT, height=height)) == expected


DEEP = tree(
    agent("/root"),
    agent("/root/a", "ended"),
    agent("/root/a/b", "ended"),
    agent("/root/a/b/c", "ended"),
    agent("/root/a/d", "ended"),
    agent("/root/ab", "ended"),
    agent("/root/z", "ended"),
    agent("/root/z/live"),
)


def test_a_subtree_that_ended_as_a_whole_is_one_row():
    rows = select_tree_rows(DEEP, height=40)
    assert names(rows) == ["root", "a", "ab", "z", "live"]
    assert [row.collapsed for row in rows] == [0, 3, 0, 0, 0]


def test_a_folded_subtree_can_be_opened():
    rows = select_tree_rows(DEEP, height=40, open_paths=frozenset({"/root/a"}))
    assert names(rows) == ["root", "a", "b", "d", "ab", "z", "live"]
    assert [row.collapsed for row in rows] == [0, 0, 1, 0, 0, 0, 0]


def test_a_living_agent_keeps_its_ended_ancestors_above_it():
    rows = select_tree_rows(DEEP, height=4)
    assert names(rows) == ["root", "z", "live", "… 5 more: 2 completed, 3 inside them"]


def test_what_follows_below_is_known_to_each_row():
    rows = select_tree_rows(DEEP, height=40, open_paths=frozenset({"/root/a", "/root/a/b"}))
    assert [(row.depth, row.last, row.ancestors_continue) for row in rows] == [
        (0, True, ()),
        (1, False, ()),
        (2, False, (True,)),
        (3, True, (True, True)),
        (2, True, (True,)),
        (1, False, ()),
        (1, True, ()),
        (2, True, (False,)),
    ]


def test_a_list_is_sorted_as_top_sorts_it():
    agents = tree(*(agent(f"/root/a{n}", tokens=n * 7 % 5) for n in range(5)))
    rows = select_list_rows(agents, height=3, sort="tokens")
    assert names(rows) == ["a2", "a4", "… 3 more: 3 running"]


STATES = st.sampled_from(["running", "ended", "queued", "idle", "waiting", "suspended"])
SEGMENTS = st.sampled_from(["a", "ab", "b", "a0"])
PATHS = st.lists(SEGMENTS, max_size=4).map(lambda parts: "/".join(["/root", *parts]))


@settings(max_examples=150, deadline=None)
@given(st.dictionaries(PATHS, STATES, max_size=30), st.integers(-1, 12))
def test_never_more_rows_than_lines_and_nobody_is_counted_twice(states, height):
    agents = tree(*(agent(path, state) for path, state in states.items()))
    rows = select_tree_rows(agents, height=height)
    assert len(rows) <= max(height, 1)
    shown = [row.agent.path for row in rows if row.agent]
    assert shown == sorted(shown)
    hidden = sum(int(row.hidden_summary.split()[1]) for row in rows if row.agent is None)
    assert hidden + sum(1 + row.collapsed for row in rows if row.agent) == len(agents)

"""What keys do to the tree and to a transcript page: a pure table, and pictures that always fit."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from swarm.mailbox.protocol.control import AgentView, RunView
from swarm.mailbox.protocol.events import Warned
from swarm.mailbox.protocol.records import Record
from swarm.supervisor.clients.console.theme import UNICODE_GLYPHS
from swarm.supervisor.clients.console.transcript_page import TranscriptPage
from swarm.supervisor.clients.console.tree_navigation import SORTS, TreeNavigation, handle_key
from swarm.supervisor.clients.console.tree_view import TreeOptions, render_run
from swarm.supervisor.views.row_selection import (
    paths_in_order,
    select_list_rows,
    select_tree_rows,
)

PATHS = ("/root", "/root/a", "/root/b", "/root/b/c")
VIEW = RunView(agents=tuple(AgentView(path=path, state="running") for path in PATHS))
MANY = RunView(
    agents=(
        AgentView(path="/root", state="running"),
        *(AgentView(path=f"/root/w{n:03}", state="queued") for n in range(200)),
    )
)


def after(*keys: str, view: RunView = VIEW, browse: TreeNavigation | None = None) -> TreeNavigation:
    browse = browse or TreeNavigation()
    for key in keys:
        browse = handle_key(browse, key, view)
    return browse


@pytest.mark.parametrize(
    ("keys", "selected"),
    [
        (("down",), "/root"),
        (("down", "down"), "/root/a"),
        (("up",), "/root/b/c"),
        (("down", "up", "up"), "/root"),
        (("end",), "/root/b/c"),
        (("end", "home"), "/root"),
        (("down", "page_down"), "/root/b/c"),
        (("down", "esc"), ""),
        (("x", "é", "tab"), ""),
    ],
)
def test_keys_move_the_selection_and_stop_at_the_ends(keys, selected):
    assert after(*keys).selected == selected


def test_enter_opens_the_selected_agent_and_escape_goes_back_to_it():
    assert after("enter").opened == ""
    browse = after("down", "down", "enter")
    assert browse.opened == "/root/a"
    assert after("down", "s", browse=browse) == browse, "the page has these keys"
    assert after("esc", browse=browse) == after("down", "down")
    assert after("q", browse=browse).left


def test_s_goes_through_every_order_and_comes_back():
    seen = [after(*["s"] * count).sort for count in range(len(SORTS) + 1)]
    assert seen == [*SORTS, SORTS[0]]


def test_an_ended_subtree_is_unfolded_and_folded_by_keys():
    done = {"state": "ended", "end_state": "completed"}
    ended = RunView(agents=tuple(AgentView(path=path, **done) for path in PATHS))
    folded = after("down", "down", view=ended)
    assert folded.selected == "/root"
    assert after("right", "down", view=ended, browse=folded).selected == "/root/a"
    assert after("right", "left", view=ended, browse=folded) == folded


def test_whoever_is_selected_has_a_line_however_few_there_are():
    for path in ("/root/w000", "/root/w117", "/root/w199"):
        tree = select_tree_rows(MANY.agents, height=8, keep=path)
        flat = select_list_rows(MANY.agents, height=8, sort="age", keep=path)
        for rows in (tree, flat):
            assert len(rows) == 8
            assert path in {row.agent.path for row in rows if row.agent}
            assert rows[-1].hidden_summary
    assert len(paths_in_order(MANY.agents, sort="tokens")) == 201


def test_the_selected_line_stands_out_over_the_whole_width_and_the_hint_is_last():
    options = TreeOptions(selected="/root/a", hint="q: quit")
    picture = render_run(VIEW, width=60, height=20, now=0, options=options)
    (marked,) = [line for line in picture.lines if any(c.style and c.style.reverse for c in line)]
    assert "a" in "".join(cell.text for cell in marked)
    assert sum(len(cell.text) for cell in marked) == 60
    assert picture.text.endswith("q: quit")


@given(
    st.text(max_size=20),
    st.sampled_from(["/root/a", "/root/nobody", ""]),
    st.integers(1, 150),
    st.integers(1, 30),
)
def test_a_tree_with_hint_and_selection_never_leaves_its_window(hint, selected, width, height):
    options = TreeOptions(selected=selected, hint=hint.replace("\n", " "))
    picture = render_run(VIEW, width=width, height=height, now=0, options=options)
    assert len(picture.lines) <= height
    assert max(picture.widths, default=0) <= width


def told(count: int, *, words: str = "line") -> list[Record]:
    return [
        Record(seq=number, ts=0.0, agent="/root/a", body=Warned(message=f"{words} {number}"))
        for number in range(1, count + 1)
    ]


def shown(page: TranscriptPage, *, width: int = 40, height: int = 10) -> list[str]:
    picture = page.render(None, width=width, height=height, glyphs=UNICODE_GLYPHS)
    assert len(picture.lines) <= height
    assert max(picture.widths, default=0) <= width
    return picture.text.split("\n")


def test_the_newest_lines_are_shown_and_keys_scroll_to_the_first():
    page = TranscriptPage("/root/a")
    page.add_records(told(100))
    page.add_records(told(100))  # the same again, as when journal and feed overlap
    assert shown(page)[1:-1] == [f"warning: line {n}" for n in range(93, 101)]
    page.handle_key("up")
    assert shown(page)[-2] == "warning: line 99"
    for _ in range(3):
        page.handle_key("home")
        assert shown(page)[1] == "warning: line 1"
    page.handle_key("page_down")
    assert shown(page)[1] == "warning: line 8"
    page.handle_key("end")
    assert shown(page)[-2] == "warning: line 100"


def test_what_arrives_now_stands_below_what_is_written():
    page = TranscriptPage("/root/a")
    page.add_records(told(2))
    agent = AgentView(path="/root/a", state="running", text="thinking\nabout it")
    text = page.render(agent, width=40, height=12, glyphs=UNICODE_GLYPHS).text
    assert "  about it" in text
    ended = msgspec.structs.replace(agent, state="ended", end_state="completed")
    assert "about it" not in page.render(ended, width=40, height=12, glyphs=UNICODE_GLYPHS).text


@given(st.text(max_size=300), st.integers(1, 90), st.integers(1, 20), st.integers(0, 8))
def test_a_page_never_leaves_its_window(words, width, height, ups):
    page = TranscriptPage("/root/a")
    page.add_records(told(6, words=words))
    for _ in range(ups):
        page.handle_key("up")
    shown(page, width=width, height=height)

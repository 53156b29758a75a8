"""The live region fits its room, whatever happens in the run; its height after a resize."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from swarm.mailbox.protocol.control import AgentView, RunView
from swarm.supervisor.clients.chat.live_region import (
    LiveContent,
    describe_wait,
    render_live_region,
    status_line,
)
from swarm.supervisor.clients.chat.reflow import rows_above_cursor


def text_of(lines):
    return ["".join(cell.text for cell in line).rstrip() for line in lines]


def agents(count):
    return (
        AgentView(path="/root", state="waiting", tool="wait_agent"),
        *(
            AgentView(path=f"/root/a{n:02}", state="running", tool="exec_command", argument="ls")
            for n in range(count)
        ),
    )


def test_forty_agents_are_folded_into_a_few_lines_or_as_many_as_fit():
    view = RunView(agents=agents(40))
    small = render_live_region(LiveContent(view=view), width=80, height=20, now=1.0)
    assert len(small) == 6
    assert "… 37 more: 37 running" in text_of(small)[-1]
    large = render_live_region(LiveContent(view=view, size="large"), width=80, height=20, now=1.0)
    assert len(large) == 20


def test_the_selected_agent_is_always_shown():
    view = RunView(agents=agents(40))
    content = LiveContent(view=view, selected="/root/a39")
    assert any(
        "a39" in line for line in text_of(render_live_region(content, width=80, height=20, now=1.0))
    )


def test_the_keys_of_a_question_stay_when_its_details_do_not_fit():
    content = LiveContent(
        panel=("a1 /root wants to run a command", *(f"  detail {n}" for n in range(30))),
        panel_foot=("  y once · n no",),
    )
    lines = text_of(render_live_region(content, width=40, height=7, now=0.0))
    assert lines[1] == "a1 /root wants to run a command"
    assert lines[-2:] == ["  … 27 more lines", "  y once · n no"]
    assert len(lines) == 7


@given(
    width=st.integers(1, 120),
    height=st.integers(0, 40),
    count=st.integers(0, 12),
    size=st.sampled_from(["small", "large", "transcript"]),
    words=st.text(max_size=200),
)
def test_the_region_never_leaves_its_room(width, height, count, size, words):
    content = LiveContent(
        view=RunView(agents=agents(count)),
        size=size,
        arriving=(words.replace("\n", " "),),
        queued=(words, "b", "c", "d"),
        panel=("head", "detail"),
        panel_foot=("keys",),
        transcript=("one", "two"),
        notices=(words,),
    )
    lines = render_live_region(content, width=width, height=height, now=0.0)
    assert len(lines) <= height
    assert all(cell_len("".join(cell.text for cell in line)) <= width for line in lines[:1])


@pytest.mark.parametrize(
    ("agent", "words"),
    [
        (
            AgentView(path="/root", state="running", last_progress=100.0),
            "waiting for the model, 43 s",
        ),
        (AgentView(path="/root", state="running", last_progress=142.0), "waiting for the model"),
        (AgentView(path="/root", state="running", text="so\nI say"), "I say"),
        (AgentView(path="/root", state="running", tool="exec_command", argument="ls"), "$ ls"),
    ],
)
def test_a_silent_model_is_named_not_ones_own_words(agent, words):
    assert describe_wait(agent, 143.0)[0] == words


def test_the_status_line_leaves_out_what_does_not_fit():
    view = RunView(model="big-model", agents=agents(2))
    wide = "".join(cell.text for cell in status_line(view, words="1a2b", width=80))
    assert wide == "1a2b · big-model · 0 tokens · 3 agents"
    narrow = "".join(cell.text for cell in status_line(view, words="1a2b", width=20))
    assert narrow == "1a2b · big-model"


@pytest.mark.parametrize(
    ("widths", "row", "column", "columns", "above"),
    [
        ([], 0, 0, 80, 0),
        ([10, 10], 1, 4, 80, 1),
        ([80, 80, 10], 2, 4, 40, 4),
        ([0, 0], 1, 50, 20, 3),
        ([81], 1, 0, 80, 2),
    ],
)
def test_rows_above_the_cursor_after_a_change_of_width(widths, row, column, columns, above):
    assert rows_above_cursor(widths, row, column, columns) == above

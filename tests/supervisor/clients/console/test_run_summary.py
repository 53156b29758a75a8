"""What is said of a run that has ended: its agents, files, unmerged work and the next commands."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from swarm.mailbox.protocol.control import AgentView, RunView
from swarm.mailbox.protocol.items import TokenUsage
from swarm.supervisor.clients.console.answer_markdown import render_answer
from swarm.supervisor.clients.console.run_summary import (
    RunOutcome,
    SummaryRoom,
    next_commands,
    summary_lines,
)
from swarm.supervisor.clients.console.tree_view import RenderedLines


def agent(path, end="completed", **fields):
    return AgentView(path=path, state="ended", end_state=end, **fields)


RUN = RunView(
    run_id="0193-0000-1a2b3c4d",
    title="Modernize the shop",
    provider="openai",
    model="big",
    status="completed",
    agents=(
        agent("/root", result="All is in.", steps=4, worked_s=38.0, usd=0.2),
        agent("/root/ann", result="Pagination.\nMore.", steps=9, worked_s=12.4, added=10, removed=2,
              usage=TokenUsage(total_tokens=16_000), usd=0.025),
        agent("/root/bob", result="Slugs.", denied=2, added=1, shared_change=True),
        agent("/root/mid", "failed", note="400 Bad Request", worked_s=2.0),
    ),
    usage=TokenUsage(total_tokens=221_000),
    usd=0.34,
    denied=2,
)  # fmt: skip
OUTCOME = RunOutcome(changed=("a.py", "b.py"), added=11, removed=2, unmerged="/root/ann 2 files")


def text(view=RUN, outcome=OUTCOME, **room):
    return RenderedLines(summary_lines(view, outcome, SummaryRoom(**room))).text.split("\n")


def test_each_agent_has_a_line_and_what_went_wrong_comes_first():
    assert text(width=90) == [
        "swarm 1a2b3c4d  Modernize the shop",
        "openai · big",
        "AGENT STATE     STEPS  TIME TOKENS   COST    +/- ANSWER",
        "mid   failed          2.0 s                      400 Bad Request",
        "bob   completed                           ~+1 -0 2 denied, Slugs.",
        "/root completed     4  38 s         $0.20        All is in.",
        "ann   completed     9  12 s    16k $0.025 +10 -2 Pagination.",
        "completed: 4 agents (1 failed, 3 completed, 2 requests denied), 221k tokens, $0.34",
        "2 files changed, +11 -2: a.py, b.py",
        "not merged yet: /root/ann 2 files",
        "next: swarm merge 1a2b3c4d · swarm diff 1a2b3c4d · swarm undo 1a2b3c4d",
        "      swarm show 1a2b3c4d mid · swarm resume 1a2b3c4d -p TEXT",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, ["show 1a2b3c4d mid", "resume 1a2b3c4d -p TEXT"]),
        ({"agents": ()}, ["resume 1a2b3c4d -p TEXT"]),
        ({"status": "interrupted"}, ["resume 1a2b3c4d", "show 1a2b3c4d mid"]),
        ({"status": "stopped"}, ["resume 1a2b3c4d", "show 1a2b3c4d mid"]),
        (
            {"status": "partial", "fan_total": 3, "fan_failed": 1},
            ["result 1a2b3c4d --items", "resume 1a2b3c4d", "show 1a2b3c4d mid"],
        ),
    ],
)
def test_the_next_commands_fit_the_end(changes, expected):
    found = next_commands(replace(RUN, **changes), RunOutcome())
    assert found == [f"swarm {command}" for command in expected]


def test_a_run_whose_folder_is_gone_names_no_command():
    assert "swarm " not in "\n".join(text(outcome=RunOutcome(is_kept=False))[1:])


def test_more_than_a_screen_is_grouped_and_all_that_failed_has_a_line():
    many = tuple(
        agent(f"/root/a{n:03}", "failed" if n % 40 == 7 else "completed") for n in range(200)
    )
    lines = text(replace(RUN, agents=(RUN.agents[0], *many), denied=0), width=80, lines=24)
    assert len(lines) <= 24
    assert [line for line in lines if line.startswith(("failed (", "completed ("))] == [
        "failed (5)", "completed (196)",
    ]  # fmt: skip
    assert sum("failed" in line for line in lines if line.startswith("  a")) == 5
    assert any(line.endswith("more: swarm show 1a2b3c4d --all") for line in lines)
    assert len(text(replace(RUN, agents=many), width=80)) > 200


HOSTILE = "[red]x[/] \x1b[31mred\x1b]0;title\x07 a\nb\r\x9b2J‮gnp.exe 漢字漢字 👩‍👩‍👧"


@given(width=st.integers(1, 200), lines=st.integers(0, 40), tail=st.text(max_size=20))
def test_no_line_is_wider_than_the_screen_and_nothing_acts_on_it(width, lines, tail):
    words = HOSTILE + tail
    agents = tuple(
        agent(f"/root/{words}{n}", words, result=words, note=words, change=words, in_copy=n == 1)
        for n in range(3)
    )
    view = replace(RUN, agents=agents, title=words, provider=words, status="failed")
    outcome = RunOutcome(changed=(words,), unmerged=words)
    room = SummaryRoom(width=width, lines=lines)
    picture = RenderedLines(summary_lines(view, outcome, room))
    commands = [line for line in picture.text.split("\n") if "swarm " in line]
    assert not {"\x1b", "\r", "\x07", "\x9b", "\u202e"} & set(picture.text)
    long = [size for size in picture.widths if size > max(width, 60)]
    assert len(long) <= len(commands) + 1


def test_an_answer_is_shown_as_markdown_wrapped_at_words_and_json_as_it_is():
    def shown(answer):
        return render_answer(answer, width=30, coloured=False, environment={})

    plain = re.sub(
        r"\x1b\[[0-9;]*m", "", shown("All is **merged**: see `docs/providers.md` there.")
    )
    assert plain.split("\n") == ["All is merged: see", "docs/providers.md there.", ""]
    assert shown('{"a_b_c": "*x*"}') == '{"a_b_c": "*x*"}'
    assert "\x1b]" not in shown(HOSTILE)
    assert "\x9b" not in shown(HOSTILE)


def test_changed_files_are_links_whatever_they_are_called():
    outcome = RunOutcome(changed=("a b.py", "x\x1b]8;;evil\x07.py"))
    lines = summary_lines(replace(RUN, cwd="/w"), outcome, SummaryRoom(width=100))
    links = [cell.style.link for line in lines for cell in line if cell.style and cell.style.link]
    assert links == ["file:///w/a%20b.py", "file:///w/x%1B%5D8%3B%3Bevil%07.py"]

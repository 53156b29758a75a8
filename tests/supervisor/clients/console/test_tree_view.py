"""The picture of a run: what is on each line, and that nothing ever wraps or escapes."""

import io

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

from swarm.mailbox.parts.part_messages import PartFigures
from swarm.mailbox.protocol.control import AgentView, RunView
from swarm.mailbox.protocol.items import TokenUsage
from swarm.mailbox.protocol.values.limits import Budget
from swarm.supervisor.clients.console.theme import ASCII_GLYPHS, glyphs_for
from swarm.supervisor.clients.console.tree_view import (
    TreeOptions,
    export_svg,
    render_final,
    render_run,
)

AGENTS = (
    AgentView(
        path="/root",
        state="waiting",
        model="big",
        tool="wait_agent",
        last_progress=995.0,
        usage=TokenUsage(total_tokens=12_345),
        usd=0.12,
        context_tokens=4_000,
        context_window=10_000,
        rss_bytes=31_000_000,
        steps=7,
        turn_began=880.0,
    ),
    AgentView(
        path="/root/builder",
        role="worker",
        state="waiting",
        note="approval: git push",
        approval="a1",
        model="big",
        last_progress=900.0,
    ),
    AgentView(
        path="/root/done",
        role="explorer",
        state="ended",
        end_state="completed",
        result="It is a queue.\nMore.",
        usage=TokenUsage(total_tokens=2_000_000),
    ),
    AgentView(
        path="/root/scout",
        role="explorer",
        nickname="Ada",
        state="running",
        model="small",
        tool="exec_command",
        argument="rg -n 'def main' src",
        steps=2,
        worked_s=4.0,
        turn_began=995.0,
        last_progress=998.0,
        usage=TokenUsage(total_tokens=900),
        usd=0.003,
    ),
    AgentView(path="/root/scout/deep", state="ended", end_state="failed", note="no such file"),
)
RUN = RunView(
    run_id="0193-0000-1a2b3c4d",
    title="Survey the house",
    provider="openai",
    model="big",
    why="OPENAI_API_KEY is set",
    started=880.0,
    agents=AGENTS,
    usage=TokenUsage(total_tokens=2_013_245),
    usd=0.123,
    slots_used=3,
    slots_max=8,
    warnings=1,
    throttle="rate limit, next request in 12 s, 3 waiting",
)


def test_at_80_columns_it_reads_like_this():
    assert render_run(RUN, width=80, height=24, now=1000.0).text.split("\n") == [
        "swarm 1a2b3c4d  Survey the house",
        "openai · big · OPENAI_API_KEY is set",
        "AGENT               STATE     NOW                         STEPS TIME TOKENS  CTX",
        "/root               waiting   wait_agent                      7   2m    12k  40%",
        "├─ builder [worker] waiting   approval: git push",
        "├─ done [explorer]  completed It is a queue.                           2.0M",
        "└─ scout [explorer] running   $ rg -n 'def main' src          2   9s    900",
        "   └─ deep          failed    no such file",
        "2/4 ━━━━━━━━──────── 1 done · 2 running · 1 failed",
        "rate limit, next request in 12 s, 3 waiting · slots 3/8 · 2.0M tokens · $0.12",
    ]


@pytest.mark.parametrize(
    ("count", "text"), [(0, ""), (1, " · 1 finding · "), (2, " · 2 findings · ")]
)
def test_the_footer_counts_the_findings(count, text):
    run = msgspec.structs.replace(RUN, throttle="", parts=PartFigures(findings=count))
    last = render_run(run, width=120, height=24, now=1000.0).text.split("\n")[-1]
    assert text in last
    assert ("finding" in last) is bool(count)


def test_at_120_columns_model_cost_and_memory_are_there_too():
    lines = render_run(RUN, width=120, height=24, now=1000.0).text.split("\n")
    assert lines[2].split() == [
        "AGENT", "MODEL", "STATE", "NOW", "STEPS", "TIME", "TOKENS", "COST", "CTX", "MEM",
    ]  # fmt: skip
    assert lines[3].split() == [
        "/root", "[default]", "big", "waiting", "wait_agent", "7", "2m", "12k", "$0.12", "40%",
        "30M",
    ]  # fmt: skip
    assert lines[6].split()[:4] == ["└─", "scout", "[explorer]", "small"]


def test_a_model_that_all_have_is_named_once():
    agents = tuple(msgspec.structs.replace(one, model="big") for one in AGENTS)
    run = msgspec.structs.replace(RUN, agents=agents)
    assert render_run(run, width=200, height=24, now=1000.0).text.count("big") == 1


def test_silence_is_said_in_words_and_only_when_it_is_long():
    agents = (AgentView(path="/root", state="running", text="hm", last_progress=880.0),)
    run = msgspec.structs.replace(RUN, agents=agents)
    assert "silent 2m, hm" in render_run(run, width=80, height=24, now=1000.0).text
    assert "silent" not in render_run(run, width=80, height=24, now=900.0).text


def test_the_cost_stands_beside_its_budget():
    run = msgspec.structs.replace(RUN, throttle="", budget=Budget(usd=2.0))
    last = render_run(run, width=120, height=24, now=1000.0).text.split("\n")[-1]
    assert "$0.12 of $2.00 (6%)" in last
    assert last.count("$") == 2


def test_the_same_view_is_the_same_picture():
    first, second = (render_run(RUN, width=97, height=9, now=1000.0) for _ in range(2))
    assert first.text == second.text


def test_two_hundred_agents_fit_on_forty_lines():
    many = tuple(
        AgentView(path=f"/root/a{n:03}", state="ended" if n < 150 else "running", end_state="")
        for n in range(200)
    )
    run = RunView(agents=(AgentView(path="/root", state="idle"), *many))
    picture = render_run(run, width=80, height=40, now=0.0)
    assert len(picture.lines) == 40
    assert "… 167 more: 150 ended, 17 running" in picture.text
    assert max(picture.widths) <= 80


def test_a_fan_out_shows_how_far_it_is_and_when_it_will_be_done():
    ended = tuple(
        AgentView(path=f"/root/i{n}", state="ended", end_state="completed", last_progress=950.0)
        for n in range(6)
    )
    going = (AgentView(path="/root/j", state="running"),)
    run = RunView(
        agents=ended + going, started=940.0, fan_total=12, fan_done=5, fan_failed=1, slots_used=2
    )
    lines = render_run(run, width=120, height=20, now=1000.0).text.split("\n")
    assert lines[-2].startswith("6/12 ━━━━━━━━━━━━────────────")
    assert lines[-2].endswith("5 done · 1 running · 1 failed · about 1 m 00 s left · 6.0/min")


def test_what_is_left_at_the_end_is_folded():
    many = tuple(
        AgentView(path=f"/root/a{n:03}", state="ended", end_state="completed") for n in range(99)
    )
    run = RunView(agents=(AgentView(path="/root", state="idle"), *many), status="completed")
    picture = render_final(run, width=80, height=50, now=0.0)
    assert len(picture.lines) <= 20
    assert picture.text.split("\n")[-1] == "└─ … 85 more: 85 completed"


HOSTILE = "[red]x[/] \x1b[31mred\x1b]0;title\x07 a\nb\r\x9b2J\u202egnp.exe 漢字漢字 👩‍👩‍👧 \x00é́"


def test_hostile_text_is_only_text():
    hostile = AgentView(
        path="/root", role="[bold]", nickname=HOSTILE, tool=HOSTILE, argument=HOSTILE, model="m"
    )
    run = RunView(title=HOSTILE, provider=HOSTILE, agents=(hostile,), throttle=HOSTILE)
    picture = render_run(run, width=200, height=9, now=0.0)
    file = io.StringIO()
    Console(file=file, force_terminal=True, width=200, _environ={}).print(picture)
    written = file.getvalue()
    assert "[red]x[/] ⟨ESC⟩[31mred⟨ESC⟩]0;title⟨BEL⟩ a b" in picture.text
    assert "\x1b[31m" not in written
    assert "\x1b]" not in written
    assert not set(picture.text) & set("\x00\x07\r\x9b\u202e")
    assert len(picture.lines) == 5


@pytest.mark.parametrize("width", [1, 5, 10, 20, 29, 30, 47, 48, 60, 70, 80, 100, 120, 150, 200])
@pytest.mark.parametrize("height", [1, 2, 3, 5, 24])
def test_nothing_is_wider_or_higher_than_the_screen(width, height):
    picture = render_run(RUN, width=width, height=height, now=1e9)
    assert len(picture.lines) <= height
    assert max(picture.widths) <= width


TEXT = st.text(max_size=60)
VIEWS = st.builds(
    AgentView,
    path=st.lists(st.sampled_from("abc"), max_size=9).map(lambda p: "/".join(["/root", *p])),
    role=TEXT,
    nickname=TEXT,
    model=TEXT,
    state=st.sampled_from(["running", "ended", "waiting", "idle"]),
    end_state=TEXT,
    tool=TEXT,
    argument=TEXT,
    note=TEXT,
    text=TEXT,
    result=TEXT,
    usd=st.none() | st.floats(0, 1e9),
    rss_bytes=st.integers(0, 10**15),
    context_tokens=st.integers(0, 10**9),
    context_window=st.integers(0, 10**6),
    last_progress=st.floats(-1e9, 1e12),
    usage=st.builds(TokenUsage, total_tokens=st.integers(0, 10**15)),
)


@settings(max_examples=100, deadline=None)
@given(
    st.lists(VIEWS, max_size=12, unique_by=lambda view: view.path),
    st.sampled_from([60, 80, 120]),
    st.integers(1, 14),
    st.sampled_from(["tree", "tokens", "cost", "age", "memory", "context"]),
)
def test_any_view_fits_any_screen(views, width, height, sort):
    run = RunView(agents=tuple(sorted(views, key=lambda view: view.path)), fan_total=3, fan_done=9)
    picture = render_run(run, width=width, height=height, now=5.0, options=TreeOptions(sort=sort))
    assert len(picture.lines) <= height
    assert all(cells <= width for cells in picture.widths)
    assert "\n" not in "".join(cell.text for line in picture.lines for cell in line)


def test_a_terminal_without_unicode_gets_ascii_lines():
    assert glyphs_for("ascii") is ASCII_GLYPHS
    text = render_run(
        RUN, width=80, height=24, now=1000.0, options=TreeOptions(glyphs=glyphs_for("latin-1"))
    ).text
    assert "|- builder" in text
    assert text.isascii()


def test_the_exported_picture_holds_the_tree_and_loads_nothing():
    svg = export_svg(RUN, now=1000.0)
    assert "scout" in svg
    assert "url(http" not in svg
    assert export_svg(RUN, now=1000.0) == svg

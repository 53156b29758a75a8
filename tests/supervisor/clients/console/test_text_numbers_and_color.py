"""Cleaned text, short numbers, and who may colour: the small things every view stands on."""

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swarm.mailbox.protocol.events import (
    CallEnded,
    CommandCall,
    FileChange,
    OtherCall,
    PatchCall,
    PlanCall,
    PlanStep,
    StdinCall,
)
from swarm.supervisor.base.number_format import (
    render_age,
    render_bytes,
    render_count,
    render_span,
    render_time,
    render_usd,
)
from swarm.supervisor.base.safe_text import clean_block, clean_line, first_line, last_line
from swarm.supervisor.clients.console.terminal import choose_display, decide_color, page_width
from swarm.supervisor.clients.console.theme import make_console
from swarm.supervisor.views.record_description import describe_call, describe_end


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain", "plain"),
        ("  a \t b\n\nc ", "a b c"),
        ("\x1b[1;31mred\x1b[0m", "⟨ESC⟩[1;31mred⟨ESC⟩[0m"),
        (
            "\x1b]0;title\x07x\x1b]8;;http://e\x1b\\link\x1b]8;;\x1b\\",
            "⟨ESC⟩]0;title⟨BEL⟩x⟨ESC⟩]8;;http://e⟨ESC⟩\\link⟨ESC⟩]8;;⟨ESC⟩\\",
        ),
        ("\x1bPdevice\x1b\\x\x1b(Bx\x1bcx", "⟨ESC⟩Pdevice⟨ESC⟩\\x⟨ESC⟩(Bx⟨ESC⟩cx"),
        ("\x9b31mx\x85y", "⟨U+009B⟩31mx y"),
        ("a\u202eb\u200bc\ufeffd\U000e0041e", "a⟨U+202E⟩b⟨U+200B⟩c⟨U+FEFF⟩d⟨U+E0041⟩e"),
        ("unfinished \x1b[12", "unfinished ⟨ESC⟩[12"),
        ("unfinished \x1b]0;rest", "unfinished ⟨ESC⟩]0;rest"),
        ("[red]漢字", "[red]漢字"),
    ],
)
def test_a_line_is_one_line_of_visible_characters(text, expected):
    assert clean_line(text) == expected


def test_a_block_keeps_lines_and_tabs_and_nothing_else():
    assert clean_block("a\r\nb\tc\rd\x0be\x1b[2Kf\x00") == "a\nb\tc\nd\ne⟨ESC⟩[2Kf⟨NUL⟩"


def test_a_line_is_cut_where_it_is_told():
    assert clean_line("x" * 50, limit=10) == "x" * 9 + "…"
    assert clean_line("y" * 10, limit=10) == "y" * 10


def test_the_first_and_the_last_line_have_words_in_them():
    assert first_line("\n \t\n one\ntwo") == "one"
    assert last_line("one\ntwo\n \n\t") == "two"
    assert first_line("") == last_line("\n") == ""


@given(st.text())
def test_no_text_leaves_a_control_character(text):
    assert clean_line(text).isprintable() or any(c in clean_line(text) for c in text)
    assert not any(ord(c) < 32 or 127 <= ord(c) < 160 for c in clean_line(text))
    assert not any((ord(c) < 32 and c not in "\n\t") or c == "\x1b" for c in clean_block(text))


@pytest.mark.parametrize(
    ("shown", "expected"),
    [
        (render_count(999), "999"),
        (render_count(1_000), "1.0k"),
        (render_count(99_960), "100k"),
        (render_count(999_600), "1.0M"),
        (render_count(10**13), "many"),
        (render_bytes(31_000_000), "30M"),
        (render_bytes(1_288_490_189), "1.2G"),
        (render_usd(0.0), "$0.000"),
        (render_usd(0.0001), "<0.1¢"),
        (render_usd(0.25), "$0.25"),
        (render_usd(12.34), "$12.3"),
        (render_age(59.9), "59s"),
        (render_age(3_599), "59m"),
        (render_age(-1), "0s"),
        (render_age(1e12), "999d"),
        (render_span(0.44), "0.4 s"),
        (render_span(59.7), "1 m 00 s"),
        (render_span(7_620), "2 h 07 m"),
        (render_time(1_776_850_200.125), "2026-04-22T09:30:00.125Z"),
    ],
)
def test_numbers_are_short_and_read_one_way(shown, expected):
    assert shown == expected


@pytest.mark.parametrize(
    ("detail", "expected"),
    [
        (CommandCall(script="", argv=("ls", "a b"), cwd="/"), "ls 'a b'"),
        (StdinCall(session_id=3, chars="y\n"), r"session 3: y\n"),
        (StdinCall(session_id=3, chars=""), "session 3: wait"),
        (
            PatchCall(
                changes=(
                    FileChange(path="a", kind="add"),
                    FileChange(path="b", kind="update", move_path="c"),
                )
            ),
            "A a, M b → c",
        ),
        (
            PlanCall(
                plan=(
                    PlanStep(step="one", status="completed"),
                    PlanStep(step="two", status="in_progress"),
                )
            ),
            "1/2 two",
        ),
        (OtherCall(argument="src\x1b[2J"), "src⟨ESC⟩[2J"),
    ],
)
def test_a_call_is_told_by_the_argument_that_says_most(detail, expected):
    assert describe_call(detail) == expected


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"status": "completed", "exit_code": 0}, "exit code 0 after 2.0 s"),
        ({"status": "failed", "exit_code": 137}, "exit code 137 after 2.0 s"),
        ({"status": "completed", "session_id": 4}, "goes on as session 4"),
        ({"status": "declined"}, "declined"),
        ({"status": "interrupted"}, "interrupted after 2.0 s"),
        ({"status": "failed"}, "failed after 2.0 s"),
    ],
)
def test_the_end_of_a_call_in_words(fields, expected):
    ended = CallEnded(turn_id="t", call_id="c", tool="x", duration_s=2.0, **fields)
    assert describe_end(ended) == expected


@pytest.mark.parametrize(
    ("as_json", "plain", "tty", "environment", "expected"),
    [
        (False, False, True, {}, "live"),
        (False, False, False, {}, "plain"),
        (False, True, True, {}, "plain"),
        (True, True, True, {}, "json"),
        (False, False, True, {"CI": "true"}, "plain"),
        (False, False, True, {"CI": "false"}, "live"),
        (False, False, True, {"TERM": "dumb"}, "plain"),
    ],
)
def test_the_live_tree_is_only_for_a_person_at_a_terminal(
    as_json, plain, tty, environment, expected
):
    chosen = choose_display(
        as_json=as_json, plain=plain, stdout_is_tty=tty, environment=environment
    )
    assert chosen == expected


@pytest.mark.parametrize(
    ("choice", "environment", "terminal", "expected"),
    [
        ("auto", {}, True, True),
        ("auto", {}, False, False),
        ("auto", {"NO_COLOR": "1"}, True, False),
        ("auto", {"NO_COLOR": ""}, True, True),
        ("auto", {"FORCE_COLOR": "1"}, False, True),
        ("auto", {"FORCE_COLOR": "1", "NO_COLOR": "1"}, True, False),
        ("auto", {"FORCE_COLOR": "0"}, True, False),
        ("auto", {"CLICOLOR": "0"}, True, False),
        ("auto", {"CLICOLOR_FORCE": "1"}, False, True),
        ("auto", {"TERM": "dumb"}, True, False),
        ("always", {"NO_COLOR": "1"}, False, True),
        ("never", {"FORCE_COLOR": "1"}, True, False),
    ],
)
def test_who_may_colour(choice, environment, terminal, expected):
    assert decide_color(choice, environment=environment, is_terminal=terminal) is expected


@pytest.mark.parametrize(
    ("environment", "expected"),
    [({}, None), ({"COLUMNS": "132"}, 132), ({"COLUMNS": "1"}, 20), ({"COLUMNS": "wide"}, None)],
)
def test_the_page_is_as_wide_as_columns_says(environment, expected):
    assert page_width(environment) == expected


def test_a_console_takes_text_as_text_and_colours_only_on_demand():
    for color, escapes in (("never", False), ("always", True)):
        stream = io.StringIO()
        console = make_console(stream, environment={"COLUMNS": "40"}, color=color)
        console.print("[red]:smile: 1[/]", style="red")
        assert "[red]:smile: 1[/]" in stream.getvalue()
        assert ("\x1b[" in stream.getvalue()) is escapes
        assert console.width == 40

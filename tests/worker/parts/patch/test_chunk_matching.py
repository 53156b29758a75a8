"""Finding chunks in a file: the four readings, the cursor, line ends, and exact results."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swarm.worker.parts.patch.chunk_matching import (
    ChunkNotFound,
    LineIndex,
    apply_edits,
    locate_edits,
    split_lines,
)
from swarm.worker.parts.patch.parse import Chunk
from swarm.worker.parts.patch.patch_summary import render_diff


def chunk(*lines: str, context: str | None = None, eof: bool = False) -> Chunk:
    return Chunk(lines=lines, context=context, end_of_file=eof)


def patched(text: str, *chunks: Chunk) -> str:
    return apply_edits(text, locate_edits(text, chunks, "/w/f"))


@pytest.mark.parametrize(
    ("lines", "pattern", "start", "at_end", "found"),
    [
        ("a b c", "b", 0, False, 1),
        ("a b a b", "a b", 1, False, 2),
        ("a b", "c", 0, False, None),
        ("a", "a b", 0, False, None),
        ("a b a b", "a b", 0, True, 2),
        ("a b c", "a b", 0, True, None),
        ("a b", "", 1, False, 1),
    ],
)
def test_seek_gives_the_first_place_from_the_start(lines, pattern, start, at_end, found):
    index = LineIndex([line + "\n" for line in lines.split()])
    assert index.seek(pattern.split(), start, at_end=at_end) == found


@pytest.mark.parametrize(
    ("file", "wanted"),
    [
        ("x", "x"),
        ("x  \t", "x"),
        ("\t x ", "x"),
        ("x", "  x  "),
        ("it\u2019s \u201cso\u201d \u2013 yes\u00a0no", 'it\'s "so" - yes no'),
        ("  a\u2212b", "a-b"),
    ],
)
def test_a_line_is_found_by_ever_looser_readings(file, wanted):
    assert LineIndex(["other\n", file + "\n"]).seek([wanted], 0) == 1


def test_an_exact_match_further_down_wins_over_a_loose_one_above():
    assert LineIndex(["  x\n", "x\n"]).seek(["x"], 0) == 1


@pytest.mark.parametrize(
    ("text", "chunks", "expected"),
    [
        ("a\nb\nc\n", [chunk("-b", "+z")], "a\nz\nc\n"),
        ("a\nb\n", [chunk(" a", "+n", " b")], "a\nn\nb\n"),
        ("x\na\nx\na\n", [chunk(" x"), chunk("-a", "+1"), chunk("-a", "+2")], "x\n1\nx\n2\n"),
        ("f\na\ng\na\n", [chunk("-a", "+z", context="g")], "f\na\ng\nz\n"),
        ("a\n", [chunk("+b", "+c")], "a\nb\nc\n"),
        ("a\n\n", [chunk("+b")], "a\nb\n\n"),
        ("", [chunk("+a")], "a\n"),
        ("a\nb\na\n", [chunk("-a", "+z", eof=True)], "a\nb\nz\n"),
        ("a\nb", [chunk("-b", "+z")], "a\nz\n"),
        ("a\nb", [chunk("-a", "+z")], "z\nb\n"),
        ("a\nb", [chunk("+c")], "a\nb\nc\n"),
        ("a\n", [chunk("-a")], ""),
        ("a\n\n", [chunk("-a", "+z")], "z\n\n"),
        ("a\nb\n", [chunk("-a", "-b", "- ".rstrip(), "+z")], "z\n"),
        ("a\nb\n", [chunk(" b", "+c", " ")], "a\nb\nc\n"),
        ("a\r\nb\r\n", [chunk("-a", "+z")], "z\r\nb\r\n"),
        ("a\r\nb\r\n", [chunk(" a", "+n", " b", "+m")], "a\r\nn\r\nb\r\nm\r\n"),
        ("a\r\nb\n", [chunk("-a", "+z"), chunk("-b", "+y")], "z\r\ny\n"),
        ("a\r\nb", [chunk("-b", "+z")], "a\r\nz\r\n"),
        ("a\r\n", [chunk("+z")], "a\r\nz\r\n"),
        ("a \nb\n", [chunk(" a", "-b", "+z")], "a \nz\n"),
    ],
)
def test_a_change_lands_where_it_belongs_and_keeps_line_ends(text, chunks, expected):
    assert patched(text, *chunks) == expected


@pytest.mark.parametrize(
    ("chunks", "message"),
    [
        ([chunk("-q", " r")], "Failed to find expected lines in /w/f:\nq\nr"),
        ([chunk("-a", context="def q")], "Failed to find context 'def q' in /w/f"),
        ([chunk("-b"), chunk("-a")], "Failed to find expected lines in /w/f:\na"),
        ([chunk("-a", context="a")], "Failed to find expected lines in /w/f:\na"),
        ([chunk("-b", "-c"), chunk("-c", eof=True)], "Failed to find expected lines in /w/f:\nc"),
    ],
)
def test_what_is_not_there_after_the_cursor_is_named(chunks, message):
    with pytest.raises(ChunkNotFound) as caught:
        patched("a\nb\nc\n", *chunks)
    assert str(caught.value) == message


TEXT = st.text(alphabet="ab\n\r ", max_size=40)


@given(TEXT)
def test_lines_join_to_the_text_they_came_from(text):
    assert "".join(split_lines(text)) == text


def chunk_between(old: list[str], new: list[str], start: int, end: int) -> Chunk:
    """Replace old[start:end] by new, with all the lines above as context."""
    return chunk(
        *(" " + line for line in old[:start]),
        *("-" + line for line in old[start:end]),
        *("+" + line for line in new),
        *(" " + line for line in old[end:]),
    )


LINES = st.lists(st.text(alphabet="xyz ", max_size=3), min_size=1, max_size=12)


@given(LINES, LINES, st.data())
def test_a_patch_made_from_a_line_edit_gives_exactly_its_result(old, new, data):
    start = data.draw(st.integers(0, len(old)))
    end = data.draw(st.integers(start, len(old)))
    text = "".join(line + "\n" for line in old)
    wanted = "".join(line + "\n" for line in [*old[:start], *new, *old[end:]])
    edits = locate_edits(text, [chunk_between(old, new, start, end)], "f")
    assert apply_edits(text, edits) == wanted
    assert read_diff(text, render_diff(text, edits)) == wanted


@given(
    TEXT,
    st.lists(
        st.builds(
            Chunk,
            lines=st.lists(
                st.sampled_from([" a", "-a", "+b", " b", "-", " ", "+"]), min_size=1, max_size=4
            ).map(tuple),
            context=st.none() | st.sampled_from(["a", ""]),
            end_of_file=st.booleans(),
        ),
        min_size=1,
        max_size=3,
    ),
)
def test_any_chunks_apply_or_say_why_not_and_the_diff_agrees(text, chunks):
    try:
        edits = locate_edits(text, chunks, "f")
    except ChunkNotFound:
        return
    new = apply_edits(text, edits)
    assert not new or new.endswith("\n")
    assert read_diff(text, render_diff(text, edits)) == new


def read_diff(old: str, diff: str) -> str:
    """Apply a unified diff strictly; an independent reader for the renderer."""
    source, result, at = split_lines(old), list[str](), 0
    lines = diff.split("\n")[:-1]
    for number, line in enumerate(lines):
        if line.startswith("\\"):
            continue
        bare = number + 1 < len(lines) and lines[number + 1].startswith("\\")
        if line.startswith("@@"):
            first, _, count = line.split()[1].removeprefix("-").partition(",")
            start = int(first) - (count != "0")
            result += source[at:start]
            at = start
            continue
        body = line[1:] if bare else line[1:] + "\n"
        if line[0] != "+":
            assert source[at] == body
            at += 1
        if line[0] != "-":
            result.append(body)
    return "".join(result + source[at:])


def test_the_diff_joins_near_edits_and_counts_both_sides():
    text = "".join(f"{n}\n" for n in range(1, 12))
    edits = locate_edits(text, [chunk("-2", "+two", "+zwei"), chunk("-4"), chunk("-10", "+X")], "f")
    assert render_diff(text, edits) == (
        "@@ -1,5 +1,5 @@\n 1\n-2\n+two\n+zwei\n 3\n-4\n 5\n@@ -9,3 +9,3 @@\n 9\n-10\n+X\n 11\n"
    )

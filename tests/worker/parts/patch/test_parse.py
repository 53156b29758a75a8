"""Reading patches: every error text, every leniency, and that rendering is the inverse."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swarm.worker.parts.patch.parse import (
    ADD,
    BEGIN,
    DELETE,
    END,
    END_OF_FILE,
    MOVE,
    UPDATE,
    AddFile,
    Chunk,
    DeleteFile,
    Hunk,
    Patch,
    PatchSyntaxError,
    UpdateFile,
    parse_patch,
)

HEADERS = "'*** Add File: {path}', '*** Delete File: {path}', '*** Update File: {path}'"
NOT_A_LINE = (
    "Every line should start with ' ' (context line), '+' (added line), or '-' (removed line)"
)


def render_patch(patch: Patch) -> str:
    """The text that `parse_patch` reads back as the same patch."""
    lines = [BEGIN]
    for hunk in patch.hunks:
        lines.extend(_render_hunk(hunk))
    return "\n".join([*lines, END, ""])


def _render_hunk(hunk: Hunk) -> list[str]:
    match hunk:
        case AddFile():
            added = hunk.content.split("\n")[:-1]
            return [ADD + hunk.path, *("+" + line for line in added)]
        case DeleteFile():
            return [DELETE + hunk.path]
        case UpdateFile():
            lines = [UPDATE + hunk.path]
            if hunk.move_path is not None:
                lines.append(MOVE + hunk.move_path)
            for chunk in hunk.chunks:
                lines.append("@@" if chunk.context is None else f"@@ {chunk.context}")
                lines.extend(chunk.lines)
                if chunk.end_of_file:
                    lines.append(END_OF_FILE)
            return lines


def wrap(*lines: str) -> str:
    return "\n".join(["*** Begin Patch", *lines, "*** End Patch"])


def one(*lines: str):
    (hunk,) = parse_patch(wrap(*lines)).hunks
    return hunk


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "Invalid patch: The first line of the patch must be '*** Begin Patch'"),
        ("nothing", "Invalid patch: The first line of the patch must be '*** Begin Patch'"),
        ("*** Begin Patch", "Invalid patch: The last line of the patch must be '*** End Patch'"),
        (
            "*** Begin Patch\n*** Add File: a\n+x",
            "Invalid patch: The last line of the patch must be '*** End Patch'",
        ),
        (
            wrap("*** Rename File: a"),
            "Invalid patch hunk on line 2: '*** Rename File: a' is not a valid hunk header. "
            f"Valid hunk headers: {HEADERS}",
        ),
        (
            wrap("*** Add File: a", "+x", "oops"),
            "Invalid patch hunk on line 4: 'oops' is not a valid hunk header. "
            f"Valid hunk headers: {HEADERS}",
        ),
        (
            wrap("*** add file: a"),
            "Invalid patch hunk on line 2: '*** add file: a' is not a valid hunk header. "
            f"Valid hunk headers: {HEADERS}",
        ),
        (
            wrap("*** Update File: a"),
            "Invalid patch hunk on line 2: Update file hunk for path 'a' is empty",
        ),
        (
            wrap("*** Update File: a", "*** Move to: b"),
            "Invalid patch hunk on line 2: Update file hunk for path 'a' is empty",
        ),
        (
            wrap("*** Update File: a", "@@", " x", "*** End of File", "+y"),
            "Invalid patch hunk on line 6: Expected update hunk to start with a @@ context "
            "marker, got: '+y'",
        ),
        (
            wrap("*** Update File: a", "@@"),
            "Invalid patch hunk on line 4: Update hunk does not contain any lines",
        ),
        (
            wrap("*** Update File: a", "@@", "*** End of File"),
            "Invalid patch hunk on line 4: Update hunk does not contain any lines",
        ),
        (
            wrap("*** Update File: a", "@@", "bad"),
            "Invalid patch hunk on line 4: Unexpected line found in update hunk: 'bad'. "
            + NOT_A_LINE,
        ),
    ],
)
def test_each_fault_has_its_text_and_line(text, expected):
    with pytest.raises(PatchSyntaxError) as caught:
        parse_patch(text)
    assert caught.value.for_terminal() == expected


def test_the_model_reads_the_same_fault_in_other_words():
    with pytest.raises(PatchSyntaxError) as caught:
        parse_patch(wrap("*** Update File: a"))
    assert (
        caught.value.for_model() == "invalid hunk at line 2, Update file hunk for path 'a' is empty"
    )
    with pytest.raises(PatchSyntaxError) as caught:
        parse_patch("x")
    assert caught.value.for_model().startswith("invalid patch: The first line")


@pytest.mark.parametrize(
    ("lines", "hunk"),
    [
        (["*** Add File: a b.txt", "+x", "++y", "+"], AddFile(path="a b.txt", content="x\n+y\n\n")),
        (["*** Add File: empty"], AddFile(path="empty", content="")),
        (["  *** Add File: a  ", "+x"], AddFile(path="a", content="x\n")),
        (["*** Delete File: a"], DeleteFile(path="a")),
        (
            ["*** Update File: a", "-x", "+y"],
            UpdateFile(path="a", chunks=(Chunk(lines=("-x", "+y")),)),
        ),
        (
            ["*** Update File: a", "*** Move to: b", "@@ def f():", " x", "", "+y"],
            UpdateFile(
                path="a",
                move_path="b",
                chunks=(Chunk(lines=(" x", " ", "+y"), context="def f():"),),
            ),
        ),
        (
            ["*** Update File: a", "", "@@", "-x", "*** End of File", "   ", "@@ z", "+y"],
            UpdateFile(
                path="a",
                chunks=(
                    Chunk(lines=("-x",), end_of_file=True),
                    Chunk(lines=("+y",), context="z"),
                ),
            ),
        ),
    ],
)
def test_each_kind_of_hunk_is_read(lines, hunk):
    assert one(*lines) == hunk


@pytest.mark.parametrize("start", ["<<EOF", "<<'EOF'", '<<"EOF"'])
def test_a_heredoc_around_the_whole_is_taken_off(start):
    inner = wrap("*** Delete File: a")
    assert parse_patch(f"{start}\n{inner}\nEOF\n").hunks == (DeleteFile(path="a"),)


@pytest.mark.parametrize("start", ["<<EOT", "<< EOF", "<<'EOF\""])
def test_no_other_wrapping_is_taken_off(start):
    with pytest.raises(PatchSyntaxError):
        parse_patch(f"{start}\n{wrap('*** Delete File: a')}\nEOF\n")


def test_padding_and_line_ends_of_windows_do_not_matter():
    text = "\n  *** Begin Patch \r\n*** Add File: a\r\n+x\r\n *** End Patch\r\n\n"
    assert parse_patch(text).hunks == (AddFile(path="a", content="x\n"),)


def test_an_envelope_without_hunks_is_a_patch_that_does_nothing():
    assert parse_patch(wrap()) == Patch(hunks=())


LINE = st.text(
    alphabet=st.characters(exclude_categories=["Cs", "Cc"], include_characters="\t"), max_size=12
)
PATH = LINE.map(str.strip).filter(bool)
CHUNK = st.builds(
    Chunk,
    lines=st.lists(
        st.builds("{}{}".format, st.sampled_from(" +-"), LINE), min_size=1, max_size=5
    ).map(tuple),
    context=st.none() | LINE,
    end_of_file=st.booleans(),
)
HUNK = st.one_of(
    st.builds(
        AddFile,
        path=PATH,
        content=st.lists(LINE, max_size=4).map(lambda lines: "".join(f"{x}\n" for x in lines)),
    ),
    st.builds(DeleteFile, path=PATH),
    st.builds(
        UpdateFile,
        path=PATH,
        chunks=st.lists(CHUNK, min_size=1, max_size=3).map(tuple),
        move_path=st.none() | PATH,
    ),
)


@given(st.lists(HUNK, max_size=4).map(lambda hunks: Patch(hunks=tuple(hunks))))
def test_reading_what_was_rendered_gives_the_same_patch(patch):
    assert parse_patch(render_patch(patch)) == patch


@given(
    st.lists(
        st.sampled_from(
            [
                "*** Begin Patch",
                "*** End Patch",
                "*** Add File: a",
                "*** Delete File: a",
                "*** Update File: a",
                "*** Move to: b",
                "*** End of File",
                "@@",
                "@@ c",
                "+x",
                "-x",
                " x",
                "",
                " ",
                "EOF",
                "<<EOF",
                "*",
                "x",
                "\r",
            ]
        ),
        max_size=12,
    )
)
def test_any_text_is_a_patch_or_a_syntax_error(lines):
    try:
        parse_patch("\n".join(lines))
    except PatchSyntaxError as error:
        assert error.for_model() and error.for_terminal()

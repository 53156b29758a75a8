"""Files inside a prompt: bounded, fenced so that nothing escapes, and honest about cuts."""

from hypothesis import given
from hypothesis import strategies as st

from swarm.mailbox.protocol.values.limits import WorkspaceWrite
from swarm.supervisor.base.file_excerpts import (
    Excerpt,
    cut_middle,
    fenced,
    read_excerpt,
    readable_below,
    render_excerpts,
    split_evenly,
)


@given(st.text(), st.integers(0, 400))
def test_a_cut_text_is_within_its_limit_and_text_still(text, limit):
    assert len(cut_middle(text, limit_bytes=limit).encode()) <= limit


def test_a_cut_keeps_whole_lines_of_both_ends_and_counts_the_rest():
    text = "".join(f"line {number}\n" for number in range(100))
    cut = cut_middle(text, limit_bytes=120)
    lines = cut.splitlines()
    assert (lines[0], lines[-1]) == ("line 0", "line 99")
    gone = 100 - (len(lines) - 1)
    assert f"[… {gone} lines left out …]" in lines


@given(st.text(alphabet="`a\n", max_size=60))
def test_no_content_can_close_its_fence(text):
    block = fenced("f", text).splitlines()
    fence = block[1]
    assert block[-1] == fence
    assert fence not in "\n".join(block[2:-1])


@given(st.lists(st.integers(0, 1000)), st.integers(0, 3000))
def test_shares_never_exceed_wants_or_the_total(sizes, total):
    shares = split_evenly(sizes, total)
    assert all(share <= size for share, size in zip(shares, sizes, strict=True))
    assert sum(shares) <= total
    if sum(sizes) <= total:
        assert shares == sizes


def test_short_files_are_whole_and_left_out_ones_are_counted():
    files = [Excerpt(label="a", text="x\n"), Excerpt(label="b", text="y" * 500)]
    assert "x\n```" in render_excerpts(files, limit_bytes=100)
    assert "[1 more files left out]" in render_excerpts(files[:1] * 2, limit_bytes=1)


def test_binary_empty_and_missing_files_are_passed_over(tmp_path):
    (tmp_path / "b").write_bytes(b"\x00\x01")
    (tmp_path / "e").write_text(" \n")
    (tmp_path / "latin").write_bytes(b"caf\xe9")
    may = readable_below(tmp_path, WorkspaceWrite())
    assert read_excerpt(tmp_path / "b", "b", may) is None
    assert read_excerpt(tmp_path / "e", "e", may) is None
    assert read_excerpt(tmp_path / "gone", "g", may) is None
    assert read_excerpt(tmp_path / "latin", "l", may) == Excerpt(label="l", text="caf\ufffd")


def test_an_excerpt_of_a_file_with_a_mark_is_its_text(tmp_path):
    for codec in ("utf-8-sig", "utf-16"):
        (tmp_path / "a.txt").write_bytes("Grüße\n".encode(codec))
        found = read_excerpt(tmp_path / "a.txt", label="a", may=lambda _: True)
        assert found is not None and found.text == "Grüße\n"

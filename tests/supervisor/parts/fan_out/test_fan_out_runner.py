"""Naming items and sharing out room, as tables and properties."""

from hypothesis import given
from hypothesis import strategies as st

from swarm.mailbox.base.ids import check_segment
from swarm.supervisor.base.file_excerpts import split_evenly
from swarm.supervisor.parts.fan_out.fan_out_runner import (
    ItemAnswer,
    name_items,
    prompt_with_answers,
)


def test_items_become_readable_unique_path_segments():
    names = name_items(("src/Foo Bar.py", "src/foo_bar.py", "///", "root"))
    assert names == ("src_foo_bar_py", "src_foo_bar_py_2", "item_3", "item_4")


@given(st.lists(st.text(max_size=80), max_size=30))
def test_any_items_get_legal_and_unique_names(items):
    names = name_items(tuple(items))
    assert len(names) == len(set(names)) == len(items)
    for name in names:
        check_segment(name)


@given(st.lists(st.integers(0, 10_000), max_size=40), st.integers(0, 50_000))
def test_shares_never_exceed_wants_or_total(sizes, total):
    shares = split_evenly(sizes, total)
    assert all(share <= size for share, size in zip(shares, sizes, strict=True))
    assert sum(shares) <= total
    if sum(sizes) <= total:
        assert shares == sizes


def test_the_root_reads_every_answer_under_its_item():
    answers = [
        ItemAnswer(item="a", state="completed", result="A" * 10),
        ItemAnswer(item="b", state="failed", result="no"),
    ]
    text = prompt_with_answers("Join them.", answers, limit_bytes=1000)
    assert text.endswith("Join them.")
    assert "## a\nAAAAAAAAAA" in text
    assert "## b (failed)\nno" in text


def test_long_answers_are_cut_to_their_share():
    answers = [ItemAnswer(item=str(n), state="completed", result="x" * 1000) for n in range(10)]
    assert len(prompt_with_answers("", answers, limit_bytes=1000)) < 1600

"""Memories as files: what was written is read back, and a person's edits are told apart."""

from typing import get_args

import hypothesis.strategies as st
import pytest
from hypothesis import given

from swarm.supervisor.parts.memories.memory_facts import Fact, FactKind, Output, make_fact
from swarm.supervisor.parts.memories.memory_files import (
    HANDBOOK,
    RAW,
    SUMMARY,
    find_edits,
    render_files,
    render_summary,
    stem_of,
)

TEXT = st.text(min_size=1, max_size=60).filter(lambda text: bool(make_fact("p", "note", text).text))


def fact(text: str, **more) -> Fact:
    made = make_fact("p", more.pop("kind", "finding"), text, now=1.0)
    return Fact(**{name: getattr(made, name) for name in made.__struct_fields__} | more)


def output(
    run: str = "0199-1a2b", at: float = 1_700_000_000.0, slug: str = "Find the Tests!"
) -> Output:
    return Output(
        run_id=run, project="p", cwd="/p", updated_at=at, raw_memory="- one", summary="# T\n\nx",
        slug=slug, method="facts",
    )  # fmt: skip


@given(st.lists(st.tuples(TEXT, st.sampled_from(get_args(FactKind))), max_size=8))
def test_a_file_that_nobody_touched_holds_no_edits(pairs):
    facts = list(
        {one.fact_id: one for one in (fact(text, kind=kind) for text, kind in pairs)}.values()
    )
    text = render_files(facts, (), label="p", summary_tokens=1000)[HANDBOOK]
    assert find_edits(text, text) == ((), (), ())


def test_a_line_that_is_gone_changed_or_new_is_told():
    facts = [
        fact("The first."),
        fact("The second.", place="a.py:3"),
        fact("The third.", pinned=True),
    ]
    before = render_files(facts, (), label="p", summary_tokens=1000)[HANDBOOK]
    now = before.replace("The second.", "The 2nd one.").replace(
        f"- The first. [{facts[0].fact_id}]\n", "my own line\n"
    )
    edits = find_edits(before, now)
    assert edits.removed == (facts[0].fact_id,)
    assert edits.reworded == ((facts[1].fact_id, "The 2nd one."),)
    assert edits.added == ("my own line",)


def test_a_line_of_ours_from_before_is_no_new_one():
    assert find_edits("", "- An old one. [m0123abcd]\n").added == ()


def test_the_summary_keeps_its_budget_and_names_what_is_left():
    facts = [fact(f"Number {n} of many facts that are told here.") for n in range(100)]
    text = render_summary(facts, label="p", tokens=200)
    assert len(text.encode()) < 200 * 4 + 200
    assert "more are found by recall_memories" in text
    assert text.index("Number 0 ") < text.index("Number 1 ")


def test_stale_facts_are_in_the_handbook_and_not_in_the_summary():
    files = render_files([fact("Old.", stale="gone (really)")], (), label="p", summary_tokens=500)
    assert "(stale: gone really)" in files[HANDBOOK]
    assert "Old." not in files[SUMMARY]


def test_raw_memories_list_the_latest_run_first():
    text = render_files((), (output("r-old1", 1e9), output("r-new2", 2e9)), label="p",
                        summary_tokens=100)[RAW]  # fmt: skip
    assert text.index("r-new2") < text.index("r-old1")
    assert render_files((), (), label="p", summary_tokens=100)[RAW].endswith(
        "No raw memories yet.\n"
    )


@pytest.mark.parametrize(
    ("slug", "stem"),
    [
        ("Find the Tests!", "2023-11-14T22-13-20-1a2b-find_the_tests"),
        ("../../etc/passwd", "2023-11-14T22-13-20-1a2b-etc_passwd"),
        ("", "2023-11-14T22-13-20-1a2b"),
    ],
)
def test_a_summarys_name_is_a_safe_file_name(slug, stem):
    assert stem_of(output(slug=slug)) == stem

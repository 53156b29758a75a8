"""Tasks of the same words, and claims that meet: as tables and as laws."""

import posixpath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swarm.supervisor.agents.claims import (
    MAX_CLAIMS,
    claimed_paths,
    covers,
    shared_claims,
    task_key,
)

STEPS = st.lists(st.sampled_from(["a", "b", "ab", "c.py", "..", "."]), min_size=1, max_size=4)
PATHS = st.builds(lambda steps, root: root + "/".join(steps), STEPS, st.sampled_from(["", "/"]))


@pytest.mark.parametrize(
    ("first", "second", "same"),
    [
        ("Find the parser.", "find  THE\nparser", True),
        ("Find the `parser`!", "Find the parser", True),
        ("Check that a != b here", "Check that a = b here", False),
        ("Find the parser", "Find the lexer", False),
        ("Find the parser", "Find the parser now", False),
    ],
)
def test_tasks_are_the_same_by_their_words_alone(first, second, same):
    assert (task_key(first) == task_key(second)) is same
    assert task_key(first)


@pytest.mark.parametrize("text", ["", "go", "go on", "Go on!", " . "])
def test_a_task_of_one_or_two_words_is_like_no_other(text):
    assert not task_key(text)


@given(st.text(max_size=200))
def test_any_text_has_a_key_that_blanks_and_case_do_not_change(text):
    lower = text.casefold()
    assert task_key(lower) == task_key(f"  {lower} \n")


@pytest.mark.parametrize(
    ("claim", "path"),
    [
        ("src/a.py", "/work/src/a.py"),
        ("./src//a.py", "/work/src/a.py"),
        ("src/", "/work/src"),
        ("../other/x", "/other/x"),
        ("/etc/x", "/etc/x"),
        ("//etc/x", "/etc/x"),
        ("src/**/*.py", "/work/src"),
        ("*.py", "/work"),
        ("/", "/"),
        (" src/a b.py ", "/work/src/a b.py"),
    ],
)
def test_a_claim_is_a_path_and_a_pattern_the_folder_before_it(claim, path):
    assert claimed_paths([claim], cwd="/work") == (path,)


@pytest.mark.parametrize("claims", [[""], ["  "], ["a\nb"], ["x" * 501], ["a"] * (MAX_CLAIMS + 1)])
def test_what_is_no_path_is_refused(claims):
    with pytest.raises(ValueError, match="claims: "):
        claimed_paths(claims, cwd="/work")


@pytest.mark.parametrize(
    ("mine", "theirs", "shared"),
    [
        (["/w/a"], ["/w/a"], ["/w/a"]),
        (["/w/a/b", "/w/c"], ["/w/a"], ["/w/a/b"]),
        (["/w"], ["/w/a"], ["/w"]),
        (["/w/ab"], ["/w/a"], []),
        (["/"], ["/w/a"], ["/"]),
        ([], ["/w/a"], []),
        (["/w/a"], [], []),
    ],
)
def test_claims_meet_where_one_is_the_other_or_lies_in_it(mine, theirs, shared):
    assert shared_claims(mine, theirs) == shared


@given(st.lists(PATHS, max_size=4), st.lists(PATHS, max_size=4))
def test_who_meets_whom_does_not_depend_on_who_asks(first, second):
    mine, theirs = claimed_paths(first, cwd="/w"), claimed_paths(second, cwd="/w/a")
    assert bool(shared_claims(mine, theirs)) == bool(shared_claims(theirs, mine))
    assert all(path == posixpath.normpath(path) and path.startswith("/") for path in mine)
    assert bool(shared_claims(mine, mine)) == bool(mine)


@given(PATHS, PATHS)
def test_a_folder_covers_exactly_what_has_its_steps_first(first, second):
    (folder,), (path,) = claimed_paths([first], cwd="/w"), claimed_paths([second], cwd="/w")
    steps, all_steps = folder.strip("/").split("/"), path.strip("/").split("/")
    wanted = folder == "/" or all_steps[: len(steps)] == steps
    assert covers(folder, path) is wanted

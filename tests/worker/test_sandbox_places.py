"""Which places a command may change: a table, and what holds for every name."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swarm.mailbox.path_rules import PROTECTED_NAMES
from swarm.worker.sandbox.places import FilePolicy, is_pinned, is_protected_name, judge_place

POLICY = FilePolicy(
    roots=("/p", "/p/x/nested", "/p/.agents", "/tmp/own"),
    closed=("/p/.git", "/p/docs/secret", "/link"),
    guarded=("/p", "/p/x/nested"),
)


@pytest.mark.parametrize(
    ("path", "verdict"),
    [
        ("/p/new", "open"),
        ("/p/src/.git", "open"),  # a repository deeper inside is the command's own
        ("/p/.git", "closed"),
        ("/p/.git/config", "closed"),
        ("/p/.swarm", "closed"),  # it is not there, and stays so
        ("/p/.GIT", "closed"),
        ("/p/.Git/hooks/post-commit", "closed"),
        ("/p/.agents", "open"),  # named as a root
        ("/p/.agents/a", "open"),
        ("/p/x/nested/.git", "closed"),
        ("/p/x/nested/a", "open"),
        ("/p/docs/secret/a", "closed"),
        ("/p/docs/secrets", "open"),
        ("/tmp/own/.git", "open"),
        ("/etc/passwd", "outside"),
        ("/px", "outside"),
        ("/", "outside"),
    ],
)
def test_a_place_is_open_closed_or_outside(path, verdict):
    assert judge_place(POLICY, path) == verdict


@pytest.mark.parametrize(
    ("path", "pinned"),
    [("/p/x", True), ("/p/x/nested", True), ("/p/docs", True), ("/p/docs/a", False), ("/p", True),
     ("/p/.git", True), ("/p/src", False), ("/tmp/own", True)],
)  # fmt: skip
def test_what_holds_something_closed_or_a_root_stays_where_it_is(path, pinned):
    assert is_pinned(POLICY, path) is pinned


@given(st.sampled_from(PROTECTED_NAMES), st.data())
def test_no_spelling_of_a_protected_name_is_open(name, data):
    letters = [data.draw(st.sampled_from((sign, sign.upper()))) for sign in name]
    spelled = "".join(letters) + data.draw(st.sampled_from(("", ".", " ", "\u200c")))
    assert is_protected_name(spelled)
    assert judge_place(POLICY, f"/p/{spelled}/{data.draw(st.sampled_from(('', 'a')))}") == (
        "open" if spelled == ".agents" else "closed"
    )


def test_a_system_whose_root_is_writable_leaves_its_own_trees_to_the_kernel():
    policy = FilePolicy(roots=("/",), closed=("/.git",), guarded=("/",))
    assert [judge_place(policy, path) for path in ("/a", "/.git", "/.swarm", "/proc/1", "/dev/x")] == [
        "open", "closed", "closed", "outside", "outside",
    ]  # fmt: skip
    assert is_pinned(policy, "/")

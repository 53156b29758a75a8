"""Which places a command may change: a table, and what holds for every name."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swarm.mailbox.base.path_rules import PROTECTED_NAMES, is_protected_name
from swarm.worker.sandbox.file_policy import (
    FilePolicy,
    is_immovable,
    path_access,
)

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
    assert path_access(POLICY, path) == verdict


@pytest.mark.parametrize(
    ("path", "pinned"),
    [("/p/x", True), ("/p/x/nested", True), ("/p/docs", True), ("/p/docs/a", False), ("/p", True),
     ("/p/.git", True), ("/p/src", False), ("/tmp/own", True)],
)  # fmt: skip
def test_what_holds_something_closed_or_a_root_stays_where_it_is(path, pinned):
    assert is_immovable(POLICY, path) is pinned


@given(st.sampled_from(PROTECTED_NAMES), st.data())
def test_no_spelling_of_a_protected_name_is_open(name, data):
    letters = [data.draw(st.sampled_from((sign, sign.upper()))) for sign in name]
    spelled = "".join(letters) + data.draw(st.sampled_from(("", ".", " ", "\u200c")))
    assert is_protected_name(spelled)
    assert path_access(POLICY, f"/p/{spelled}/{data.draw(st.sampled_from(('', 'a')))}") == (
        "open" if spelled == ".agents" else "closed"
    )


def test_a_system_whose_root_is_writable_leaves_its_own_trees_to_the_kernel():
    policy = FilePolicy(roots=("/",), closed=("/.git",), guarded=("/",))
    paths = ("/a", "/.git", "/.swarm", "/proc/1", "/dev/x")
    verdicts = ["open", "closed", "closed", "outside", "outside"]
    assert [path_access(policy, path) for path in paths] == verdicts
    assert is_immovable(policy, "/")


@pytest.mark.parametrize(
    ("name", "is_open"),
    [
        ("objects/ab/cdef", True), ("objects/pack/tmp_pack_x", True), ("objects", True),
        ("objects/info/packs", True), ("objects/info/commit-graphs/graph-1.graph", True),
        ("objects/info/alternates", False), ("objects/info/http-alternates", False),
        ("objects/x/alternates", False), ("objects/Info/Alternates", False),
        ("objects/info/alternates.lock", False),
        ("refs/heads/main.lock", True), ("logs/HEAD", True), ("logs", True),
        ("index", True), ("index.lock", True), ("index.stash.12.lock", True), ("HEAD.lock", True),
        ("COMMIT_EDITMSG", True), ("packed-refs.new", True), ("MERGE_MSG", True),
        ("config", False), ("config.lock", False), ("config.worktree", False), ("hooks", False),
        ("hooks/pre-commit", False), ("commondir", False), ("gitdir", False),
        ("info/attributes", False), ("info", False), ("rebase-merge", False),
        ("rebase-apply/next", False), ("sequencer/todo", False), ("modules/a/config", False),
        ("worktrees/a/commondir", False), ("shallow", False), ("fsmonitor--daemon.ipc", False),
        ("Index", False), ("index\n", False), ("unheard-of", False),
    ],
)  # fmt: skip
def test_a_commit_grant_opens_what_is_on_its_list_and_nothing_else(name, is_open):
    policy = FilePolicy(roots=("/p",), closed=("/p/.git",), repositories=("/p/.git",))
    assert path_access(policy, f"/p/.git/{name}") == ("commit" if is_open else "closed")


def test_another_working_trees_data_is_closed_and_this_ones_is_open():
    folders = ("/p/.git", "/p/.git/worktrees/mine")
    policy = FilePolicy(roots=("/w",), closed=folders, guarded=("/w",), repositories=folders)
    names = ("worktrees/mine/index", "worktrees/mine/commondir", "worktrees/other/index", "index")
    verdicts = ["commit", "closed", "closed", "commit"]
    assert [path_access(policy, f"/p/.git/{name}") for name in names] == verdicts

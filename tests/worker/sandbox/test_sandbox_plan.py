"""What a plan lets a command write, and in which order bubblewrap lays it out."""

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swarm.mailbox.base.path_rules import PROTECTED_NAMES, is_within
from swarm.mailbox.protocol.values.limits import DangerFullAccess, ReadOnly, WorkspaceWrite
from swarm.worker.sandbox.bwrap import bwrap_arguments
from swarm.worker.sandbox.landlock import WRITE
from swarm.worker.sandbox.landlock_rules import landlock_rules
from swarm.worker.sandbox.sandbox_plan import SandboxPlan, SandboxUnavailable, plan_sandbox


def plan(policy, cwd, **more):
    more = {"tmp_dir": None, "stack": "bwrap", **more}
    return plan_sandbox(policy, cwd=str(cwd), **more)


def words(made):
    return bwrap_arguments(made, bwrap="/usr/bin/bwrap", filtered=True)


def test_full_access_is_no_sandbox(tmp_path):
    made = plan(DangerFullAccess(), tmp_path)
    assert not made.is_sandboxed
    assert made.network


def test_a_policy_that_nothing_can_enforce_is_refused(tmp_path):
    with pytest.raises(SandboxUnavailable, match="doctor"):
        plan(ReadOnly(), tmp_path, stack="none")


def test_read_only_has_no_root_but_granted_ones(tmp_path):
    (tmp_path / "granted").mkdir()
    assert plan(ReadOnly(), tmp_path).writable == ()
    granted = plan(ReadOnly(), tmp_path, extra_roots=(str(tmp_path / "granted"),))
    assert granted.writable == (str(tmp_path / "granted"),)


def test_protected_names_are_read_only_or_kept_missing(tmp_path):
    (tmp_path / ".git").mkdir()
    (tmp_path / ".codex").write_text("a file")
    made = plan(WorkspaceWrite(), tmp_path)
    assert made.protected == (str(tmp_path / ".codex"), str(tmp_path / ".git"))
    assert made.missing == tuple(
        str(tmp_path / n) for n in (".swarm", ".agents", ".claude", ".aws")
    )


def test_every_writable_root_is_protected(tmp_path):
    (tmp_path / "other" / ".git").mkdir(parents=True)
    (tmp_path / "here").mkdir()
    made = plan(WorkspaceWrite(writable_roots=(str(tmp_path / "other"),)), tmp_path / "here")
    assert str(tmp_path / "other/.git") in made.protected


def test_a_root_that_is_named_is_not_protected(tmp_path):
    (tmp_path / ".git").mkdir()
    made = plan(WorkspaceWrite(writable_roots=(str(tmp_path / ".git"),)), tmp_path)
    assert str(tmp_path / ".git") in made.writable
    assert str(tmp_path / ".git") not in made.protected


def test_a_protected_link_protects_what_it_points_to(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / ".git").symlink_to("real")
    made = plan(WorkspaceWrite(), tmp_path)
    assert str(tmp_path / "real") in made.protected
    assert made.links == (str(tmp_path / ".git"),)


def test_a_worktrees_pointer_protects_both_its_folders_and_pins_the_way_there(tmp_path):
    tree = tmp_path / "bare/worktrees/one"
    tree.mkdir(parents=True)
    (tree / "commondir").write_text("../..\n")
    (tmp_path / ".git").write_text("gitdir: bare/worktrees/one\n")
    made = plan(WorkspaceWrite(), tmp_path)
    assert {str(tmp_path / "bare"), str(tree)} <= set(made.protected)
    (tree / "commondir").unlink()
    made = plan(WorkspaceWrite(), tmp_path)
    assert made.pinned == (str(tmp_path / "bare"), str(tmp_path / "bare/worktrees"))


@pytest.mark.parametrize("text", ["", "gitdir:", "gitdir: /nowhere/at/all", "\0", "x" * 9000])
def test_a_pointer_that_makes_no_sense_is_only_protected_itself(tmp_path, text):
    (tmp_path / ".git").write_text(text)
    assert str(tmp_path / ".git") in plan(WorkspaceWrite(), tmp_path).protected


def test_a_root_that_is_a_link_counts_as_what_it_points_to(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    assert plan(WorkspaceWrite(), tmp_path / "link").writable == (str(tmp_path / "real"),)


def test_a_hidden_folder_is_never_a_root(tmp_path):
    (tmp_path / "runs/one").mkdir(parents=True)
    policy = WorkspaceWrite(writable_roots=(str(tmp_path / "runs/one"), "/nowhere"))
    made = plan(policy, tmp_path, hidden_paths=(str(tmp_path / "runs"),))
    assert made.writable == (str(tmp_path),)


def test_the_working_folder_shows_through_a_private_tmp(tmp_path):
    made = plan(ReadOnly(), tmp_path)
    covered = any(is_within(str(tmp_path), tree) for tree in made.covered)
    assert (str(tmp_path) in made.visible) is covered


def test_excluding_slash_tmp_makes_the_private_one_read_only(tmp_path):
    made = plan(WorkspaceWrite(exclude_slash_tmp=True), tmp_path, tmp_dir=str(tmp_path))
    assert not made.tmp_writable
    line = words(made)
    assert line[line.index("/tmp") - 2] == "--bind"  # what shows through gets its place first
    assert line[-5:-3] == ("--remount-ro", "/tmp")


def test_the_kernels_settings_are_read_only_where_all_else_may_be_written():
    line = words(SandboxPlan(stack="bwrap", writable=("/",)))
    assert line[line.index("/sys") - 1 : line.index("/sys") + 2] == (
        "--ro-bind-try",
        "/sys",
        "/sys",
    )
    grants = landlock_rules(SandboxPlan(stack="landlock", writable=("/",))).grants
    changed = {grant.path for grant in grants if grant.access == WRITE}
    assert "/usr" in changed
    assert not changed & {"/", "/proc", "/sys"}


def test_what_lies_deeper_or_is_stronger_comes_later():
    made = SandboxPlan(
        stack="bwrap", writable=("/w", "/w/.git/x"), protected=("/w/.git",), hidden=("/w/runs",),
        covered=("/tmp",), tmp_dir="/state/tmp", network=False,
    )  # fmt: skip
    line = " ".join(words(made))
    order = ["--ro-bind / /", "--bind /w /w", "--ro-bind /w/.git", "--bind /w/.git/x"]
    assert [line.index(one) for one in order] == sorted(line.index(one) for one in order)
    assert line.index("--bind /state/tmp /tmp") > line.index("--proc /proc")
    assert line.index("--perms 0555 --tmpfs /w/runs") < line.index("--remount-ro /w/runs")
    assert line.endswith("--seccomp 3 --")
    assert "--unshare-net" in line


def test_a_granted_network_keeps_the_network_namespace():
    assert "--unshare-net" not in words(SandboxPlan(stack="bwrap", network=True))


def test_a_mask_inside_a_private_tree_is_not_laid():
    made = SandboxPlan(stack="bwrap", covered=("/run",), hidden=("/run/user/1/swarm",))
    assert "/run/user/1/swarm" not in words(made)
    shown = SandboxPlan(
        stack="bwrap", covered=("/tmp",), hidden=("/tmp/p/r",), writable=("/tmp/p",)
    )
    assert "/tmp/p/r" in words(shown)


SEGMENTS = st.lists(st.sampled_from(["a", "b", ".git"]), min_size=1, max_size=4)
PATHS = st.lists(SEGMENTS.map(lambda parts: "/" + "/".join(parts)), max_size=5, unique=True)


@given(writable=PATHS, protected=PATHS, hidden=PATHS)
def test_no_writable_bind_ever_covers_a_deeper_read_only_one(writable, protected, hidden):
    line = words(
        SandboxPlan(
            stack="bwrap",
            writable=tuple(writable),
            protected=tuple(protected),
            hidden=tuple(hidden),
        )
    )
    laid = [
        (index, line[index], line[index + 2])
        for index, word in enumerate(line)
        if word in ("--bind", "--ro-bind")
    ]
    for at, word, path in laid:
        for later, other, above in laid:
            if word == "--ro-bind" and path != "/" and other == "--bind" and later > at:
                assert not is_within(path, above)


def test_planning_changes_nothing(tmp_path):
    plan(WorkspaceWrite(), tmp_path)
    assert os.listdir(tmp_path) == []
    assert len(PROTECTED_NAMES) == 6

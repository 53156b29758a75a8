"""Recorded paths after a move of the project, and what tells whether it is the same project."""

import os
import shutil
import subprocess

import pytest

from swarm.mailbox.protocol.records import AgentSpawned
from swarm.mailbox.protocol.settings import AgentSettings
from swarm.mailbox.protocol.spec import FolderMove
from swarm.mailbox.protocol.values.limits import (
    Limits,
    PathRule,
    ProfilePolicy,
    ReadOnly,
    WorkspaceWrite,
)
from swarm.supervisor.agents.moved_team import moved_past, moved_policy
from swarm.supervisor.journal.replay import AgentPast, RunPast
from swarm.supervisor.parts.undo.content_store import ContentStore
from swarm.supervisor.runs.folder_moves import find_move, moved
from swarm.supervisor.runs.project_mark import ProjectMark, mark_project, why_doubtful

MOVE = FolderMove(before="/gone/old", now="/w/new")


@pytest.mark.parametrize(
    ("path", "now"),
    [
        ("/gone/old", "/w/new"),
        ("/gone/old/a/b", "/w/new/a/b"),
        ("/gone/older", "/gone/older"),
        ("/w/new/a", "/w/new/a"),
        ("", ""),
    ],
)
def test_what_lay_below_the_old_folder_lies_below_the_new_one(path, now):
    assert moved(path, (MOVE,)) == now


def test_several_moves_follow_each_other_also_back():
    back = FolderMove(before="/w/new", now="/gone/old")
    on = FolderMove(before="/w/new", now="/w/newer")
    assert moved("/gone/old/a", (MOVE, on)) == "/w/newer/a"
    assert moved("/w/new/a", (MOVE, on)) == "/w/newer/a"
    assert moved("/gone/old/a", (MOVE, back)) == moved("/w/new/a", (MOVE, back)) == "/gone/old/a"


def test_the_move_is_that_of_the_renamed_folder_if_the_run_worked_below_it(tmp_path):
    old, new = tmp_path / "old", tmp_path / "new"
    (new / "sub").mkdir(parents=True)
    found = find_move(str(old / "sub"), str(new / "sub"))
    assert found == FolderMove(before=str(old), now=str(new))
    (old / "sub").mkdir(parents=True)  # it is still there: only what was named is elsewhere
    found = find_move(str(old / "sub"), str(new / "sub"))
    assert found == FolderMove(before=str(old / "sub"), now=str(new / "sub"))
    assert find_move("/gone/a", "/") == FolderMove(before="/gone/a", now="/")


def test_policies_agents_and_their_settings_move():
    profile = ProfilePolicy(
        rules=(PathRule(path="/gone/old/x", access="write"), PathRule(path="/etc", access="deny")),
        deny_globs=("/gone/old/**/*.key",),
        workspace=("/gone/old",),
    )
    assert moved_policy(profile, (MOVE,)) == ProfilePolicy(
        rules=(PathRule(path="/w/new/x", access="write"), PathRule(path="/etc", access="deny")),
        deny_globs=("/w/new/**/*.key",),
        workspace=("/w/new",),
    )
    assert moved_policy(ReadOnly(), (MOVE,)) == ReadOnly()
    limits = Limits(sandbox=WorkspaceWrite(writable_roots=("/gone/old/x", "/srv")))
    spawned = AgentSpawned(
        agent_id="a", path="/root", epoch=1, pid=1, role="r", parent=None, depth=0,
        limits=limits, cwd="/gone/old/sub", claims=("/gone/old/x", "/other"),
    )  # fmt: skip
    settings = AgentSettings(cwd="/gone/old", limits=limits, allowed=limits)
    past = RunPast(agents={"/root": AgentPast(spawned=spawned, settings=settings)})
    now = moved_past(past, (MOVE,)).agents["/root"]
    roots = WorkspaceWrite(writable_roots=("/w/new/x", "/srv"))
    assert (now.spawned.cwd, now.spawned.claims) == ("/w/new/sub", ("/w/new/x", "/other"))
    assert now.spawned.limits.sandbox == roots
    assert now.settings is not None
    assert now.settings.allowed is not None
    assert (now.settings.cwd, now.settings.limits.sandbox) == ("/w/new", roots)
    assert now.settings.allowed.sandbox == roots


def test_lists_of_files_are_read_with_their_paths_as_they_are_now(tmp_path):
    (tmp_path / "old").mkdir()
    (tmp_path / "old" / "f").write_text("x")
    store = ContentStore(tmp_path / "kept")
    manifest = store.take_snapshot([str(tmp_path / "old" / "f")]).manifest
    move = FolderMove(before=str(tmp_path / "old"), now=str(tmp_path / "new"))
    ContentStore(tmp_path / "kept").record_moves((move,))
    (entry,) = ContentStore(tmp_path / "kept").read_manifest(manifest)
    assert entry.path == str(tmp_path / "new" / "f")
    (tmp_path / "kept" / "moves.json").write_text("[")
    with pytest.raises(ValueError, match="truncated"):  # rather than write at the old place
        ContentStore(tmp_path / "kept").read_manifest(manifest)


def git(folder, *words):
    subprocess.run(
        ["git", "-c", "user.name=a", "-c", "user.email=a@b", *words], cwd=folder, check=True,
        capture_output=True, env={"PATH": os.environ["PATH"], "HOME": "/nonexistent"},
    )  # fmt: skip


@pytest.fixture
def project(tmp_path):
    folder = tmp_path / "old"
    (folder / "sub").mkdir(parents=True)
    git(folder, "init", "-q")
    git(folder, "commit", "-q", "--allow-empty", "-m", "one")
    return folder


def test_a_renamed_folder_is_the_same_one(project, tmp_path):
    mark = mark_project(str(project / "sub"))
    project.rename(tmp_path / "new")
    assert len(mark.commit) == 40
    assert why_doubtful(mark, str(tmp_path / "new" / "sub")) == ""


@pytest.mark.parametrize("packed", [False, True])
def test_a_copy_is_known_by_the_commit_also_when_it_went_on(project, tmp_path, packed):
    if packed:
        git(project, "pack-refs", "--all")
    mark = mark_project(str(project))
    assert len(mark.commit) == 40
    shutil.copytree(project, tmp_path / "copy")
    assert why_doubtful(mark, str(tmp_path / "copy")) == ""
    git(tmp_path / "copy", "commit", "-q", "--allow-empty", "-m", "two")
    assert why_doubtful(mark, str(tmp_path / "copy")) == ""


def test_a_worktree_shows_its_own_commit(project, tmp_path):
    git(project, "worktree", "add", "-q", "-b", "side", str(tmp_path / "side"))
    assert mark_project(str(tmp_path / "side")).commit == mark_project(str(project)).commit


def test_another_project_is_doubtful(project, tmp_path):
    (tmp_path / "other").mkdir()
    mark = mark_project(str(project))
    said = f"its repository does not show commit {mark.commit[:12]}"
    assert why_doubtful(mark, str(tmp_path / "other")).startswith(said)
    git(tmp_path / "other", "init", "-q")
    git(tmp_path / "other", "commit", "-q", "--allow-empty", "-m", "another")
    assert why_doubtful(mark, str(tmp_path / "other")).startswith(said)
    bare = mark_project(str(tmp_path))
    assert "there was no commit" in why_doubtful(bare, str(tmp_path / "other"))
    assert "has not recorded" in why_doubtful(ProjectMark(), str(tmp_path))
    assert mark_project("/gone/at/all") == ProjectMark()

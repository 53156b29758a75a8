"""The base of agents' copies: what is in it, what is shown as it is, what never changes it."""

import os
from pathlib import Path

import pytest

from swarm.supervisor.parts.copies import base_tree, project_copies, tree_survey
from swarm.supervisor.parts.copies.base_tree import make_tree
from swarm.supervisor.parts.copies.copy_folder import AgentCopy, CopiedRoot, CopyFolder
from swarm.supervisor.parts.copies.tree_survey import CopyRefused, Survey, survey_tree
from swarm.supervisor.parts.undo.watched_tree import now_ns

_LATER_NS = 10_000_000_000


@pytest.fixture
def root(tmp_path: Path) -> Path:
    made = tmp_path.resolve() / "project"
    made.mkdir()
    return made


def put(root: Path, name: str, text: str = "x") -> Path:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def look(root: Path, *, later: bool = False) -> Survey:
    return survey_tree(str(root), (), now_ns=now_ns() + (_LATER_NS if later else 0))


def files(survey: Survey) -> set[str]:
    return {name for name, one in survey.entries.items() if one.kind == "file"}


def test_tracked_untracked_and_ignored_files_are_copied_and_caches_are_not(root):
    for name in (".gitignore", "src/a", "build.log", "src/__pycache__/a.pyc", ".cache/x"):
        put(root, name)
    assert files(look(root)) == {".gitignore", "src/a", "build.log"}


@pytest.mark.parametrize(
    ("marker", "live"),
    [
        ("node_modules/x/index.js", "node_modules"),
        ("sub/.venv/bin/python", "sub/.venv"),
        ("env/pyvenv.cfg", "env"),
        ("target/CACHEDIR.TAG", "target"),
    ],
)
def test_installed_packages_and_build_results_are_shown_as_they_are(root, marker, live):
    put(root, marker)
    found = look(root)
    assert found.live == (live,)
    assert files(found) == set()
    assert found.entries[live].kind == "folder"


def test_the_objects_of_a_repository_are_shown_as_they_are_and_the_rest_is_copied(root):
    for name in (".git/HEAD", ".git/index", ".git/refs/heads/main", ".git/objects/ab/cd"):
        put(root, name)
    found = look(root)
    assert found.live == (".git/objects",)
    assert files(found) == {".git/HEAD", ".git/index", ".git/refs/heads/main"}


def test_links_are_copied_as_links_and_what_they_point_to_is_not(root, tmp_path):
    secret = put(tmp_path, "secret/key")
    (root / "out").symlink_to(secret.parent)
    made = tmp_path / "tree"
    make_tree(str(root), look(root), made, None)
    assert (made / "out").readlink() == secret.parent


def test_sockets_and_pipes_are_counted_and_left_out(root):
    os.mkfifo(root / "pipe")
    found = look(root)
    assert (found.entries, found.left_out) == ({}, 1)


def test_a_change_in_place_of_the_project_does_not_change_the_base(root, tmp_path):
    path = put(root, "a", "before")
    first, made = look(root), tmp_path / "tree"
    make_tree(str(root), first, made, None)
    with path.open("r+") as file:
        file.write("AFTER!")
    assert (made / "a").read_text() == "before"


def test_a_second_base_shares_what_is_unchanged_and_copies_the_rest(root, tmp_path):
    put(root, "same"), put(root, "other", "one")
    first = look(root, later=False)
    settled = Survey(
        mode=first.mode,
        entries={
            name: tree_survey.SeenFile(
                one.kind, one.mode, one.size, one.mtime_ns, one.ctime_ns, one.inode
            )
            for name, one in first.entries.items()
        },
    )
    one, two = tmp_path / "one", tmp_path / "two"
    make_tree(str(root), settled, one, None)
    put(root, "other", "two!")
    make_tree(str(root), look(root), two, (settled, one))
    assert (one / "same").stat().st_ino == (two / "same").stat().st_ino
    assert ((one / "other").read_text(), (two / "other").read_text()) == ("one", "two!")
    assert (one / "same").stat().st_ino != (root / "same").stat().st_ino


def test_a_file_that_changed_within_a_tick_of_the_look_is_never_taken_for_unchanged(root):
    put(root, "a")
    first = look(root)
    assert first.entries["a"].racy
    assert not look(root).is_same_as(first)


def test_a_sparse_file_takes_as_little_room_in_the_base(root, tmp_path):
    with (root / "sparse").open("wb") as file:
        file.seek(40 << 20)
        file.write(b"end")
        file.truncate(64 << 20)
    make_tree(str(root), look(root), tmp_path / "tree", None)
    copied = tmp_path / "tree" / "sparse"
    assert copied.read_bytes() == (root / "sparse").read_bytes()
    assert copied.stat().st_blocks * 512 < 1 << 20


def test_modes_and_times_are_kept_and_set_user_bits_are_not(root, tmp_path):
    path = put(root, "tool")
    path.chmod(0o4751)
    os.utime(path, (5, 5))
    made = tmp_path / "tree"
    make_tree(str(root), look(root), made, None)
    facts = (made / "tool").stat()
    assert (facts.st_mode & 0o7777, facts.st_mtime) == (0o751, 5)


def test_git_is_told_to_compare_size_and_time_only_and_only_in_the_copy(root, tmp_path):
    config = put(root, ".git/config", "[core]\n\tbare = false\n")
    made = tmp_path / "tree"
    make_tree(str(root), look(root), made, None)
    assert "checkStat = minimal" in (made / ".git/config").read_text()
    assert "checkStat" not in config.read_text()


def test_a_project_over_the_limits_gets_no_copy(root, monkeypatch):
    monkeypatch.setattr(tree_survey, "MAX_FILES", 2)
    for number in range(3):
        put(root, str(number))
    with pytest.raises(CopyRefused, match="work in a smaller folder"):
        look(root)


def test_too_many_folders_that_are_shown_as_they_are_are_refused(root, monkeypatch):
    monkeypatch.setattr(tree_survey, "MAX_LIVE", 1)
    put(root, "a/node_modules/x"), put(root, "b/node_modules/x")
    with pytest.raises(CopyRefused, match="more than 1 folders"):
        look(root)


def test_a_disk_without_room_is_refused_before_anything_is_written(root, tmp_path, monkeypatch):
    put(root, "a")
    monkeypatch.setattr(base_tree, "SPARE_BYTES", 1 << 60)
    with pytest.raises(CopyRefused, match="too little room"):
        make_tree(str(root), look(root), tmp_path / "tree", None)
    assert not (tmp_path / "tree").exists()


def test_a_folder_is_not_listed_beyond_the_limit(root, monkeypatch):
    monkeypatch.setattr(tree_survey, "MAX_FILES", 2)
    for number in range(3):
        os.mkfifo(root / str(number))  # none of them would be copied
    with pytest.raises(CopyRefused, match="more than 2 files"):
        look(root)


def test_of_a_file_that_grew_since_the_look_only_what_was_there_is_copied(root, tmp_path):
    path = put(root, "log", "one\n")
    found = look(root)
    path.write_text("one\ntwo\n")
    make_tree(str(root), found, tmp_path / "tree", None)
    assert (tmp_path / "tree/log").read_text() == "one\n"


def test_half_of_a_base_is_removed_when_the_rest_cannot_be_made(root, tmp_path, monkeypatch):
    put(root, "a")
    monkeypatch.setattr(base_tree, "SPARE_BYTES", 1 << 60)
    folder = CopyFolder(tmp_path / "copies", tmp_path / "trees")
    with pytest.raises(CopyRefused, match="too little room"):
        project_copies.make_base(folder, (str(root),), None)
    assert folder.newest_base() == 0


def test_the_layer_of_a_folder_that_its_owner_may_not_write_can_be_written(tmp_path):
    folder = CopyFolder(tmp_path / "copies", tmp_path / "trees")
    copied = CopiedRoot(path="/p", mode=0o500)
    folder.add_agent(AgentCopy(agent_id="a", path="/root", base=1, roots=(copied,), cwd="/p"))
    assert folder.upper("a", 0).stat().st_mode & 0o777 == 0o700

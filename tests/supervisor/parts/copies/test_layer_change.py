"""An agent's layer, written by confined code, as a value: what counts and what does not."""

import os
from pathlib import Path

import pytest
from msgspec.structs import replace

from support.project_copy import CopiedProject, fill, whiteout
from swarm.supervisor.parts.copies import layer_change
from swarm.supervisor.parts.copies.layer_change import ChangeTooLarge, LayerChange
from swarm.supervisor.parts.undo.content_store import ContentStore


@pytest.fixture
def project(tmp_path: Path) -> CopiedProject:
    made = CopiedProject(tmp_path)
    made.write({"a.txt": "a\n", "sub/b.txt": "b\n", "sub/c.txt": "c\n", "keep": "k"})
    made.freeze()
    return made


@pytest.fixture
def store(project: CopiedProject) -> ContentStore:
    return ContentStore(project.paths.file_copies)


def kinds(project: CopiedProject, store: ContentStore, name: str = "mason") -> dict[str, str]:
    change = project.change_of(name, store)
    root = f"{project.root}/"
    return {
        edit.path.removeprefix(root): f"{edit.before.kind}->{edit.after.kind}"
        for edit in change.edits
    }


def test_an_untouched_layer_is_no_change(project, store):
    project.add_agent("mason")
    change = project.change_of("mason", store)
    assert (change.edits, change.fingerprint) == ((), "")


def test_adds_edits_deletes_links_and_modes_are_the_change(project, store):
    upper = project.add_agent("mason")
    fill(upper, {"a.txt": "A\n", "new/deep/x": "x"})
    whiteout(upper / "sub/b.txt")
    (upper / "link").symlink_to("a.txt")
    fill(upper, {"keep": "k"})
    (upper / "keep").chmod(0o755)
    assert kinds(project, store) == {
        "a.txt": "file->file",
        "keep": "file->file",
        "link": "absent->link",
        "new": "absent->folder",
        "new/deep": "absent->folder",
        "new/deep/x": "absent->file",
        "sub/b.txt": "file->absent",
    }


def test_a_file_that_was_only_touched_is_no_change(project, store):
    upper = project.add_agent("mason")
    fill(upper, {"a.txt": "a\n"})
    (upper / "a.txt").chmod((project.root / "a.txt").stat().st_mode & 0o777)
    assert kinds(project, store) == {}


def test_a_removed_folder_takes_all_below_it(project, store):
    whiteout(project.add_agent("mason") / "sub")
    assert kinds(project, store) == {
        "sub": "folder->absent",
        "sub/b.txt": "file->absent",
        "sub/c.txt": "file->absent",
    }


def test_an_opaque_folder_hides_what_the_base_has_there(project, store):
    upper = project.add_agent("mason")
    fill(upper, {"sub/b.txt": "other"})
    os.setxattr(upper / "sub", "user.overlay.opaque", b"y")
    assert kinds(project, store) == {"sub/b.txt": "file->file", "sub/c.txt": "file->absent"}


def test_a_file_in_place_of_a_folder_removes_what_was_in_it(project, store):
    upper = project.add_agent("mason")
    fill(upper, {"sub": "now a file"})
    assert kinds(project, store) == {
        "sub": "folder->file",
        "sub/b.txt": "file->absent",
        "sub/c.txt": "file->absent",
    }


@pytest.mark.parametrize(
    "name", [".git/hooks/pre-commit", "sub/.git/config", ".swarm/config.toml", ".claude/x",
             "sub/__pycache__/x.pyc", ".GIT/config", ".Claude/x", ".swarm./config.toml",
             ".git\u200c/config", "sub/.Git /config", "GIT~1/config", "sub/git~2/config"],
)  # fmt: skip
def test_protected_names_repositories_and_caches_are_never_part_of_it(project, store, name):
    fill(project.add_agent("mason"), {name: "evil"})
    assert not any(path.endswith(name.rsplit("/", 1)[1]) for path in kinds(project, store))


def test_a_link_out_of_the_layer_is_a_link_and_what_it_points_to_is_not_read(
    project, store, tmp_path
):
    secret = tmp_path / "secret"
    secret.mkdir()
    (secret / "key").write_text("key")
    upper = project.add_agent("mason")
    (upper / "out").symlink_to(secret)
    (change,) = project.change_of("mason", store).edits
    assert (change.after.kind, change.after.target) == ("link", str(secret))


def test_pipes_are_counted_and_left_out(project, store):
    os.mkfifo(project.add_agent("mason") / "pipe")
    change = project.change_of("mason", store)
    assert (change.edits, change.left_out) == ((), 1)


def test_a_name_that_is_no_text_is_counted_and_left_out(project, store):
    upper = os.fsencode(project.add_agent("mason"))
    Path(os.fsdecode(upper + b"/\xff")).write_text("x")
    change = project.change_of("mason", store)
    assert (change.edits, change.left_out) == ((), 1)


def test_set_user_bits_do_not_leave_the_layer(project, store):
    upper = project.add_agent("mason")
    fill(upper, {"tool": "x"})
    (upper / "tool").chmod(0o4755)
    (edit,) = project.change_of("mason", store).edits
    assert edit.after.mode == 0o755


def test_more_files_than_the_limit_are_refused(project, store, monkeypatch):
    monkeypatch.setattr(layer_change, "MAX_PATHS", 3)
    fill(project.add_agent("mason"), {str(number): "" for number in range(5)})
    with pytest.raises(ChangeTooLarge, match="more than 3 files"):
        project.change_of("mason", store)


def test_more_bytes_than_the_limit_are_refused(project, store, monkeypatch):
    monkeypatch.setattr(layer_change, "MAX_BYTES", 100)
    upper = project.add_agent("mason")
    with (upper / "large").open("wb") as file:
        file.truncate(1 << 40)  # sparse: it takes no room, and must not be read
    assert project.change_of("mason", store).unreadable == (f"{project.root}/large",)


def test_folders_nested_too_deep_make_the_change_not_whole(project, store, monkeypatch):
    monkeypatch.setattr(layer_change, "_MAX_DEPTH", 3)
    fill(project.add_agent("mason"), {"1/2/3/4/5": "x"})
    assert project.change_of("mason", store).unreadable == (f"{project.root}/1/2/3/4",)


def test_the_fingerprint_changes_with_the_change_and_not_with_times(project, store):
    upper = project.add_agent("mason")
    fill(upper, {"a.txt": "A"})
    first = project.change_of("mason", store).fingerprint
    os.utime(upper / "a.txt", (1, 1))
    assert project.change_of("mason", store).fingerprint == first
    fill(upper, {"a.txt": "B"})
    assert project.change_of("mason", store).fingerprint != first


@pytest.mark.parametrize(
    "name",
    ["node_modules/x/index.js", "sub/.venv/bin/python", "env/pyvenv.cfg", "out/CACHEDIR.TAG"],
)
def test_what_the_agent_installs_or_builds_is_no_part_of_it(project, store, name):
    fill(project.add_agent("mason"), {name: "x", f"{name.rpartition('/')[0]}/deep/more": "x"})
    assert kinds(project, store) == {}


def test_a_file_with_the_name_of_such_a_folder_and_a_folder_that_was_there_are_part_of_it(
    project, store
):
    fill(project.add_agent("mason"), {"venv": "x", "sub/CACHEDIR.TAG": "", "sub/b.txt": "B"})
    assert {*kinds(project, store)} == {"venv", "sub/CACHEDIR.TAG", "sub/b.txt"}


def test_a_folder_is_not_listed_beyond_the_limit(project, store, monkeypatch):
    monkeypatch.setattr(layer_change, "MAX_PATHS", 3)
    upper = project.add_agent("mason")
    for number in range(4):
        os.mkfifo(upper / str(number))  # none of them would count as a change
    with pytest.raises(ChangeTooLarge, match="more than 3 files"):
        project.change_of("mason", store)


def test_a_folder_that_cannot_be_opened_again_makes_the_change_not_whole(
    project, store, monkeypatch
):
    fill(project.add_agent("mason"), {"sub/b.txt": "B"})

    def refuse(path, flags):
        raise OSError(13, "Permission denied")

    monkeypatch.setattr(layer_change, "open_canonical", refuse)
    assert f"{project.root}/sub" in project.change_of("mason", store).unreadable


def test_a_change_that_is_not_whole_has_a_fingerprint_of_what_cannot_be_read():
    empty = LayerChange(agent="/root/a", agent_id="a", roots=("/p",), cwd="/p")
    prints = [replace(empty, unreadable=paths).fingerprint for paths in ((), ("x",), ("x", "y"))]
    assert prints[0] == ""
    assert len({*prints}) == 3

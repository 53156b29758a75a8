"""A copy that is a folder of its own: what is in it, and what of it counts as a change."""

import os
import shutil
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.project_copy import CopiedProject, layer_of
from swarm.supervisor.parts.copies import layer_change
from swarm.supervisor.parts.copies.agent_tree import make_agent_tree, shown_in_place
from swarm.supervisor.parts.copies.copy_folder import AgentCopy, CopiedRoot
from swarm.supervisor.parts.copies.layer_change import ChangeTooLarge, read_change
from swarm.supervisor.parts.copies.tree_survey import survey_tree
from swarm.supervisor.parts.undo.content_store import ContentStore
from swarm.supervisor.parts.undo.watched_tree import now_ns

FILES = {"a.txt": "a\n", "sub/b.txt": "b\n", "sub/deep/c.txt": "c\n", "keep": "k"}


def places_of(project: CopiedProject) -> dict[str, str]:
    return shown_in_place(str(project.root), project.survey)


def add_tree(project: CopiedProject, name: str) -> Path:
    """An agent with a tree of its own; returns the tree."""
    root = CopiedRoot(path=str(project.root), mode=0o755)
    tree = project.folder.agent_tree(name)
    make_agent_tree(project.folder.tree(1, 0), project.survey, places_of(project), tree)
    project.folder.write_start(name, survey_tree(str(tree), (), now_ns=now_ns()))
    project.folder.add_agent(
        AgentCopy(agent_id=name, path=f"/root/{name}", base=1, roots=(root,),
                  cwd=str(project.root), tree=str(tree))
    )  # fmt: skip
    return tree


@pytest.fixture
def project(tmp_path: Path) -> CopiedProject:
    made = CopiedProject(tmp_path)
    made.write(FILES)
    (made.root / ".git" / "objects").mkdir(parents=True)
    (made.root / ".git" / "refs").mkdir()
    (made.root / ".git" / "HEAD").write_text("ref: refs/heads/main\n")
    (made.root / "node_modules").mkdir()
    (made.root / "node_modules" / "tool").write_text("tool\n")
    made.freeze()
    return made


def kinds(project: CopiedProject, name: str = "mason") -> dict[str, str]:
    change = project.change_of(name, ContentStore(project.paths.file_copies))
    assert change.unreadable == ()
    return {
        edit.path.removeprefix(f"{project.root}/"): f"{edit.before.kind}->{edit.after.kind}"
        for edit in change.edits
    }


def test_an_untouched_tree_is_no_change_and_shares_no_file_with_base_or_project(project):
    tree = add_tree(project, "mason")
    assert kinds(project) == {}
    base = project.folder.tree(1, 0)
    for name in FILES:
        inodes = {(one / name).stat().st_ino for one in (tree, base, project.root)}
        assert len(inodes) == 3


def test_packages_and_objects_are_read_where_they_lie_and_are_no_part_of_the_change(project):
    tree = add_tree(project, "mason")
    assert (tree / "node_modules").readlink() == project.root / "node_modules"
    alternates = (tree / ".git/objects/info/alternates").read_text()
    assert alternates == f"{project.root}/.git/objects\n"
    (tree / "node_modules").unlink()
    (tree / "node_modules").mkdir()
    (tree / "node_modules" / "other").write_text("x")
    (tree / ".git" / "hooks").mkdir()
    assert kinds(project) == {}


def test_adds_edits_deletes_links_and_modes_are_the_change(project):
    tree = add_tree(project, "mason")
    (tree / "a.txt").write_text("A\n")
    (tree / "sub/b.txt").unlink()
    shutil.rmtree(tree / "sub/deep")
    (tree / "sub/deep").write_text("a file by now\n")
    (tree / "keep").chmod(0o755)
    (tree / "new").mkdir()
    (tree / "new/x").write_text("x")
    (tree / "link").symlink_to("a.txt")
    assert kinds(project) == {
        "a.txt": "file->file",
        "keep": "file->file",
        "link": "absent->link",
        "new": "absent->folder",
        "new/x": "absent->file",
        "sub/b.txt": "file->absent",
        "sub/deep": "folder->file",
        "sub/deep/c.txt": "file->absent",
    }


def test_a_file_of_the_same_size_and_time_is_a_change_all_the_same(project):
    tree = add_tree(project, "mason")
    facts = (tree / "a.txt").stat()
    (tree / "a.txt").write_text("b\n")
    os.utime(tree / "a.txt", ns=(facts.st_atime_ns, facts.st_mtime_ns))
    assert kinds(project) == {"a.txt": "file->file"}


def test_a_file_that_was_only_written_anew_is_no_change(project):
    tree = add_tree(project, "mason")
    (tree / "a.txt").unlink()
    (tree / "a.txt").write_text("a\n")
    (tree / "a.txt").chmod((project.root / "a.txt").stat().st_mode & 0o777)
    assert kinds(project) == {}


def test_a_tree_with_more_new_files_than_can_be_compared_says_so(project, monkeypatch):
    tree = add_tree(project, "mason")
    monkeypatch.setattr(layer_change, "MAX_PATHS", 2)
    monkeypatch.setattr(layer_change._check_count, "__defaults__", (2,))
    for number in range(3):
        (tree / f"new{number}").write_text("x")
    with pytest.raises(ChangeTooLarge):
        project.change_of("mason", ContentStore(project.paths.file_copies))


def test_a_tree_that_cannot_be_finished_is_gone(project):
    class Cancelled(Exception):
        pass

    seen: list[str] = []

    def go_on() -> None:
        seen.append("entry")
        if len(seen) == 3:
            raise Cancelled

    tree = project.folder.agent_tree("mason")
    with pytest.raises(Cancelled):
        make_agent_tree(
            project.folder.tree(1, 0), project.survey, places_of(project), tree, go_on=go_on
        )
    assert not tree.exists()


NAMES = st.sampled_from(("a", "b", "d/a", "d/b", "d/e/a", "f"))
STATES = st.dictionaries(NAMES, st.sampled_from(("x", "y", "longer")), max_size=6)


def lay(folder: Path, files: dict[str, str]) -> None:
    """Write these files; where a name is a folder already, or the other way round, skip it."""
    for name, text in sorted(files.items(), key=lambda one: one[0].count("/")):
        path = folder / name
        if path.is_dir() or not all(one.is_dir() or not one.exists() for one in path.parents):
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


@settings(max_examples=120, deadline=None)
@given(before=STATES, after=STATES)
def test_a_tree_and_a_layer_that_say_the_same_are_the_same_change(tmp_path_factory, before, after):
    project = CopiedProject(tmp_path_factory.mktemp("differential"))
    lay(project.root, before)
    project.freeze()
    tree, layer = add_tree(project, "tree"), project.add_agent("layer")
    wanted = project.root.parent / "wanted"
    wanted.mkdir()
    lay(wanted, after)
    layer_of(project.folder.tree(1, 0), wanted, layer)
    for entry in list(tree.iterdir()):
        shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
    lay(tree, after)
    store = ContentStore(project.paths.file_copies)
    found = [
        read_change(project.folder, copy, store)
        for name in ("tree", "layer")
        if (copy := project.folder.find(name)) is not None
    ]
    assert found[0].fingerprint == found[1].fingerprint
    assert [e.path for e in found[0].edits] == [e.path for e in found[1].edits]

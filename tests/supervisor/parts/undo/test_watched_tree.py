"""What is different since the last look is found, with what was before, or said to be unknown."""

import os
from pathlib import Path

import pytest

from swarm.mailbox.base.path_rules import PLACEHOLDER_MTIME_NS
from swarm.mailbox.protocol.values.limits import WorkspaceWrite
from swarm.supervisor.parts.undo import tree_walk, working_copies
from swarm.supervisor.parts.undo.content_store import UNKNOWN, ContentStore
from swarm.supervisor.parts.undo.tree_walk import roots_of
from swarm.supervisor.parts.undo.watched_tree import WatchedTree, now_ns
from swarm.supervisor.parts.undo.working_copies import WorkingCopies


class Watched:
    def __init__(self, folder: Path) -> None:
        self.top = folder / "work"
        self.top.mkdir()
        self.store = ContentStore(folder / "kept")
        self.tree = WatchedTree(
            self.store, WorkingCopies(folder / "kept"), (str(folder / "closed"),)
        )
        self.tree.add_roots((str(self.top),))

    def write(self, name: str, text: str = "x") -> Path:
        path = self.top / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def scan(self) -> dict[str, tuple[str, str]]:
        """Name → what it was and is."""
        top = str(self.top) + "/"
        return {
            one.after.path.removeprefix(top): (self._told(one.before), self._told(one.after))
            for one in self.tree.scan()
        }

    def _told(self, entry) -> str:
        if entry.kind == "link":
            return f"→ {entry.target}"
        if entry.kind != "file" or entry.sha256 == UNKNOWN:
            return UNKNOWN if entry.kind == "file" else entry.kind
        with os.fdopen(self.store.open(entry.sha256), "rb") as file:
            return f"{file.read().decode()} {entry.mode:o}"


@pytest.fixture
def watched(tmp_path):
    here = Watched(tmp_path)
    yield here
    here.tree.close()


def test_all_kinds_of_changes_are_found_with_what_was_before(watched):
    edited = watched.write("src/edited", "one")
    gone = watched.write("gone", "bye")
    moved = watched.write("moved", "same")
    made = watched.write("script", "run")
    made.chmod(0o644)
    link = watched.top / "link"
    link.symlink_to("gone")
    (watched.top / "empty").mkdir()
    assert watched.scan() == {}  # the baseline
    edited.write_text("two")
    gone.unlink()
    moved.rename(watched.top / "src" / "moved")
    made.chmod(0o755)
    link.unlink()
    link.symlink_to("src")
    (watched.top / "empty").rmdir()
    watched.write("new/deep/file", "hi")
    assert watched.scan() == {
        "src/edited": ("one 644", "two 644"),
        "gone": ("bye 644", "absent"),
        "moved": ("same 644", "absent"),
        "src/moved": ("absent", "same 644"),
        "script": ("run 644", "run 755"),
        "link": ("→ gone", "→ src"),
        "empty": ("folder", "absent"),
        "new": ("absent", "folder"),
        "new/deep": ("absent", "folder"),
        "new/deep/file": ("absent", "hi 644"),
    }
    assert watched.scan() == {}


def test_a_change_that_keeps_size_and_time_is_found(watched):
    path = watched.write("a", "one")
    facts = path.stat()
    watched.scan()
    path.write_text("two")
    os.utime(path, ns=(facts.st_atime_ns, facts.st_mtime_ns))
    assert watched.scan() == {"a": ("one 644", "two 644")}


def test_a_file_that_turns_into_a_folder_and_back_is_found(watched):
    path = watched.write("a", "one")
    watched.scan()
    path.unlink()
    watched.write("a/b", "in")
    assert watched.scan() == {"a": ("one 644", "folder"), "a/b": ("absent", "in 644")}


def test_what_tools_make_and_the_run_itself_are_not_looked_at(watched):
    for name in (".git/HEAD", "node_modules/x", "a/__pycache__/y", "env/pyvenv.cfg", "env/bin/z"):
        watched.write(name)
    watched.write("target/CACHEDIR.TAG")
    watched.tree.add_roots((str(watched.top.parent),))
    (watched.top.parent / "closed").mkdir()
    watched.scan()
    for name in (".git/new", "node_modules/new", "a/__pycache__/new", "env/new", "target/new"):
        watched.write(name)
    (watched.top.parent / "closed" / "new").write_text("x")
    watched.write("a/new")
    found = watched.scan()
    assert not watched.tree.covers(str(watched.top / "target" / "new"))
    kept = {name for name in found if not name.startswith(str(watched.store._folder))}
    assert kept == {"a/new"}


def test_pipes_and_unreadable_folders_stop_nothing(watched):
    os.mkfifo(watched.top / "pipe")
    watched.write("a")
    watched.scan()
    (watched.top / "a").write_text("y")
    assert watched.scan() == {"a": ("x 644", "y 644")}


def test_names_that_are_no_text_are_left_out_and_stop_nothing(watched):
    watched.write("a")
    watched.scan()
    for name in (b"\xff\xfe", b"folder\xff/in"):
        path = os.path.join(os.fsencode(watched.top), name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(b"x")
    os.symlink(b"\xff", os.path.join(os.fsencode(watched.top), b"link"))
    watched.write("a", "y")
    assert watched.scan() == {"a": ("x 644", "y 644")}
    taken = watched.store.take_snapshot([str(watched.top)])
    assert len(taken.left_out) == 4  # two names, the folder's file, the link's target
    assert all(one.isprintable() for one in taken.left_out)
    assert [one.path for one in watched.store.read_manifest(taken.manifest)] == [
        str(watched.top), str(watched.top / "a"),
    ]  # fmt: skip


def test_a_file_too_large_to_copy_is_told_without_a_copy(watched, monkeypatch):
    monkeypatch.setattr(working_copies, "MAX_FILE_BYTES", 10)
    large = watched.write("large", "x" * 11)
    watched.scan()
    large.write_text("y" * 11)
    assert watched.scan() == {"large": (UNKNOWN, UNKNOWN)}
    assert not watched.tree.covers(str(large))
    assert watched.scan() == {}


def test_a_folder_beyond_the_bound_is_named_and_never_taken_for_new(watched, monkeypatch):
    monkeypatch.setattr(tree_walk, "MAX_FILES", 6)
    for number in range(3):
        watched.write(f"small/{number}")
    for number in range(20):
        watched.write(f"vast/{number}")
    watched.scan()
    assert watched.tree.uncovered == (str(watched.top / "vast"),)
    assert not watched.tree.covers(str(watched.top / "vast" / "1"))
    assert watched.tree.covers(str(watched.top / "small" / "new"))
    (watched.top / "vast" / "3").write_text("changed")
    watched.write("vast/fresh")
    watched.write("small/1", "changed")
    assert watched.scan() == {"small/1": ("x 644", "changed 644")}


def test_what_was_changed_before_its_first_copy_has_no_before(watched):
    watched.write("early")
    watched.tree.first_call_ns = now_ns() + 10_000_000_000
    watched.scan()
    later = watched.top.parent / "later"
    later.mkdir()
    (later / "a").write_text("changed already")
    watched.tree.first_call_ns = now_ns() - 1_000_000_000  # a call began before this look
    watched.tree.add_roots((str(later),))
    assert watched.scan() == {f"{later}/a": (UNKNOWN, "changed already 644")}


def test_what_was_refreshed_is_nobodys_change(watched):
    path, other = watched.write("a"), watched.write("b")
    watched.scan()
    path.write_text("put back")
    other.unlink()
    made = watched.write("c")
    watched.tree.refresh([str(path), str(other), str(made)])
    assert watched.scan() == {}


def test_roots_are_canonical_and_none_lies_in_another(tmp_path):
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "c").mkdir()
    (tmp_path / "l").symlink_to("c")
    sandbox = WorkspaceWrite(writable_roots=(str(tmp_path / "l"), str(tmp_path / "missing")))
    roots = roots_of(sandbox, str(tmp_path / "a"), (str(tmp_path / "a" / "b"),))
    assert roots == (str(tmp_path / "a"), str(tmp_path / "c"))


def test_a_sandboxs_placeholders_are_nobodys_folders_until_somebody_writes_in_one(tmp_path):
    placeholder, own, filled = (tmp_path / name for name in (".codex", ".aws", ".agents"))
    for folder in (placeholder, own, filled):
        folder.mkdir()
    for folder in (placeholder, filled):
        os.utime(folder, ns=(PLACEHOLDER_MTIME_NS, PLACEHOLDER_MTIME_NS))
    (filled / "note").touch()
    assert sorted(tree_walk.TreeWalker(()).walk([str(tmp_path)])) == [
        str(filled), str(filled / "note"), str(own),
    ]  # fmt: skip

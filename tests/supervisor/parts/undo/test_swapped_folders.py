"""A link in a folder's place leads neither a copy, nor a look, nor an undo anywhere else."""

import os
from pathlib import Path

import pytest

from swarm.mailbox.protocol.records import Record, SnapshotTaken
from swarm.supervisor.parts.undo import tree_walk
from swarm.supervisor.parts.undo.content_store import ContentStore
from swarm.supervisor.parts.undo.file_restore import (
    describe_failures,
    plan_changes,
    restore_files,
)
from swarm.supervisor.parts.undo.file_undo import SnapshotRecord, undo_changes
from swarm.supervisor.parts.undo.net_changes import RecordedChange, compose_changes
from swarm.supervisor.parts.undo.snapshots import choose_snapshots, fold_snapshots
from swarm.supervisor.parts.undo.watched_tree import WatchedTree
from swarm.supervisor.parts.undo.working_copies import WorkingCopies


def put_back(plan, store):
    done, failed = restore_files(plan, store)
    return done, describe_failures(failed)


def plan_undo(before, after, *, force):
    """Of one snapshot, compared with what is there."""
    edits = compose_changes([RecordedChange(agent="", before=before, after=after)])
    return plan_changes(edits, agents=("",), force=force)


@pytest.fixture
def store(tmp_path: Path) -> ContentStore:
    return ContentStore(tmp_path / "kept")


@pytest.fixture
def top(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    (folder / "d").mkdir(parents=True)
    (folder / "d" / "x").write_text("mine")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "x").write_text("secret")
    return folder


def swap(top: Path) -> None:
    """`mv d d.real; ln -s ../out d`"""
    (top / "d").rename(top / "d.real")
    (top / "d").symlink_to("../out")


def _records(written: list[tuple[SnapshotRecord, str]]) -> list[Record]:
    return [
        Record(seq=number, ts=0.0, agent=agent, body=body)
        for number, (body, agent) in enumerate(written, 1)
    ]


def test_a_forced_undo_restores_below_a_swapped_folder_and_writes_nothing_through_the_link(
    store: ContentStore, top: Path
) -> None:
    entries = store.read_manifest(store.take_snapshot([str(top / "d" / "x")]).manifest)
    swap(top)
    plan = plan_undo(entries, (), force=True)
    done, failed = put_back(plan, store)
    assert (done, failed) == (1, ())
    assert ((top / "d").is_symlink(), (top / "d" / "x").read_text()) == (False, "mine")
    assert (top.parent / "out" / "x").read_text() == "secret"


def test_without_force_the_link_stays_and_the_file_is_said_not_to_be_restored(
    store: ContentStore, top: Path
) -> None:
    entries = store.read_manifest(store.take_snapshot([str(top / "d" / "x")]).manifest)
    swap(top)
    done, failed = put_back(plan_undo(entries, (), force=False), store)
    assert (done, failed) == (0, (f"{top / 'd' / 'x'}: d on the way is not a folder any more",))
    assert ((top / "d").is_symlink(), (top.parent / "out" / "x").read_text()) == (True, "secret")


def test_the_forced_undo_of_a_swapped_folder_can_be_undone(store: ContentStore, top: Path) -> None:
    taken = store.take_snapshot([str(top / "d" / "x")])
    first = SnapshotTaken(snapshot_id="a", manifest=taken.manifest, files=1, size_bytes=4)
    written: list[tuple[SnapshotRecord, str]] = [(first, "/root")]
    swap(top)

    def note(body: SnapshotRecord, agent: str) -> None:
        written.append((body, agent))

    report = undo_changes(
        choose_snapshots(fold_snapshots(_records(written)), agent="", snapshot_id="a"),
        store,
        note,
        force=True,
    )
    assert (report.restored, report.failed) == (1, ())
    again = choose_snapshots(
        fold_snapshots(_records(written)), agent="", snapshot_id=report.kept_as
    )
    assert undo_changes(again, store, note, force=False).failed == ()
    assert os.readlink(top / "d") == "../out"


def test_a_swapped_folder_is_seen_as_what_it_became_and_comes_back(
    store: ContentStore, top: Path
) -> None:
    tree = WatchedTree(store, WorkingCopies(top.parent / "pack"), ())
    tree.add_roots([str(top)])
    assert tree.scan() == ()
    swap(top)
    changes = tree.scan()
    names = {os.path.relpath(one.after.path, top): one.after.kind for one in changes}
    assert names == {"d": "link", "d.real": "folder", "d.real/x": "file", "d/x": "absent"}
    before, after = [one.before for one in changes], [one.after for one in changes]
    done, failed = put_back(plan_undo(before, after, force=False), store)
    assert failed == () and done >= 2
    assert (top / "d" / "x").read_text() == "mine"
    assert sorted(os.listdir(top)) == ["d"]
    tree.close()


def test_a_folder_that_becomes_a_link_while_the_tree_is_walked_is_not_entered(
    store: ContentStore, top: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = tree_walk.scan_folder

    def swap_before(path: str):  # type: ignore[no-untyped-def]
        if path == str(top / "d"):
            swap(top)
        return opened(path)

    monkeypatch.setattr(tree_walk, "scan_folder", swap_before)
    tree = WatchedTree(store, WorkingCopies(top.parent / "pack"), ())
    tree.add_roots([str(top)])
    tree.scan()
    assert not tree.covers(str(top / "d" / "x"))
    assert tree.uncovered == ()
    tree.close()


def test_no_copy_is_made_through_a_link(store: ContentStore, top: Path) -> None:
    swap(top)
    path = str(top / "d" / "x")
    pack = WorkingCopies(top.parent / "pack")
    assert pack.copy(path) is None
    (entry,) = store.read_manifest(store._take([path]).manifest)
    assert entry.kind == "absent"
    pack.close()


def test_a_file_in_a_folders_place_and_a_folder_in_a_files_place_go_back(
    store: ContentStore, top: Path
) -> None:
    (top / "f").write_text("file")
    before = store.read_manifest(store.take_snapshot([str(top)]).manifest)
    (top / "d" / "x").unlink()
    (top / "d").rmdir()
    (top / "d").write_text("a file now")
    (top / "f").unlink()
    (top / "f").mkdir()
    after = store.read_manifest(store.write_current_manifest(before))
    _, failed = put_back(plan_undo(before, after, force=False), store)
    assert failed == ()
    assert ((top / "d" / "x").read_text(), (top / "f").read_text()) == ("mine", "file")

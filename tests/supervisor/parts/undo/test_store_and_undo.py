"""The store keeps what was there, and an undo puts back just that."""

import os
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from swarm.mailbox.protocol.records import Record, SnapshotSettled, SnapshotTaken, Undone
from swarm.supervisor.parts.undo.content_store import ContentStore
from swarm.supervisor.parts.undo.file_restore import (
    describe_failures,
    plan_changes,
    restore_files,
)
from swarm.supervisor.parts.undo.file_undo import SnapshotRecord, undo_changes
from swarm.supervisor.parts.undo.net_changes import RecordedChange, compose_changes
from swarm.supervisor.parts.undo.snapshots import choose_snapshots, fold_snapshots


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
def tree(tmp_path: Path) -> Path:
    top = tmp_path / "work"
    (top / "build" / "deep").mkdir(parents=True)
    (top / "build" / "a.o").write_bytes(b"\x00object")
    (top / "build" / "deep" / "run.sh").write_text("echo hi\n")
    (top / "build" / "deep" / "run.sh").chmod(0o755)
    (top / "build" / "link").symlink_to("a.o")
    (top / "build" / "empty").mkdir()
    return top


def test_what_no_command_ever_sees_is_never_copied(tmp_path, tree):
    """Also not when a command names it, alone or in a folder around it, or by a link."""
    (tree / "accounts").mkdir()
    (tree / "accounts" / "one.json").write_text("s3cret")
    (tree / "way").symlink_to("accounts")
    store = ContentStore(tmp_path / "kept", closed=(str(tree / "accounts"),))
    store.take_snapshot([str(tree)])
    store.take_snapshot([str(tree / "accounts")])
    store.entries_of([str(tree / "accounts" / "one.json"), str(tree / "way" / "one.json")])
    copies = [path.read_bytes() for path in (tmp_path / "kept").rglob("*") if path.is_file()]
    assert b"\x00object" in copies
    assert b"s3cret" not in b"".join(copies)


def _destroy(folder: Path) -> None:
    for path in sorted(folder.rglob("*"), reverse=True):
        if path.is_dir() and not path.is_symlink():
            path.rmdir()
        else:
            path.unlink()
    folder.rmdir()


def _shape(top: Path) -> dict[str, tuple[str, int]]:
    return {
        str(path.relative_to(top)): (
            str(path.readlink()) if path.is_symlink()
            else path.read_bytes().hex() if path.is_file() else "folder",
            path.lstat().st_mode,
        )
        for path in sorted(top.rglob("*"))
    }  # fmt: skip


def test_a_removed_tree_comes_back_with_contents_modes_links_and_empty_folders(
    store: ContentStore, tree: Path
) -> None:
    before = _shape(tree)
    taken = store.take_snapshot([str(tree / "build")])
    _destroy(tree / "build")
    entries = store.read_manifest(taken.manifest)
    done, failed = put_back(plan_undo(entries, (), force=False), store)
    assert (done, failed) == (3, ())
    assert _shape(tree) == before


def test_what_others_wrote_since_is_left_alone_unless_forced(
    store: ContentStore, tree: Path
) -> None:
    file = tree / "build" / "a.o"
    taken = store.take_snapshot([str(file)])
    entries = store.read_manifest(taken.manifest)
    file.write_bytes(b"the call")
    after = store.read_manifest(store.write_current_manifest(entries))
    file.write_bytes(b"somebody else, later")
    plan = plan_undo(entries, after, force=False)
    assert plan.restore == ()
    assert plan.left == (str(file),)
    put_back(plan_undo(entries, after, force=True), store)
    assert file.read_bytes() == b"\x00object"


def test_what_is_as_the_call_left_it_is_put_back(store: ContentStore, tree: Path) -> None:
    file = tree / "build" / "a.o"
    entries = store.read_manifest(store.take_snapshot([str(file)]).manifest)
    file.write_bytes(b"the call")
    after = store.read_manifest(store.write_current_manifest(entries))
    put_back(plan_undo(entries, after, force=False), store)
    assert file.read_bytes() == b"\x00object"


def test_a_link_put_in_the_way_does_not_lead_the_undo_elsewhere(
    store: ContentStore, tree: Path, tmp_path: Path
) -> None:
    entries = store.read_manifest(store.take_snapshot([str(tree / "build")]).manifest)
    _destroy(tree / "build")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (tree / "build").symlink_to(elsewhere)
    _, failed = put_back(plan_undo(entries, (), force=False), store)
    assert failed
    assert list(elsewhere.iterdir()) == []


def test_git_folders_pipes_and_files_that_are_too_large_are_left_out(
    store: ContentStore, tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("swarm.supervisor.parts.undo.content_store.MAX_KEPT_BYTES", 100)
    (tree / ".git").mkdir()
    (tree / ".git" / "HEAD").write_text("ref")
    os.mkfifo(tree / "pipe")
    (tree / "large").write_bytes(b"x" * 101)
    taken = store.take_snapshot([str(tree)])
    paths = {entry.path for entry in store.read_manifest(taken.manifest)}
    assert not any(".git" in path for path in paths)
    assert set(taken.left_out) == {str(tree / "pipe"), str(tree / "large")}


def test_a_file_of_200_mib_comes_back_and_what_is_empty_in_it_takes_no_room(
    store: ContentStore, tree: Path
) -> None:
    large, edge = tree / "large", 150 * 1024 * 1024
    with large.open("wb") as file:
        file.write(b"head")
        file.seek(edge)
        file.write(b"middle")
        file.truncate(200 * 1024 * 1024)
    taken = store.take_snapshot([str(large)])
    assert (taken.left_out, taken.size_bytes) == ((), 200 * 1024 * 1024)
    (entry,) = store.read_manifest(taken.manifest)
    copy = store._path(entry.sha256).stat()
    assert (copy.st_size, copy.st_blocks * 512 < 8 * 1024 * 1024) == (200 * 1024 * 1024, True)
    large.unlink()
    _, failed = put_back(plan_undo((entry,), (), force=False), store)
    assert failed == ()
    assert large.stat().st_size == 200 * 1024 * 1024
    with large.open("rb") as file:
        assert file.read(5) == b"head\0"
        file.seek(edge - 1)
        assert file.read(7) == b"\0middle"


def test_one_file_more_than_is_copied_for_a_command_is_left_out(
    store: ContentStore, tree: Path
) -> None:
    with (tree / "huge").open("wb") as file:
        file.truncate(1024 * 1024 * 1024)
    taken = store.take_snapshot([str(tree / "huge")])
    assert (taken.left_out, taken.files) == ((str(tree / "huge"),), 0)


def test_an_undo_can_be_undone(store: ContentStore, tree: Path) -> None:
    file = tree / "build" / "a.o"
    taken = store.take_snapshot([str(file)])
    records: list[Record] = []

    def note(body: SnapshotRecord, agent: str) -> None:
        records.append(Record(seq=len(records) + 1, ts=0.0, body=body, agent=agent))

    note(
        SnapshotTaken(
            snapshot_id="s1", manifest=taken.manifest, files=1, size_bytes=7, call_id="c1"
        ),
        "/root",
    )
    file.write_bytes(b"the call")
    entries = store.read_manifest(taken.manifest)
    note(SnapshotSettled(snapshot_id="s1", manifest=store.write_current_manifest(entries)), "/root")
    chosen = choose_snapshots(fold_snapshots(records), agent="", snapshot_id="")
    report = undo_changes(chosen, store, note, force=False)
    assert (report.restored, file.read_bytes()) == (1, b"\x00object")
    assert choose_snapshots(fold_snapshots(records), agent="", snapshot_id="") == []
    back = choose_snapshots(fold_snapshots(records), agent="", snapshot_id=report.kept_as)
    assert undo_changes(back, store, note, force=False).restored == 1
    assert file.read_bytes() == b"the call"
    assert any(isinstance(record.body, Undone) for record in records)


def test_a_damaged_list_is_an_error_and_nothing_is_touched(store: ContentStore, tree: Path) -> None:
    taken = store.take_snapshot([str(tree / "build" / "a.o")])
    path = next(path for path in (tree.parent / "kept").rglob(taken.manifest))
    path.write_bytes(b"damaged")
    with pytest.raises(ValueError, match="damaged"):
        store.read_manifest(taken.manifest)


def test_two_threads_may_store_the_same_contents_at_once(store: ContentStore, monkeypatch) -> None:
    real, names = ContentStore._move_into_place, []
    barrier = threading.Barrier(2, timeout=10)

    def move(self, fresh, digest):
        names.append(fresh)
        barrier.wait()  # both files are written by now
        real(self, fresh, digest)

    monkeypatch.setattr(ContentStore, "_move_into_place", move)
    with ThreadPoolExecutor(2) as pool:
        made = [pool.submit(store.add_bytes, b"same") for _ in range(2)]
        assert len({one.result() for one in made}) == 1
    assert len({*names}) == 2

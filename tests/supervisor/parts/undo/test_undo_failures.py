"""An undo that fails or is killed at any step can be repeated, and then all is as it was."""

from contextlib import suppress
from pathlib import Path

import pytest

from support.staged_faults import Killed, before_step, fault_at, full_disk
from swarm.mailbox.protocol.records import FilesChanged, Record, SnapshotSettled
from swarm.supervisor.parts.undo.content_store import ContentStore
from swarm.supervisor.parts.undo.file_undo import clear_cut_off_undos, undo_changes
from swarm.supervisor.parts.undo.snapshots import choose_snapshots, fold_files
from swarm.supervisor.runs.paths import RunPaths

BEFORE = {"edited": "1\n", "removed": "2\n", "was-folder/x": "3\n"}
AFTER = {"edited": "one\n", "made": "m\n", "deep/made": "d\n", "was-folder": "a file\n"}


def no_permission() -> OSError:
    return PermissionError(13, "Permission denied")


class Desk:
    """A folder that an agent changed, and the run's records."""

    def __init__(self, folder: Path) -> None:
        self.paths = RunPaths(folder=folder / "state/runs/run", sockets=folder)
        self.paths.folder.mkdir(parents=True)
        self.root = folder / "work"
        self.store = ContentStore(self.paths.file_copies)
        self.records: list[Record] = []
        names = ["edited", "removed", "made", "deep", "deep/made", "was-folder", "was-folder/x"]
        paths = [str(self.root / name) for name in names]
        self.fill(BEFORE)
        before = self.store.entries_of(paths)
        for path in ("was-folder/x", "removed"):
            (self.root / path).unlink()
        (self.root / "was-folder").rmdir()
        self.fill(AFTER)
        after = self.store.entries_of(paths)
        changed = FilesChanged(
            change_id="s1", before=self.store.write_manifest(before),
            after=self.store.write_manifest(after), files=5, turn_id="t", call_ids=("c",),
        )  # fmt: skip
        self.write(changed, "/root")

    def fill(self, files: dict[str, str]) -> None:
        for name, text in files.items():
            (self.root / name).parent.mkdir(parents=True, exist_ok=True)
            (self.root / name).write_text(text)

    def write(self, body, agent: str) -> None:
        seq = len(self.records) + 1
        self.records.append(Record(seq=seq, ts=float(seq), agent=agent, body=body))

    def tree(self) -> dict[str, str]:
        files = (path for path in self.root.rglob("*") if path.is_file())
        return {str(path.relative_to(self.root)): path.read_text() for path in files}

    def pick(self, name: str = ""):
        return choose_snapshots(fold_files(self.records).snapshots, agent="", snapshot_id=name)

    def undo(self, name: str = ""):
        return undo_changes(self.pick(name), self.store, self.write, force=False)

    def clear(self) -> list[str]:
        return clear_cut_off_undos(fold_files(self.records), self.paths)


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


@pytest.mark.parametrize("make", [full_disk, no_permission])
@pytest.mark.parametrize("number", range(16))
def test_what_an_undo_could_not_write_is_still_to_be_undone(desk, number, make):
    with fault_at(number, make):
        report = desk.undo()
    assert report.failed
    assert len(desk.pick()) == 1
    again = desk.undo()
    assert (again.failed, again.left) == ((), ())
    assert desk.tree() == BEFORE
    assert desk.pick() == []


def test_an_undo_that_failed_in_part_can_be_taken_back(desk):
    with fault_at(0, full_disk):
        report = desk.undo()
    assert report.failed
    assert desk.undo(report.kept_as).failed == ()
    assert desk.tree() == AFTER


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("number", range(16))
def test_a_killed_undo_leaves_nothing_beside_the_files_and_can_be_repeated(desk, number, after):
    with pytest.raises(Killed), fault_at(number, Killed, after=after):
        desk.undo()
    assert desk.clear() == []
    desk.undo()
    assert desk.tree() == BEFORE
    assert fold_files(desk.records).open_undos.keys() <= {
        one.body.snapshot_id for one in desk.records if isinstance(one.body, SnapshotSettled)
    }


def test_what_somebody_saved_before_a_killed_undo_could_look_gets_its_place_again(desk):
    def save(_: str) -> None:
        (desk.root / "saved").write_text("mine\n")
        (desk.root / "saved").replace(desk.root / "edited")

    def die(_: str) -> None:
        raise Killed

    from swarm.mailbox.base import file_exchange

    calls: list[str] = []

    def act(name: str) -> None:
        calls.append(name)
        save(name)

    with (
        suppress(Killed),
        before_step("_identity", act, module=file_exchange),
        before_step("_give_back", die, module=file_exchange),
    ):
        desk.undo()
    assert calls
    assert (desk.root / "edited").read_text() == "1\n"
    assert desk.clear() == []
    assert desk.tree()["edited"] == "mine\n"
    assert not [name for name in desk.tree() if ".swarm-" in name]

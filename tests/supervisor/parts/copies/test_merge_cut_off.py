"""A merge that is killed at any write is carried out by the next look, and can be undone."""

from contextlib import suppress
from pathlib import Path

import pytest

from support.project_copy import CopiedProject, fill, whiteout
from support.staged_faults import Killed, before_step, fault_at, full_disk
from swarm.mailbox.protocol.merge_records import MergeBegan, MergeEnded
from swarm.mailbox.protocol.records import Record
from swarm.supervisor.parts.copies.merge_apply import (
    MergeFailed,
    apply_merge,
    find_unfinished,
    finish_merge,
)
from swarm.supervisor.parts.copies.merge_history import fold_merges
from swarm.supervisor.parts.copies.merge_plan import plan_merge
from swarm.supervisor.parts.undo.content_store import ContentStore
from swarm.supervisor.parts.undo.file_undo import undo_changes
from swarm.supervisor.parts.undo.snapshots import choose_snapshots, fold_files


class Desk:
    """A project with one change of each kind, and a journal of the records that were written."""

    def __init__(self, folder: Path) -> None:
        self.project = CopiedProject(folder)
        self.project.write({"edited": "1\n", "gone": "2\n", "tree/gone": "3\n", "swap/x": "4\n"})
        self.project.freeze()
        self.before = self.tree()
        upper = self.project.add_agent("mason")
        fill(upper, {"edited": "one\n", "new/deep": "n\n", "swap": "a file\n"})
        whiteout(upper / "gone")
        whiteout(upper / "tree")
        self.after = {"edited": "one\n", "new/deep": "n\n", "swap": "a file\n"}
        self.store = ContentStore(self.project.paths.file_copies)
        self.records: list[Record] = []

    def tree(self) -> dict[str, str]:
        root = self.project.root
        files = (path for path in root.rglob("*") if path.is_file())
        return {str(path.relative_to(root)): path.read_text() for path in files}

    def write(self, body, agent: str) -> None:
        seq = len(self.records) + 1
        self.records.append(Record(seq=seq, ts=float(seq), agent=agent, body=body))

    def plan(self):
        return plan_merge([self.project.change_of("mason", self.store)], self.store)

    def resume(self) -> None:
        for one in fold_merges(self.records).cut_off:
            finish_merge(one.began, self.store, self.write, roots=(str(self.project.root),))

    def undo(self) -> None:
        merge = fold_merges(self.records).find("1")
        assert merge is not None
        found = fold_files(self.records).snapshots
        chosen = choose_snapshots(found, agent="", turns=(merge.began.merge_id,))
        undo_changes(chosen, self.store, self.write, force=False)


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


def kill_at(desk: Desk, number: int, *, after: bool = False) -> None:
    """The merge begins, and its process dies at the step with this number."""
    with pytest.raises(Killed), fault_at(number, after=after):
        apply_merge(desk.plan(), desk.store, desk.write)


def test_a_whole_merge_and_its_undo(desk):
    apply_merge(desk.plan(), desk.store, desk.write)
    assert desk.tree() == desk.after
    desk.undo()
    assert desk.tree() == desk.before
    assert (desk.project.root / "swap").is_dir()


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("number", range(18))
def test_killed_at_any_step_a_merge_is_carried_out_by_the_next_look(desk, number, after):
    kill_at(desk, number, after=after)
    assert isinstance(desk.records[-1].body, MergeBegan)
    desk.resume()
    assert desk.tree() == desk.after
    assert fold_merges(desk.records).cut_off == ()
    desk.undo()
    assert desk.tree() == desk.before


@pytest.mark.parametrize("number", range(20))
def test_killed_again_while_it_is_carried_out_it_is_carried_out_all_the_same(desk, number):
    kill_at(desk, 6)
    with suppress(Killed), fault_at(number):
        desk.resume()
    desk.resume()
    assert desk.tree() == desk.after


def test_killed_before_the_last_records_it_is_recorded_by_the_next_look(desk):
    def write(body, agent):
        if not isinstance(body, MergeBegan):
            raise Killed
        desk.write(body, agent)

    with pytest.raises(Killed):
        apply_merge(desk.plan(), desk.store, write)
    desk.resume()
    assert desk.tree() == desk.after
    desk.undo()
    assert desk.tree() == desk.before


def test_what_a_person_changed_between_kill_and_next_look_is_left_alone(desk):
    kill_at(desk, 4)
    (desk.project.root / "edited").write_text("mine\n")
    desk.resume()
    assert desk.tree() == {**desk.after, "edited": "mine\n"}
    ended = desk.records[-1].body
    assert isinstance(ended, MergeEnded)
    assert ended.left == (f"{desk.project.root}/edited",)


@pytest.mark.parametrize("number", range(15))
def test_a_disk_that_fills_at_any_step_leaves_nothing_of_the_merge(desk, number):
    with pytest.raises(MergeFailed, match="nothing of it is done"), fault_at(number, full_disk):
        apply_merge(desk.plan(), desk.store, desk.write)
    assert desk.tree() == desk.before
    assert fold_merges(desk.records).cut_off == ()


def test_what_cannot_be_taken_back_stays_a_merge_that_was_cut_off(desk):
    def fail(_: str) -> None:
        raise full_disk()

    with (
        pytest.raises(MergeFailed, match=r"is cut off: .*merge again"),
        fault_at(14, full_disk),
        before_step("_restore_folder", fail),
    ):
        apply_merge(desk.plan(), desk.store, desk.write)
    (cut_off,) = fold_merges(desk.records).cut_off
    assert f"{desk.project.root}/edited" in find_unfinished(cut_off.began, desk.store)
    desk.resume()
    assert desk.tree() == desk.after
    desk.undo()
    assert desk.tree() == desk.before


def test_a_disk_that_is_full_leaves_a_merge_that_was_cut_off_to_the_next_look(desk):
    kill_at(desk, 9)

    def fail(_: str) -> None:
        raise full_disk()

    with (
        pytest.raises(MergeFailed, match=r"cannot be finished: .*: No space left on device"),
        before_step("copy_sparse", fail),
    ):
        desk.resume()
    assert isinstance(desk.records[-1].body, MergeBegan)
    desk.resume()
    assert desk.tree() == desk.after


def test_a_file_that_somebody_writes_during_the_merge_stays_theirs_and_nothing_is_merged(desk):
    def write(_: str) -> None:  # the check of all files is over by now
        (desk.project.root / "edited").write_text("mine\n")

    with (
        pytest.raises(MergeFailed, match="edited: it was changed meanwhile"),
        before_step("_remove_folder", write),
    ):
        apply_merge(desk.plan(), desk.store, desk.write)
    assert desk.tree() == {**desk.before, "edited": "mine\n"}


def test_what_somebody_wrote_over_a_merge_that_failed_is_not_taken_back(desk):
    def write(name: str) -> None:
        if (desk.project.root / "new/deep").exists():  # `edited` is merged by now
            (desk.project.root / "edited").write_text("mine\n")
            raise full_disk()

    with pytest.raises(MergeFailed), before_step("put_new", write):
        apply_merge(desk.plan(), desk.store, desk.write)
    assert desk.tree() == {**desk.before, "edited": "mine\n"}


def test_a_merge_that_was_cut_off_writes_nothing_behind_a_protected_link(desk):
    kill_at(desk, 0)
    (desk.project.root / ".claude").symlink_to("new")
    desk.resume()
    assert not (desk.project.root / "new").exists()
    assert isinstance(ended := desk.records[-1].body, MergeEnded)
    assert f"{desk.project.root}/new/deep" in ended.left

"""A merge into an agent's copy: all of it or nothing, never the project, finished after a kill."""

import os

import msgspec
import pytest

from support.project_copy import CopiedProject, fill
from swarm.mailbox.protocol.merge_records import MergeBegan, MergeEnded
from swarm.mailbox.protocol.records import FilesChanged, Record
from swarm.supervisor.parts.copies import merge_service
from swarm.supervisor.parts.copies.copy_merges import CopyInUse, end_copy_merge, read_result
from swarm.supervisor.parts.copies.merge_apply import MergeFailed, MergeStale, find_unfinished
from swarm.supervisor.parts.copies.merge_history import fold_merges
from swarm.supervisor.parts.copies.merge_service import CopiedWork
from swarm.supervisor.parts.copies.tree_survey import survey_tree
from swarm.supervisor.parts.undo.watched_tree import now_ns


class Run:
    """A project, the folder that is mason's copy of it, and apprentice's copy of that."""

    def __init__(self, project: CopiedProject, monkeypatch) -> None:
        self.project, self.written = project, []
        project.add_agent("mason")
        self.tree = project.folder.agent_tree("mason")
        self.tree.parent.mkdir(parents=True)
        fill(self.tree, {"text": "one\n", "gone": "gone\n"})
        mason = project.folder.find("mason")
        assert mason is not None
        project.folder.add_agent(msgspec.structs.replace(mason, tree=str(self.tree)))
        project.folder.write_start(
            "mason", survey_tree(str(self.tree), (), now_ns=now_ns() + 1_000_000_000)
        )
        own = project.add_agent("apprentice")
        below = project.folder.find("apprentice")
        assert below is not None
        project.folder.add_agent(msgspec.structs.replace(below, above="mason"))
        fill(own, {"text": "two\n", "sub/new": "new\n"})
        monkeypatch.setattr(merge_service, "run_records", lambda _paths: self.records())

    def records(self):
        return [Record(seq=number, ts=float(number), agent=agent, body=body)
                for number, (body, agent) in enumerate(self.written, 1)]  # fmt: skip

    def write(self, body, agent):
        self.written.append((body, agent))

    def work(self, **more) -> CopiedWork:
        return CopiedWork(self.project.paths, **more)

    def bodies(self, kind):
        return [body for body, _ in self.written if isinstance(body, kind)]


@pytest.fixture
def run(tmp_path, monkeypatch):
    project = CopiedProject(tmp_path)
    project.write({"text": "one\n", "gone": "gone\n"})
    project.freeze()
    return Run(project, monkeypatch)


def test_it_is_written_there_alone_and_counts_for_no_undo(run):
    report = run.work().merge(["/root/apprentice"], run.write)
    assert report.done is not None and report.number == 0
    assert (run.tree / "text").read_text() == "two\n" and (run.tree / "sub/new").is_file()
    assert (run.project.root / "text").read_text() == "one\n"
    (began,) = run.bodies(MergeBegan)
    assert began.into == "mason" and run.bodies(FilesChanged) == []
    assert run.work().unmerged(["/root/apprentice"]) == ()


def test_without_names_only_what_goes_into_the_project_is_merged(run):
    assert run.work().check().changes == ()
    assert run.work().check_clean().changes == ()
    assert [one.above for one in run.work().unmerged()] == ["mason"]


def test_a_copy_that_is_mounted_is_left_to_its_process(run):
    work = run.work(is_mounted=lambda copy: copy.agent_id == "mason")
    with pytest.raises(CopyInUse, match="it merges with merge_changes"):
        work.merge(["/root/apprentice"], run.write)
    assert run.written == [] and (run.tree / "text").read_text() == "one\n"


def test_what_was_cut_off_is_carried_out_later_and_what_changed_since_is_left(run):
    work = run.work()
    began = work.begin_in_copy(work.check(["/root/apprentice"]), run.write)
    assert {path.rpartition("/")[2] for path in find_unfinished(
        began, work.store, work.reader_of(began))} == {"text", "sub", "new"}  # fmt: skip
    (run.tree / "text").write_text("of mason\n")
    (done,) = run.work().finish_cut_off(run.write)
    assert (run.tree / "text").read_text() == "of mason\n"
    assert (run.tree / "sub/new").read_text() == "new\n"
    assert [path.rpartition("/")[2] for path in done.left] == ["text"]
    assert run.bodies(MergeEnded)[0].applied
    assert (run.project.root / "text").read_text() == "one\n"
    assert fold_merges(run.records()).cut_off == ()


def test_a_copy_that_changed_since_the_plan_is_not_written(run):
    work = run.work()
    began = work.begin_in_copy(work.check(["/root/apprentice"]), run.write)
    (run.tree / "text").write_text("of mason\n")
    with pytest.raises(MergeStale, match="the copy was changed since"):
        end_copy_merge(began, work.copies.write(began), run.write)
    assert sorted(os.listdir(run.tree)) == ["gone", "text"]
    assert not run.bodies(MergeEnded)[0].applied


@pytest.mark.parametrize("said", ["", "{", '{"left": 1}', "[]"])
def test_a_program_that_says_nothing_leaves_the_merge_cut_off(run, said):
    work = run.work()
    began = work.begin_in_copy(work.check(["/root/apprentice"]), run.write)
    with pytest.raises(MergeFailed, match="is cut off"):
        end_copy_merge(began, read_result(said), run.write)
    assert run.bodies(MergeEnded) == []


def test_a_link_in_the_copy_leads_no_merge_out_of_it(run, tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    work = run.work()
    began = work.begin_in_copy(work.check(["/root/apprentice"]), run.write)
    (run.tree / "sub").symlink_to(outside)
    with pytest.raises((MergeStale, MergeFailed)):
        end_copy_merge(began, work.copies.write(began), run.write)
    assert os.listdir(outside) == []
    assert (run.tree / "text").read_text() == "one\n"

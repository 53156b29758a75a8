"""A journal whose disk is full at any record of a merge: the merge ends, and is true afterwards."""

import itertools
from pathlib import Path

import pytest

from support.project_copy import CopiedProject, fill
from swarm.mailbox.protocol.control import MergeChanges
from swarm.supervisor.base.exception_groups import first_error
from swarm.supervisor.journal.journal_files import JournalFailed, JournalFiles
from swarm.supervisor.parts.copies.cut_off_merges import describe_cut_off
from swarm.supervisor.parts.copies.ended_merges import merge_ended_run
from swarm.supervisor.runs.unfinished_merge import read_mark

EVERYTHING = MergeChanges(agents=())


@pytest.fixture
def project(tmp_path: Path) -> CopiedProject:
    project = CopiedProject(tmp_path)
    project.write({"a": "1\n", "b": "2\n"})
    project.freeze()
    fill(project.add_agent("mason"), {"a": "one\n", "made": "x\n"})
    return project


def tree(project: CopiedProject) -> dict[str, str]:
    return {path.name: path.read_text() for path in project.root.iterdir()}


@pytest.mark.parametrize("number", range(3))  # began, files changed, ended
def test_a_journal_that_is_full_at_any_record_ends_a_merge_and_a_later_one_finishes_it(
    project, monkeypatch, number
):
    before, counter, real = tree(project), itertools.count(), JournalFiles.append

    def append(self, file, lines):
        if next(counter) >= number:
            raise JournalFailed(Path("run.jsonl"), OSError(28, "No space left on device"))
        real(self, file, lines)

    monkeypatch.setattr(JournalFiles, "append", append)
    with pytest.raises(BaseException) as failed:
        merge_ended_run(project.paths, EVERYTHING)
    assert "No space left on device" in str(first_error(failed.value))
    monkeypatch.undo()
    after = {"a": "one\n", "b": "2\n", "made": "x\n"}
    assert tree(project) == (before if number == 0 else after)
    assert bool(list(describe_cut_off(project.paths))) == (number > 0)
    assert (read_mark(project.paths) is not None) == (number > 0)
    merge_ended_run(project.paths, EVERYTHING)
    assert tree(project) == after
    assert list(describe_cut_off(project.paths)) == []
    assert read_mark(project.paths) is None

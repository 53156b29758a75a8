"""Merges of a live run, and what is said of work that is not merged: with bounds, and no crash."""

import time
from types import SimpleNamespace

import pytest
import trio

from support.project_copy import CopiedProject, fill
from swarm.mailbox.protocol.control import Done, MergeChanges, Refused
from swarm.mailbox.protocol.records import RunCompleted
from swarm.supervisor.journal.journal import open_journal
from swarm.supervisor.journal.journal_reader import run_records
from swarm.supervisor.parts.copies import layer_change
from swarm.supervisor.parts.copies.live import end_merges, live_merges
from swarm.supervisor.parts.copies.live.end_merges import finish_files
from swarm.supervisor.parts.copies.live.live_merges import merge_in_live_run
from swarm.supervisor.parts.copies.merge_history import fold_merges
from swarm.supervisor.parts.copies.merge_plan import MergeImpossible
from swarm.supervisor.parts.copies.merge_service import CopiedWork
from swarm.supervisor.parts.copies.project_copies import ProjectCopies
from swarm.supervisor.request.run_request import CopySettings


@pytest.fixture
def project(tmp_path):
    made = CopiedProject(tmp_path)
    made.write({"a.txt": "a\n"})
    made.freeze()
    return made


class Running:
    """What merges need of a run; `working`: answers about agents, the last one for good."""

    request = SimpleNamespace(copies=CopySettings(merge="auto"))

    def __init__(self, project, journal, working=(False,)):
        self.paths, self.journal, self.run_id = project.paths, journal, "run-1234"
        self.agents = SimpleNamespace(find=self._find)
        self.notes = []
        self._working = list(working)
        self.ends = self.ends_between_looks = 0
        tree = SimpleNamespace(refresh=lambda paths: None)
        self.copies = ProjectCopies(project.paths)
        self.history = SimpleNamespace(
            lock=trio.Lock(),
            change_watcher=SimpleNamespace(
                request_scan=trio.lowlevel.checkpoint, finish=trio.lowlevel.checkpoint, tree=tree
            ),
        )

    def _find(self, path):
        now = self._working.pop(0) if len(self._working) > 1 else self._working[0]
        self.ends += self.ends_between_looks
        phase = SimpleNamespace(has_process=now)
        return SimpleNamespace(is_active=now, end_count=self.ends, phase=phase)

    async def commit(self, body, *, agent=""):
        await self.journal.commit(body, agent=agent)

    def note(self, body):
        self.notes.append(body.message)


async def merge(project, *, working=(False,), **wanted):
    async with open_journal(project.paths) as journal:
        running = Running(project, journal, working)
        return await merge_in_live_run(running, running.history, MergeChanges(**wanted))


async def test_a_merge_of_a_live_run_with_a_conflict_is_refused_with_exit_code_1(project):
    fill(project.add_agent("one"), {"a.txt": "one\n"})
    project.write({"a.txt": "mine\n"})
    said = await merge(project)
    assert isinstance(said, Refused)
    assert said.exit_code == 1
    assert "both sides changed the same lines" in said.message
    project.write({"a.txt": "a\n"})
    assert isinstance(await merge(project), Done)
    assert (project.root / "a.txt").read_text() == "one\n"


async def test_an_agent_that_works_again_by_the_time_of_the_merge_is_not_merged(project):
    fill(project.add_agent("one"), {"a.txt": "one\n"})
    said = await merge(project, working=(False, True))
    assert isinstance(said, Refused)
    assert "/root/one works again" in said.message
    assert (project.root / "a.txt").read_text() == "a\n"


async def test_an_agent_that_worked_while_the_merge_was_planned_is_not_merged(project):
    fill(project.add_agent("one"), {"a.txt": "one\n"})
    async with open_journal(project.paths) as journal:
        running = Running(project, journal)
        running.ends_between_looks = 1
        said = await merge_in_live_run(running, running.history, MergeChanges())
    assert isinstance(said, Refused)
    assert "/root/one works again" in said.message
    assert (project.root / "a.txt").read_text() == "a\n"


async def test_nobody_waits_for_files_while_a_merge_is_planned(project, monkeypatch):
    fill(project.add_agent("one"), {"a.txt": "one\n"})
    check, held = CopiedWork.check, []
    async with open_journal(project.paths) as journal:
        running = Running(project, journal)

        def note(self, *given, **more):
            held.append(running.history.lock.locked())
            return check(self, *given, **more)

        monkeypatch.setattr(CopiedWork, "check", note)
        said = await merge_in_live_run(running, running.history, MergeChanges())
    assert isinstance(said, Done)
    assert held == [False]


async def test_a_file_that_changes_between_plan_and_write_is_planned_again(tmp_path, monkeypatch):
    project = CopiedProject(tmp_path)
    project.write({"b.txt": "".join(f"{number}\n" for number in range(9))})
    project.freeze()
    fill(project.add_agent("one"), {"b.txt": "one\n" + "".join(f"{n}\n" for n in range(1, 9))})
    check, plans = CopiedWork.check, []

    def change_after_first(self, *given, **more):
        report = check(self, *given, **more)
        if not plans:
            project.write({"b.txt": "".join(f"{number}\n" for number in range(8)) + "mine\n"})
        plans.append(report.plan.digest)
        return report

    monkeypatch.setattr(CopiedWork, "check", change_after_first)
    assert isinstance(await merge(project), Done)
    assert len(plans) == 2
    text = (project.root / "b.txt").read_text()
    assert text == "one\n" + "".join(f"{number}\n" for number in range(1, 8)) + "mine\n"


async def test_a_layer_that_is_too_large_holds_up_no_other_merge_and_can_be_given_up(
    project, monkeypatch
):
    monkeypatch.setattr(layer_change, "MAX_PATHS", 3)
    fill(project.add_agent("many"), {str(number): "" for number in range(5)})
    fill(project.add_agent("one"), {"a.txt": "one\n"})
    work = CopiedWork(project.paths)
    assert [one.agent for one in work.unmerged()] == ["/root/many", "/root/one"]
    with pytest.raises(MergeImpossible, match="more than 3 files were changed"):
        work.check(["/root/many"])
    assert isinstance(await merge(project, agents=("/root/one",)), Done)
    assert isinstance(await merge(project, agents=("/root/many",), discard=True), Done)
    assert work.unmerged() == ()


async def test_the_end_of_a_run_names_agents_and_counts_files_alone(project, monkeypatch):
    fill(project.add_agent("one"), {"a.txt": "one\n", "b": "b"})
    monkeypatch.setattr("swarm.supervisor.parts.copies.merge_summary.count_diff", None)
    async with open_journal(project.paths) as journal:
        running = Running(project, journal)
        await finish_files(running, running.history, RunCompleted(status="failed"))
    assert running.notes[0].startswith("not merged yet: /root/one 2 files; `swarm merge ")


@pytest.mark.parametrize("error", [OSError("no disk"), ValueError("no copy")])
async def test_the_end_of_a_run_outlives_a_layer_that_cannot_be_read(project, monkeypatch, error):
    def fail(self, only=()):
        raise error

    monkeypatch.setattr(CopiedWork, "unmerged", fail)
    async with open_journal(project.paths) as journal:
        running = Running(project, journal)
        await finish_files(running, running.history, RunCompleted(status="failed"))
    assert running.notes == [f"what agents changed in their copies is not known: {error}"]


async def test_the_end_of_a_run_does_not_wait_for_a_layer_that_takes_long(project, monkeypatch):
    monkeypatch.setattr(end_merges, "_LOOK_LIMIT_S", 0.01)
    monkeypatch.setattr(CopiedWork, "unmerged", lambda self, only=(): time.sleep(0.5) or ())
    async with open_journal(project.paths) as journal:
        running = Running(project, journal)
        await finish_files(running, running.history, RunCompleted(status="failed"))
    assert "--check` shows it" in running.notes[0]


async def test_a_merge_that_is_finished_after_a_crash_names_what_was_left_alone(project):
    fill(project.add_agent("one"), {"a.txt": "one\n"})
    work, records = CopiedWork(project.paths), []
    async with open_journal(project.paths) as journal:
        running = Running(project, journal)

        def begin() -> None:
            def write(body, agent):
                records.append(body)
                trio.from_thread.run(lambda: running.commit(body, agent=agent))
                raise KeyboardInterrupt  # the process dies once the merge has begun

            with pytest.raises(KeyboardInterrupt):
                work.merge((), write)

        await trio.to_thread.run_sync(begin)
        project.write({"a.txt": "mine\n"})
        past = fold_merges(run_records(project.paths))
        await live_merges.finish_cut_off_merges(running, running.history, past)
    assert running.notes[0].endswith(f"left alone, changed since: {project.root}/a.txt")
    assert (project.root / "a.txt").read_text() == "mine\n"

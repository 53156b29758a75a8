"""Several writers of one project at once: real processes, and no change is lost."""

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from support.project_copy import CopiedProject, fill
from support.staged_faults import Killed, before_step
from swarm.mailbox.base import file_exchange
from swarm.mailbox.protocol.merge_records import MergeBegan
from swarm.supervisor.parts.copies.merge_apply import MergeFailed, apply_merge, finish_merge
from swarm.supervisor.parts.copies.merge_plan import plan_merge
from swarm.supervisor.parts.undo.content_store import ContentStore, FileEntry, read_entry
from swarm.supervisor.parts.undo.project_lock import ProjectBusy, common_folder, hold_project
from swarm.supervisor.parts.undo.staged_writes import StagedWrites

RUNS, ROUNDS = 5, 8
MERGE = """
import sys
from pathlib import Path
from swarm.mailbox.protocol.control import MergeChanges
from swarm.supervisor.parts.copies.ended_merges import merge_ended_run
from swarm.supervisor.runs.paths import RunPaths
here = RunPaths(folder=Path(sys.argv[1]), sockets=Path(sys.argv[1]) / "s")
print("ready", flush=True)
sys.stdin.readline()
report = merge_ended_run(here, MergeChanges(agents=()))
assert report.done is not None and not report.plan.conflicts, report
"""


def merge_all(projects: Sequence[CopiedProject]) -> list[tuple[int, str]]:
    """All of them merge in the same moment; their exit codes and what they say."""
    started = [
        subprocess.Popen(
            [sys.executable, "-c", MERGE, str(one.paths.folder)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )
        for one in projects
    ]  # fmt: skip
    for one in started:
        assert one.stdout is not None
        assert one.stdout.readline() == "ready\n"
    for one in started:
        assert one.stdin is not None
        one.stdin.write("\n")
        one.stdin.flush()
    ends = [one.communicate(timeout=120) for one in started]
    return [(one.returncode, err) for one, (_, err) in zip(started, ends, strict=True)]


def test_merges_of_several_runs_at_once_lose_no_change(tmp_path):
    lines = [f"line {number}\n" for number in range(4 * RUNS)]
    for round_ in range(ROUNDS):
        folder = tmp_path / str(round_)
        folder.mkdir()
        projects = [CopiedProject(folder, f"run-{number}") for number in range(RUNS)]
        projects[0].write({"shared": "".join(lines), "other/shared": "".join(lines)})
        for number, one in enumerate(projects):
            one.freeze()
            mine = [*lines]
            mine[4 * number] = f"of run {number}\n"
            text = "".join(mine)
            fill(one.add_agent("a"), {"shared": text, "other/shared": text, f"own-{number}": "x\n"})
        assert merge_all(projects) == [(0, "")] * RUNS
        for name in ("shared", "other/shared"):
            merged = (projects[0].root / name).read_text()
            assert [f"of run {number}\n" in merged for number in range(RUNS)] == [True] * RUNS
        wanted = ["other", *(f"own-{number}" for number in range(RUNS)), "shared"]
        assert sorted(os.listdir(projects[0].root)) == wanted


def test_writers_whose_folders_lie_in_each_other_wait_and_others_do_not(tmp_path):
    locks = tmp_path / "locks/projects"
    above, one, other = tmp_path / "p", tmp_path / "p/one", tmp_path / "p/other"
    with hold_project(locks, [f"{one}/file"]):
        with hold_project(locks, [f"{other}/file"], limit_s=0):
            pass
        both = [f"{one}/x", f"{other}/x"]
        for paths in ([f"{one}/file"], [f"{one}/deep/er"], [f"{above}/x"], both):
            with pytest.raises(ProjectBusy), hold_project(locks, paths, limit_s=0):
                pass
    with hold_project(locks, [f"{above}/x"], limit_s=0):
        pass


def test_the_locked_folder_is_named_without_links(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    real = tmp_path.resolve() / "real"
    assert common_folder([f"{tmp_path}/link/a", f"{real}/b"]) == real


@pytest.fixture
def project(tmp_path: Path) -> CopiedProject:
    project = CopiedProject(tmp_path)
    project.write({"file": "old\n", "gone": "gone\n"})
    return project


def test_what_somebody_saves_between_the_comparison_and_the_exchange_is_kept(project, tmp_path):
    """An editor saves by a rename of its own in the last moment."""
    project.freeze()
    fill(project.add_agent("mason"), {"file": "merged\n"})
    store = ContentStore(project.paths.file_copies)
    plan = plan_merge([project.change_of("mason", store)], store)

    def save(_: str) -> None:
        (tmp_path / "saved").write_text("mine\n")
        (tmp_path / "saved").replace(project.root / "file")

    with pytest.raises(MergeFailed, match="changed meanwhile"), before_exchange(save):
        apply_merge(plan, store, lambda body, agent: None)
    assert (project.root / "file").read_text() == "mine\n"
    assert sorted(os.listdir(project.root)) == ["file", "gone"]


def test_what_somebody_saves_in_the_moment_of_a_removal_is_kept(project, tmp_path):
    store = ContentStore(project.paths.file_copies)
    path = str(project.root / "gone")
    writes = StagedWrites("x", [(read_entry(path), FileEntry(path=path, kind="absent"))], store)

    def save(_: str) -> None:
        (tmp_path / "saved").write_text("mine\n")
        (tmp_path / "saved").replace(project.root / "gone")

    with before_exchange(save):
        failed = writes.carry_out(whole=True)
    assert [name for name, _ in failed] == [path]
    assert (project.root / "gone").read_text() == "mine\n"


def before_exchange(act):
    """Call `act` before the rename itself, after all comparisons."""
    return before_step("_rename", once(act), module=file_exchange)


def once(act):
    done: list[str] = []

    def call(name: str) -> None:
        if not done:
            done.append(name)
            act(name)

    return call


def test_all_names_of_a_file_see_a_merge_and_its_modes_and_attributes_stay(project):
    file = project.root / "file"
    (project.root / "twin").hardlink_to(file)
    os.setxattr(project.root / "gone", "user.note", b"mine")
    project.freeze()
    fill(project.add_agent("mason"), {"file": "merged\n", "gone": "changed\n"})
    store = ContentStore(project.paths.file_copies)
    plan = plan_merge([project.change_of("mason", store)], store)
    apply_merge(plan, store, lambda body, agent: None)
    assert (project.root / "twin").read_text() == "merged\n"
    assert file.samefile(project.root / "twin")
    assert os.getxattr(project.root / "gone", "user.note") == b"mine"
    assert (project.root / "gone").read_text() == "changed\n"


def test_a_sparse_file_stays_sparse_through_a_merge(project):
    project.freeze()
    sparse = project.add_agent("mason") / "image"
    with sparse.open("wb") as file:
        file.seek((10 << 20) + 5)
        file.write(b"end")
        file.truncate(64 << 20)
    store = ContentStore(project.paths.file_copies)
    plan = plan_merge([project.change_of("mason", store)], store)
    apply_merge(plan, store, lambda body, agent: None)
    merged = project.root / "image"
    assert merged.stat().st_size == 64 << 20
    assert merged.stat().st_blocks * 512 < 1 << 20
    assert merged.read_bytes() == sparse.read_bytes()


@pytest.mark.parametrize("text", ["short\n", "l" + "onger\n" * 9, "old twin"])
@pytest.mark.parametrize("written", [0, 1, 3, 5])
def test_a_kill_in_the_middle_of_a_write_in_place_is_mended_by_the_next_look(
    project, monkeypatch, text, written
):
    project.write({"file": "old text of it\n"})
    (project.root / "twin").hardlink_to(project.root / "file")
    project.freeze()
    fill(project.add_agent("mason"), {"file": text})
    store = ContentStore(project.paths.file_copies)
    plan = plan_merge([project.change_of("mason", store)], store)
    records: list[MergeBegan] = []

    def write(body, agent: str) -> None:
        if isinstance(body, MergeBegan):
            records.append(body)

    def write_part(fd: int, data: bytes, at: int) -> None:
        os.pwrite(fd, data[:written], at)
        raise Killed

    monkeypatch.setattr(file_exchange, "_write_at", write_part)
    with pytest.raises(Killed):
        apply_merge(plan, store, write)
    monkeypatch.undo()
    finish_merge(records[0], store, write, roots=(str(project.root),))
    assert (project.root / "twin").read_text() == text
    assert sorted(os.listdir(project.root)) == ["file", "gone", "twin"]

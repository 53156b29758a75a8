"""Merges and undos that meet a closed folder, another writer, a kill or Ctrl-C: real commands."""

import os
import shutil
import signal
import sys
from pathlib import Path

import pytest
import trio

from support.copied_agents import BASE, LIMIT_S, call, play, project, root, swarm, turns
from swarm.mailbox.protocol.records import Undone
from swarm.supervisor.parts.undo.project_lock import hold_project
from swarm.supervisor.runs.paths import RunPaths

__all__ = ["project"]

needs_bwrap = pytest.mark.skipif(shutil.which("bwrap") is None, reason="copies need bubblewrap")
pytestmark = [pytest.mark.live, needs_bwrap]
CLOSED = 'mount --bind "$1" "$1" && mount -o remount,ro,bind "$1" && shift && exec "$@"'


async def in_closed_project(rig, *words: str, closed: Path | None = None) -> tuple[int, str]:
    """Run a command where the project, or another folder, may not be written."""
    command = [
        "unshare", "-Urm", "sh", "-c", CLOSED, "sh", str(closed or rig.work),
        sys.executable, "-P", "-m", "swarm.supervisor.clients.cli.entry", *words,
    ]  # fmt: skip
    done = await trio.run_process(
        command, env=rig.environment, cwd=rig.work, check=False, capture_stderr=True,
        capture_stdout=True,
    )  # fmt: skip
    return done.returncode, (done.stdout + done.stderr).decode()


def run_paths(rig) -> RunPaths:
    return RunPaths(folder=rig.home / "state/runs" / rig.run_id, sockets=rig.home)


def says(command: str) -> dict[str, object]:
    return {"agent": "/root", "calls": [call("exec_command", cmd=command)]}


async def make_change(rig) -> None:
    await play(
        rig, *root("one", isolation="copy"),
        *turns("/root/one", "sed -i 's/line 1$/A/' text; rm gone; echo new > made"),
    )  # fmt: skip


async def test_an_undo_that_may_not_write_fails_and_is_done_later(rig, project):
    with trio.fail_after(LIMIT_S):
        await make_change(rig)
        await swarm(rig, "merge", rig.run_id)
        code, said = await in_closed_project(rig, "undo", rig.run_id)
        assert (code, "could not put back" in said) == (1, True)
        assert "still to be undone" in said
        assert sorted(os.listdir(project)) == ["made", "text"]
        await swarm(rig, "undo", rig.run_id)
        assert (project / "text").read_text() == BASE
        assert sorted(os.listdir(project)) == ["gone", "text"]
    assert [bool(one.failed) for one in rig.bodies(Undone)] == [True, False]


async def test_a_merge_that_may_not_write_does_nothing_and_is_done_later(rig, project):
    with trio.fail_after(LIMIT_S):
        await make_change(rig)
        code, said = await in_closed_project(rig, "merge", rig.run_id)
        assert (code, "nothing of it is done" in said) == (1, True)
        assert (project / "text").read_text() == BASE
        assert not run_paths(rig).unfinished_merge.exists()
        await swarm(rig, "merge", rig.run_id)
        assert sorted(os.listdir(project)) == ["made", "text"]


async def test_ctrl_c_ends_a_merge_that_waits_with_one_line_and_130(rig, project):
    with trio.fail_after(LIMIT_S):
        await make_change(rig)
        here = run_paths(rig)
        with hold_project(here.project_locks, [f"{project}/x"]):
            waiting = await rig.start("merge", rig.run_id)
            await rig.wait(lambda: "merge" in here.lock.read_text())
            assert "running" not in await swarm(rig, "ps")
            again = await swarm(rig, "merge", rig.run_id, code=2)
            assert "try again when that is done" in again
            waiting.process.send_signal(signal.SIGINT)
            ended = await waiting.wait_end()
            assert (ended.code, ended.err) == (130, "swarm: interrupted\n")
        assert (project / "text").read_text() == BASE
        await swarm(rig, "merge", rig.run_id)


async def test_a_merge_that_was_killed_is_named_everywhere_and_its_run_is_kept(rig, project):
    with trio.fail_after(LIMIT_S):
        await make_change(rig)
        program = Path(__file__).parent.parent / "support" / "merge_killed.py"
        command = [sys.executable, "-P", str(program), str(run_paths(rig).folder)]
        await trio.run_process(command, env=rig.environment, check=False)
        for words, code in (
            (("ps",), 0), (("show", rig.run_id), 0), (("merge", rig.run_id, "--check"), 1),
            (("undo", rig.run_id), 2), (("rm", rig.run_id), 2),
        ):  # fmt: skip
            said = await swarm(rig, *words, code=code)
            assert "has not come to its end" in said or "a merge was cut off" in said, words
            assert "text" in said, words
        await swarm(rig, "merge", rig.run_id)
        assert sorted(os.listdir(project)) == ["made", "text"]
        assert "cut off" not in await swarm(rig, "ps")


async def test_an_undo_of_a_live_run_that_cannot_be_written_ends_with_1(rig, project):
    with trio.fail_after(LIMIT_S):
        started = await rig.run(
            rig.script(says("rm gone"), says("sleep 60")), sandbox="workspace-write"
        )
        await rig.wait_call(count=2)
        os.mkfifo(project / "gone")  # it cannot be replaced by the file
        said = await swarm(rig, "undo", rig.run_id, "--yes", code=1)
        assert "could not put back" in said
        (project / "gone").unlink()
        await swarm(rig, "undo", rig.run_id, "--yes")
        assert (project / "gone").read_text() == "gone\n"
        started.process.send_signal(signal.SIGINT)
        await started.wait_end()


async def test_a_merge_of_a_live_run_ends_when_its_supervisor_is_killed(rig, project):
    with trio.fail_after(LIMIT_S):
        started = await rig.run(rig.script(says("sleep 60")), sandbox="workspace-write")
        await rig.wait_call()
        os.kill(started.pid, signal.SIGSTOP)
        merging = await rig.start("merge", rig.run_id)
        threads = Path(f"/proc/{merging.pid}/task")
        await rig.wait(lambda: len(list(threads.iterdir())) > 1)  # it asks by ZeroMQ
        os.kill(started.pid, signal.SIGKILL)
        ended = await merging.wait_end()
        assert (ended.code, "is not alive" in ended.err) == (2, True)
        await started.wait_end()


@pytest.mark.parametrize("command", ["merge", "undo"])
async def test_without_a_journal_nothing_is_written(rig, project, command):
    with trio.fail_after(LIMIT_S):
        await make_change(rig)
        if command == "undo":
            await swarm(rig, "merge", rig.run_id)
        before = sorted(os.listdir(project))
        journal = run_paths(rig).journal
        code, said = await in_closed_project(rig, command, rig.run_id, closed=journal)
        assert (code, "Read-only" in said, "fault of swarm" in said) == (1, True, False), said
        assert sorted(os.listdir(project)) == before
        assert not run_paths(rig).unfinished_merge.exists()
        await swarm(rig, command, rig.run_id)
        assert sorted(os.listdir(project)) != before

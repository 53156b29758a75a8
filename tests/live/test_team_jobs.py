"""A batch job outlives what ran it: rows that were done are not run again, none is lost."""

import csv
import os
import signal
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
import trio

from support.scripted_team_run import ScriptedRun, call, calls, open_scripted_run, says
from swarm.mailbox.parts.jobs.job_messages import JobBegan, JobClosed, JobRowEnded
from swarm.mailbox.protocol.events import CallBegan, TurnCompleted
from swarm.mailbox.protocol.records import AgentSpawned, ItemRecorded, MailPosted, RunCompleted

pytestmark = pytest.mark.live
LIMIT_S = 45
ROWS = [f"r{number}" for number in range(6)]
JOB = call("spawn_agents_on_csv", csv_path="rows.csv", instruction="do {name}", id_column="name",
           output_csv_path="out.csv", max_concurrency=2)  # fmt: skip
# The workers of the first three rows end; the others first wait for the file `go`.
WORK = "case {agent} in *job_????????_[1-3]) ;; *) until test -e go; do sleep 0.05; done ;; esac"


def turns_for(*of_root) -> list:
    """No worker reports, since a script does not know its ids: each row ends as failed."""
    return [
        *of_root,
        calls("/root/*", call("exec_command", cmd=WORK, yield_time_ms=30_000)),
        says("/root/*", "no report"),
    ]


def prepare(folder: Path) -> None:
    (folder / "rows.csv").write_text("name\n" + "\n".join(ROWS) + "\n")


def results(folder: Path) -> list[dict[str, str]]:
    with (folder / "out.csv").open(newline="") as file:
        return list(csv.DictReader(file))


async def cut_off(scripted: ScriptedRun, turns: list) -> None:
    """Start the run, and kill its supervisor once three rows have ended."""
    argv = scripted.argv(turns, "--max-agents", "3")
    run = await trio.lowlevel.open_process(argv, env=scripted.environment, stderr=-3, stdout=-3)
    await scripted.until(lambda: len(scripted.of(JobRowEnded)) >= 3)
    run.kill()
    await run.wait()


async def resume_and_let_go(scripted: ScriptedRun, once: Callable[[], object]) -> None:
    """The rows that are left end only after the root has done what `once` sees."""
    async with trio.open_nursery() as nursery:
        nursery.start_soon(resume, scripted)
        await scripted.until(once)
        (scripted.folder / "go").touch()


async def resume(scripted: ScriptedRun) -> None:
    done = await scripted.ended(scripted.resume_argv())
    assert done.returncode == 0, done.stderr.decode()[-3000:]


def assert_each_row_ended_once(scripted: ScriptedRun, folder: Path) -> None:
    ended = Counter(one.index for one in scripted.of(JobRowEnded))
    assert ended == Counter(range(len(ROWS)))
    assert [row["name"] for row in results(folder)] == ROWS
    assert [one.status for one in scripted.of(JobClosed)] == ["completed"]
    assert [one.attempt for one in scripted.of(JobBegan)] == [1, 2]


async def test_a_resumed_run_does_the_rows_that_are_left_and_tells_the_asker(tmp_path):
    prepare(tmp_path)
    scripted = ScriptedRun(tmp_path)
    turns = turns_for(
        calls("/root", JOB),
        says("/root", "I wait for a message"),
        says("/root", "I have a message"),
    )
    with trio.fail_after(LIMIT_S):
        await cut_off(scripted, turns)
        before = {one.index for one in scripted.of(JobRowEnded)}
        await resume_and_let_go(scripted, lambda: scripted.of(TurnCompleted, "/root"))
    assert_each_row_ended_once(scripted, tmp_path)
    rows = {row["name"]: row["attempt_count"] for row in results(tmp_path)}
    assert {ROWS[index] for index in before} == {name for name, one in rows.items() if one == "1"}
    first, second = (one.mail.content for one in scripted.of(MailPosted, "/root"))
    assert "taken up" in first
    assert "cut off, has ended" in second
    assert scripted.of(RunCompleted)[-1].result == "I have a message"


async def test_an_asker_that_wants_the_same_job_again_joins_it(tmp_path):
    prepare(tmp_path)
    scripted = ScriptedRun(tmp_path)
    turns = turns_for(calls("/root", JOB), calls("/root", JOB), says("/root", "{last_output}"))
    with trio.fail_after(LIMIT_S):
        await cut_off(scripted, turns)
        await resume_and_let_go(scripted, lambda: len(scripted.of(CallBegan, "/root")) == 2)
    assert_each_row_ended_once(scripted, tmp_path)
    summary = msgspec.json.decode(scripted.of(RunCompleted)[-1].result)
    assert summary["failed_items"] + summary["completed_items"] == len(ROWS)
    first, *more = (one.mail.content for one in scripted.of(MailPosted, "/root"))
    assert "taken up" in first
    assert all("has ended" in one for one in more)  # only if its call came a moment too late


async def test_a_job_goes_on_when_the_process_of_its_asker_dies(tmp_path):
    prepare(tmp_path)
    turns = turns_for(
        calls("/root", JOB),
        says("/root", "I wait for a message"),
        says("/root", "I have a message"),
    )
    async with open_scripted_run(tmp_path, turns, "--max-agents", "3") as scripted:
        await scripted.until(lambda: len(scripted.of(JobRowEnded)) >= 3)
        os.kill(scripted.of(AgentSpawned, "/root")[0].pid, signal.SIGKILL)
        await scripted.until(lambda: len(scripted.of(JobBegan)) == 2)
        (tmp_path / "go").touch()
    assert scripted.code == 0
    assert_each_row_ended_once(scripted, tmp_path)
    mails = [one.mail for one in scripted.of(MailPosted, "/root")]
    first, second = (one.content for one in mails)
    assert "taken up" in first
    assert "cut off, has ended" in second
    read = {one.item_id for one in scripted.of(ItemRecorded, "/root") if one.source == "mail"}
    assert {one.mail_id for one in mails} <= read


async def test_a_job_of_an_interrupted_run_goes_on_with_its_resume(tmp_path):
    prepare(tmp_path)
    scripted = ScriptedRun(tmp_path)
    turns = turns_for(
        calls("/root", JOB),
        says("/root", "I wait for a message"),
        says("/root", "I have a message"),
    )
    with trio.fail_after(LIMIT_S):
        argv = scripted.argv(turns, "--max-agents", "3")
        run = await trio.lowlevel.open_process(argv, env=scripted.environment, stderr=-3, stdout=-3)
        await scripted.until(lambda: len(scripted.of(JobRowEnded)) >= 3)
        run.send_signal(signal.SIGINT)
        await run.wait()
        assert run.returncode == 130
        assert not scripted.of(JobClosed)
        assert not (tmp_path / "out.csv").exists()
        await resume_and_let_go(scripted, lambda: scripted.of(TurnCompleted, "/root"))
    assert_each_row_ended_once(scripted, tmp_path)
    assert "cut off, has ended" in scripted.of(MailPosted, "/root")[-1].mail.content


async def test_a_row_has_the_time_that_the_configuration_gives_it(tmp_path):
    prepare(tmp_path)
    scripted = ScriptedRun(tmp_path)
    turns = turns_for(calls("/root", JOB), says("/root", "done"))
    argv = scripted.argv(turns, "--max-agents", "3", "-c", "agents.job_max_runtime_seconds=1")
    with trio.fail_after(LIMIT_S):
        await scripted.ended(argv)
    errors = {row["name"]: row["last_error"] for row in results(tmp_path)}
    assert all("exceeded max runtime of 1s" in errors[name] for name in ROWS[3:]), errors

"""Which jobs a resume takes up, and that a row with an end never runs again."""

import io

from swarm.mailbox.parts.jobs.job_messages import JobBegan, JobClosed, JobRowEnded, SpawnOnCsv
from swarm.mailbox.protocol.records import Record
from swarm.supervisor.parts.jobs.job_files import TableFile
from swarm.supervisor.parts.jobs.job_history import UnfinishedJob, finished_rows
from swarm.supervisor.parts.jobs.job_table import JobResultSpool, JobTable
from swarm.supervisor.parts.jobs.service.batch_job import BatchJob
from swarm.supervisor.parts.run_parts import PartFolds
from swarm.supervisor.team.resume_team import JOB_WORKER

REQUEST = SpawnOnCsv(csv_path="t.csv", instruction="x")


def records(*bodies) -> list[Record]:
    return [Record(seq=n, ts=0.0, body=body, agent="/root/p") for n, body in enumerate(bodies, 1)]


def began(job_id: str, attempt: int = 1) -> JobBegan:
    return JobBegan(
        job_id=job_id, request=REQUEST, headers=("v",), rows=3, output="/o.csv", attempt=attempt
    )


def ended(index: int, status: str = "completed") -> JobRowEnded:
    cells = ("j", f"r{index}", str(index), "", status, "1", "why", "{}", "", "")
    return JobRowEnded(index=index, cells=cells)


def test_a_job_without_its_end_is_cut_off_and_the_last_beginning_counts():
    folds = PartFolds()
    for record in records(
        began("a"), began("b"), JobClosed(job_id="a", status="cancelled"), began("b", attempt=2)
    ):
        folds.take(record)
    past = folds.jobs
    assert past.ids == {"a", "b"}
    assert past.unfinished == {"b": UnfinishedJob(began("b", attempt=2), "/root/p")}


def test_rows_that_are_done_are_counted_once_and_not_run_again(tmp_path):
    table = tmp_path / "t.csv"
    table.write_text("v\none\ntwo\nthree\n")
    job = BatchJob(
        began("0a0b0c0d", attempt=2),
        JobTable(path=str(table), headers=("v",), rows=3),
        JobResultSpool(io.BytesIO(), 3),
        asker="/root/p",
        file=TableFile(table, lambda real: True),
    )
    job.restore_rows(
        finished_rows(records(ended(2), ended(0, "failed"), ended(0), ended(9), ended(-1)))
    )
    assert (job.completed, job.failed) == (1, 1)
    assert [row.index for row in job.remaining_rows()] == [1]
    (row,) = job.remaining_rows()
    name = job.begin(row).path.rpartition("/")[2]
    assert name == f"job_{job.job_id[-8:]}_2_2"
    assert JOB_WORKER.match(name)
    assert b'"last_error":"why"' in job.summary("/o.csv")

"""Who may report a row's result, when, and how often."""

import io

import msgspec
import pytest

from swarm.mailbox.parts.jobs.job_messages import (
    JobBegan,
    ReportJobResult,
    ResultAccepted,
    SpawnOnCsv,
)
from swarm.supervisor.agents.child_plan import AgentRequestError
from swarm.supervisor.parts.jobs.job_files import TableFile
from swarm.supervisor.parts.jobs.job_table import JobResultSpool, JobRow, JobTable
from swarm.supervisor.parts.jobs.service.batch_job import BatchJob, JobItem, report_result

TABLE = JobTable(path="/t.csv", headers=("v",), rows=2)
BEGAN = JobBegan(
    job_id="00000000-0001",
    request=SpawnOnCsv(csv_path="/t.csv", instruction="x"),
    headers=("v",),
    rows=2,
    output="/o.csv",
)
SCHEMA = b'{"type":"object","required":["n"]}'
WORKER = "/root/job_1_1"


@pytest.fixture
def job(tmp_path):
    table = tmp_path / "t.csv"
    table.touch()
    one = BatchJob(
        BEGAN,
        TABLE,
        JobResultSpool(io.BytesIO(), 2),
        asker="/root",
        file=TableFile(table, lambda real: True),
    )
    row = JobRow(index=0, item_id="r", source_id=None, cells=("1",))
    one.running["r"] = JobItem(row, WORKER)
    return one


def report(job, path=WORKER, **changes):
    request = ReportJobResult(job_id=job.job_id, item_id="r", result=b'{"n": 1}')
    request = msgspec.structs.replace(request, **changes)
    return report_result({job.job_id: job}, path, request)


def test_a_rows_own_worker_reports_once(job):
    assert report(job) == ResultAccepted(accepted=True)
    assert report(job) == ResultAccepted(accepted=False)
    assert job.running["r"].result == '{"n":1}'


@pytest.mark.parametrize("changes", [{"job_id": "other"}, {"item_id": "q"}, {"path": "/root/b"}])
def test_nobody_else_reports_it_and_not_for_what_does_not_run(job, changes):
    assert report(job, **changes) == ResultAccepted(accepted=False)


@pytest.mark.parametrize("result", [b"[1]", b"1", b"{", b"\xff"])
def test_a_result_that_is_no_object_is_refused_and_may_be_sent_again(job, result):
    with pytest.raises(AgentRequestError, match="result must be a JSON object"):
        report(job, result=result)
    assert report(job).accepted


def test_a_result_that_does_not_fit_the_schema_is_refused_with_the_place(job):
    job.schema = msgspec.json.decode(SCHEMA)
    with pytest.raises(AgentRequestError, match="does not fit"):
        report(job, result=b"{}")
    assert report(job).accepted


def test_stop_cancels_what_has_not_begun(job):
    assert report(job, stop=True).accepted
    assert job.stopping
    job.finish(job.running["r"], None)
    summary = msgspec.json.decode(job.summary("/out.csv"))
    assert (summary["status"], summary["job_error"]) == ("cancelled", "cancelled by worker request")
    assert (summary["completed_items"], summary["total_items"]) == (1, 2)


def test_at_most_five_failures_are_told(job):
    for number in range(9):
        row = JobRow(index=number % 2, item_id=f"r{number}", source_id=None, cells=("1",))
        job.finish(JobItem(row, WORKER), "it failed")
    told = msgspec.json.decode(job.summary("/out.csv"))
    assert (told["failed_items"], len(told["failed_item_errors"])) == (9, 5)


def test_a_job_that_was_given_up_stays_so_when_the_run_ends_a_moment_later(job):
    job.set_fate("cancelled")
    job.set_fate("later")
    assert job.fate == "cancelled"


def test_a_job_that_was_to_go_on_is_left_for_a_resume_when_the_run_ends_first(job):
    job.set_fate("now")
    job.set_fate("later")
    assert job.fate == "later"

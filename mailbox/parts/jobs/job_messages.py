"""Batch jobs: tables whose rows are worked through by agents."""

from typing import Literal

import msgspec

from ...base.named_tool import NamedTool
from ...protocol.values.base import Tagged

START_JOB = NamedTool(name="spawn_agents_on_csv")
# The item of a job ends by nothing but its report.
REPORT_RESULT = NamedTool(name="report_agent_job_result", reads=True, kept=True)
JOB_TOOLS = (START_JOB, REPORT_RESULT)


class SpawnOnCsv(Tagged):
    """One worker per row (Codex `spawn_agents_on_csv`); the reply comes when the job has ended."""

    csv_path: str
    instruction: str
    id_column: str | None = None
    output_csv_path: str | None = None
    output_schema: bytes | None = None  # JSON
    max_concurrency: int | None = None
    max_runtime_seconds: int | None = None


class ReportJobResult(Tagged):
    """A worker's result for its row; accepted once."""

    job_id: str
    item_id: str
    result: bytes  # a JSON object
    stop: bool = False


class JobEnded(Tagged):
    """The tool's JSON result, as Codex gives it."""

    summary: bytes


class ResultAccepted(Tagged):
    accepted: bool


class JobBegan(Tagged):
    """A batch job over a table starts for the record's agent; repeated when it is resumed.

    The results of its rows are in a file of its own, named by the job's id.
    """

    job_id: str
    request: SpawnOnCsv = msgspec.field(name="wish")
    headers: tuple[str, ...]
    rows: int
    output: str  # the file for the results
    attempt: int = 1  # of the job; above 1: an earlier attempt was cut off


class JobRowEnded(Tagged):
    """`cells` are the row's result columns, written after its own columns."""

    index: int  # from 0
    cells: tuple[str, ...]


class JobClosed(Tagged):
    """The job has ended. A resume continues a job without this record."""

    job_id: str
    status: Literal["completed", "failed", "cancelled"]

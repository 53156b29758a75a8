"""One batch job while it runs: its rows, who works on them, what came of them. Waits for nothing.

Rule guarded: only a row's own worker reports its result, once, while it works.
"""

import re
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

import msgspec

from swarm.mailbox.entropy import SYSTEM_ENTROPY, EntropySources
from swarm.mailbox.protocol.ops import TextInput, UserInput
from swarm.mailbox.protocol.records import JobRowEnded
from swarm.mailbox.protocol.requests import ReportJobResult, ResultAccepted, SpawnOnCsv
from swarm.mailbox.schema_check import find_schema_violation

from ..agents.child_plan import AgentRequestError
from .job_files import TableFile
from .job_table import JobResultSpool, JobRow, JobTable, job_item_prompt, read_rows

JOB_WORKER = re.compile(r"job_[0-9a-f]{8}_[0-9]+(_[0-9]+)?\Z")  # their names
JobStatus = Literal["completed", "failed", "cancelled"]
JobFate = Literal["cancelled", "later", "now"]
"""What becomes of the rest of a job that is cut off: nothing, done by a resume, or at once.

Said before the cut, and kept: a job that was given up stays so, even if the run ends a moment
later.
"""
_MAX_FAILURES_LISTED = 5
_CANCELLED = "cancelled by worker request"
_STATUS, _ERROR = 4, 6  # of the cells of a row that has ended


class JobItem:
    """A row that is being worked on."""

    def __init__(self, row: JobRow, path: str) -> None:
        self.row, self.path = row, path
        self.result: str | None = None
        self.reported_at = ""


class BatchJob:
    """One job. `attempt` counts how often it was begun: first, then by each resume."""

    def __init__(
        self,
        table: JobTable,
        wish: SpawnOnCsv,
        spool: JobResultSpool,
        *,
        job_id: str | None = None,
        attempt: int = 1,
        chances: EntropySources = SYSTEM_ENTROPY,
    ) -> None:
        self._entropy = chances
        self.job_id, self.attempt = job_id or chances.new_id(), attempt
        self.table, self.request, self.spool = table, wish, spool
        self.schema = msgspec.json.decode(wish.output_schema) if wish.output_schema else None
        self.running: dict[str, JobItem] = {}  # by item id
        self.completed = self.failed = 0
        self.stopping = False
        self.fault: str | None = None
        self.failures: deque[dict[str, str | None]] = deque(maxlen=_MAX_FAILURES_LISTED)
        self.shown_at = float("-inf")
        self.asker = ""  # the path of the agent that wanted it
        self.file: TableFile | None = None
        self._fate: JobFate | None = None  # nobody has said it yet

    @property
    def has_call(self) -> bool:
        """A call waits for it; one that was taken up goes on by itself."""
        return self.attempt == 1

    @property
    def fate(self) -> JobFate:
        """That of a job which nobody destined for another one: its call was withdrawn."""
        return self._fate or "cancelled"

    def set_fate(self, fate: JobFate) -> None:
        """What becomes of it when it is cut off next."""
        if self._fate != "cancelled":
            self._fate = fate

    def remaining_rows(self) -> Iterator[JobRow]:
        """Those without an end, in order."""
        assert self.file is not None  # a job that is begun has one
        headers = self.table.headers
        for row in read_rows(self.file, headers, id_column=self.request.id_column):
            if row.index >= self.table.rows or not self.spool.has(row.index):
                yield row

    def begin(self, row: JobRow, asker: str) -> JobItem:
        """Its worker's path tells the job, the row and, from the second on, the attempt."""
        again = f"_{self.attempt}" if self.attempt > 1 else ""
        path = f"{asker}/job_{self.job_id[-8:]}_{row.index + 1}{again}"
        item = self.running[row.item_id] = JobItem(row, path)
        return item

    def finish(self, item: JobItem, error: str | None) -> JobRowEnded:
        """One row has ended: into the spool with it. Returns what the journal shall hold."""
        self.running.pop(item.row.item_id, None)
        cells = (
            self.job_id, item.row.item_id, str(item.row.index), item.row.source_id or "",
            "completed" if error is None else "failed", str(self.attempt), error or "",
            item.result or "", item.reported_at, self.now(),
        )  # fmt: skip
        self._count(cells)
        self.spool.add(item.row.index, list(cells))
        return JobRowEnded(index=item.row.index, cells=cells)

    def restore_rows(self, ended: Iterable[JobRowEnded]) -> None:
        """Rows that an earlier attempt has done: they are not run again."""
        for one in ended:
            if 0 <= one.index < self.table.rows and not self.spool.has(one.index):
                self._count(one.cells)
                self.spool.add(one.index, list(one.cells))

    def now(self) -> str:
        """The moment, as a table says it."""
        moment = datetime.fromtimestamp(self._entropy.unix_s(), UTC)
        return moment.isoformat(timespec="seconds")

    def _count(self, cells: tuple[str, ...]) -> None:
        if cells[_STATUS] == "completed":
            self.completed += 1
            return
        self.failed += 1
        told = {"item_id": cells[1], "source_id": cells[3] or None, "last_error": cells[_ERROR]}
        self.failures.append(told)

    @property
    def status(self) -> JobStatus:
        return "failed" if self.fault else "cancelled" if self.stopping else "completed"

    def summary(self, output: Path | str) -> bytes:
        """What the asker reads, as JSON."""
        return msgspec.json.encode(
            {
                "job_id": self.job_id,
                "status": self.status,
                "output_csv_path": str(output),
                "total_items": self.table.rows,
                "completed_items": self.completed,
                "failed_items": self.failed,
                "job_error": self.fault or (_CANCELLED if self.stopping else None),
                "failed_item_errors": list(self.failures) or None,
            }
        )

    def first_input(self, item: JobItem) -> UserInput:
        """The first words to the worker of a row."""
        text = job_item_prompt(
            self.request.instruction,
            self.table.headers,
            item.row,
            job_id=self.job_id,
            schema=self.request.output_schema,
        )
        return UserInput(input_id=self._entropy.new_id(), parts=(TextInput(text=text),))


def open_job(
    table: JobTable,
    wish: SpawnOnCsv,
    spool: JobResultSpool,
    *,
    job_id: str | None = None,
    attempt: int = 1,
    chances: EntropySources = SYSTEM_ENTROPY,
) -> BatchJob:
    """A job that has not begun. Raises NotPossible: its schema is none."""
    try:
        job = BatchJob(table, wish, spool, job_id=job_id, attempt=attempt, chances=chances)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise AgentRequestError(f"output_schema is not JSON: {error}") from error
    if job.schema is not None and not isinstance(job.schema, dict):
        raise AgentRequestError("output_schema must be a JSON object")
    return job


def report_result(jobs: Mapping[str, BatchJob], path: str, wish: ReportJobResult) -> ResultAccepted:
    """Take the result of the worker at `path`: its own row's, while it works, once.

    One that does not fit raises NotPossible, with the reason: it may be sent again.
    """
    job = jobs.get(wish.job_id)
    item = job.running.get(wish.item_id) if job is not None else None
    if job is None or item is None or item.path != path or item.result is not None:
        return ResultAccepted(accepted=False)
    try:
        result = msgspec.json.decode(wish.result)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise AgentRequestError("result must be a JSON object") from error
    if not isinstance(result, dict):
        raise AgentRequestError("result must be a JSON object")
    text = msgspec.json.encode(result).decode()
    if job.schema is not None and (fault := find_schema_violation(text, job.schema)):
        raise AgentRequestError(fault)
    item.result, item.reported_at = text, job.now()
    job.stopping |= wish.stop
    return ResultAccepted(accepted=True)

"""One running batch job: its rows, their workers, their results. Never waits.

Only a row's own worker reports its result: once, and while it works.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal, cast

import msgspec

from swarm.mailbox.base.bounded_formats import decode_json
from swarm.mailbox.base.entropy import SYSTEM_ENTROPY, EntropySources
from swarm.mailbox.base.schema_check import find_schema_violation
from swarm.mailbox.parts.jobs.job_messages import (
    JobBegan,
    JobRowEnded,
    ReportJobResult,
    ResultAccepted,
)
from swarm.mailbox.protocol.ops import TextInput, UserInput

from ....agents.child_plan import AgentRequestError
from ....part_access.part_host import Fate
from ..job_files import TableFile
from ..job_table import JobResultSpool, JobRow, JobTable, job_item_prompt, read_rows

JobStatus = Literal["completed", "failed", "cancelled"]
_MAX_FAILURES_LISTED = 5
_CANCELLED = "cancelled by worker request"
_STATUS, _ERROR = 4, 6  # columns of an ended row's cells


class JobItem:
    """A row that a worker works on."""

    def __init__(self, row: JobRow, path: str) -> None:
        self.row, self.path = row, path
        self.result: str | None = None
        self.reported_at = ""


class BatchJob:
    """One job, as the record of its begin says; `attempt` counts its starts, resumes included.

    Raises AgentRequestError for an invalid schema.
    """

    def __init__(
        self,
        began: JobBegan,
        table: JobTable,
        spool: JobResultSpool,
        *,
        asker: str,
        file: TableFile,
        entropy: EntropySources = SYSTEM_ENTROPY,
    ) -> None:
        self._entropy = entropy
        self.job_id, self.attempt = began.job_id, began.attempt
        self.request = request = began.request
        self.table, self.spool = table, spool
        self.schema = _read_schema(request.output_schema) if request.output_schema else None
        self.running: dict[str, JobItem] = {}  # by item id
        self.completed = self.failed = 0
        self.stopping = False
        self.fault: str | None = None
        self.failures: deque[dict[str, str | None]] = deque(maxlen=_MAX_FAILURES_LISTED)
        self.shown_at = float("-inf")
        self.asker, self.file = asker, file  # the path of the agent that requested it; its table
        self._fate: Fate | None = None  # None: not set

    @property
    def has_call(self) -> bool:
        """True if a call waits for it; a resumed job has none."""
        return self.attempt == 1

    @property
    def fate(self) -> Fate:
        """The fate that was set; else "cancelled": its call was withdrawn."""
        return self._fate or "cancelled"

    def set_fate(self, fate: Fate) -> None:
        """Set what follows when the job is cut off next."""
        if self._fate != "cancelled":
            self._fate = fate

    def remaining_rows(self) -> Iterator[JobRow]:
        """The rows without an end, in order."""
        headers = self.table.headers
        for row in read_rows(self.file, headers, id_column=self.request.id_column):
            if row.index >= self.table.rows or not self.spool.has(row.index):
                yield row

    def begin(self, row: JobRow) -> JobItem:
        """Start a row. Its worker's path names job, row and, from the second on, the attempt.

        A resume knows it by that (`agents/resume_team.py`).
        """
        again = f"_{self.attempt}" if self.attempt > 1 else ""
        path = f"{self.asker}/job_{self.job_id[-8:]}_{row.index + 1}{again}"
        item = self.running[row.item_id] = JobItem(row, path)
        return item

    def finish(self, item: JobItem, error: str | None) -> JobRowEnded:
        """End a row and add it to the spool. Returns the record for the journal."""
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
        """Add rows that an earlier attempt has done: they do not run again."""
        for one in ended:
            if 0 <= one.index < self.table.rows and not self.spool.has(one.index):
                self._count(one.cells)
                self.spool.add(one.index, list(one.cells))

    def now(self) -> str:
        """The present time as it stands in the results."""
        moment = datetime.fromtimestamp(self._entropy.unix_s(), UTC)
        return moment.isoformat(timespec="seconds")

    def _count(self, cells: tuple[str, ...]) -> None:
        if cells[_STATUS] == "completed":
            self.completed += 1
            return
        self.failed += 1
        failure = {"item_id": cells[1], "source_id": cells[3] or None, "last_error": cells[_ERROR]}
        self.failures.append(failure)

    def fail(self, fault: str | None) -> None:
        """Note what went wrong with the whole job; the first fault counts."""
        self.fault = self.fault or fault

    def is_news(self, now: float) -> bool:
        """True at most once a second: its progress is to be shown."""
        if now - self.shown_at < 1:
            return False
        self.shown_at = now
        return True

    @property
    def status(self) -> JobStatus:
        return "failed" if self.fault else "cancelled" if self.stopping else "completed"

    def summary(self, output: Path | str) -> bytes:
        """The JSON summary for the asker."""
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
        """The first input of a row's worker."""
        text = job_item_prompt(
            self.request.instruction,
            self.table.headers,
            item.row,
            job_id=self.job_id,
            schema=self.request.output_schema,
        )
        return UserInput(input_id=self._entropy.new_id(), parts=(TextInput(text=text),))


def _read_schema(text: bytes) -> dict[str, object]:
    try:
        schema: object = decode_json(text)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise AgentRequestError(f"output_schema is not JSON: {error}") from error
    if not isinstance(schema, dict):
        raise AgentRequestError("output_schema must be a JSON object")
    return cast("dict[str, object]", schema)


def report_result(
    jobs: Mapping[str, BatchJob], path: str, request: ReportJobResult
) -> ResultAccepted:
    """Take a result from the worker at `path`: only for its own row, while it works, once.

    A result that does not fit raises AgentRequestError with the reason; it may be sent again.
    """
    job = jobs.get(request.job_id)
    item = job.running.get(request.item_id) if job is not None else None
    if job is None or item is None or item.path != path or item.result is not None:
        return ResultAccepted(accepted=False)
    try:
        result = decode_json(request.result)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise AgentRequestError("result must be a JSON object") from error
    if not isinstance(result, dict):
        raise AgentRequestError("result must be a JSON object")
    text = msgspec.json.encode(result).decode()
    if job.schema is not None and (fault := find_schema_violation(text, job.schema)):
        raise AgentRequestError(fault)
    item.result, item.reported_at = text, job.now()
    job.stopping |= request.stop
    return ResultAccepted(accepted=True)

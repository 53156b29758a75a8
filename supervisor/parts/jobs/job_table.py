"""A batch job's table: streamed rows, item names, prompts, results.

The whole table is checked before anything starts, and is never held in memory. A cell's text goes
into a prompt and the results, and nowhere else.
"""

import csv
import io
import os
import re
from array import array
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import msgspec

from swarm.mailbox.protocol.values.base import Value

from ...agents.child_plan import AgentRequestError
from .job_files import TableFile

MAX_ROWS = 100_000
RESULT_COLUMNS = (
    "job_id", "item_id", "row_index", "source_id", "status", "attempt_count", "last_error",
    "result_json", "reported_at", "completed_at",
)  # fmt: skip
_PLACEHOLDER = re.compile(r"\{\{|\}\}|\{([^{}]*)\}")


class JobRow(Value):
    """One item of a job."""

    index: int  # from 0, blank rows not counted
    item_id: str
    source_id: str | None
    cells: tuple[str, ...]


class JobTable(Value):
    """A table that was read once as a whole and is valid."""

    path: str
    headers: tuple[str, ...]
    rows: int


def check_table(file: TableFile, *, id_column: str | None) -> JobTable:
    """Read the whole table once. Raises AgentRequestError that names the fault."""
    path = file.path
    try:
        headers = read_headers(file)
        if id_column is not None and id_column not in headers:
            raise AgentRequestError(f"id_column {id_column} was not found in csv headers")
        rows = sum(1 for _ in read_rows(file, headers, id_column=id_column))
    except OSError as error:
        raise AgentRequestError(f"failed to read csv input {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise AgentRequestError(f"failed to read csv input {path}: not UTF-8") from error
    except csv.Error as error:
        raise AgentRequestError(f"failed to parse csv input {path}: {error}") from error
    if not rows:
        raise AgentRequestError(f"csv input {path} has no rows")
    return JobTable(path=str(path), headers=headers, rows=rows)


def read_headers(file: TableFile) -> tuple[str, ...]:
    """The column names. Raises AgentRequestError if all are blank or one is duplicated."""
    with file.open() as text:
        headers = tuple(next(csv.reader(text, strict=True), ()))
    if not any(name.strip() for name in headers):
        raise AgentRequestError("csv input must include a header row")
    seen: set[str] = set()
    for name in headers:
        if name in seen:
            raise AgentRequestError(f"csv header {name} is duplicated")
        seen.add(name)
    return headers


def read_rows(
    file: TableFile, headers: tuple[str, ...], *, id_column: str | None
) -> Iterator[JobRow]:
    """The rows in order, without blank ones. Raises AgentRequestError, as `check_table`."""
    column = None if id_column is None else headers.index(id_column)
    names: dict[str, int] = {}
    index = 0
    with file.open() as text:
        reader = csv.reader(text, strict=True)
        next(reader, None)
        for number, cells in enumerate(reader, start=2):
            if not any(cell.strip() for cell in cells):
                continue
            if len(cells) != len(headers):
                raise AgentRequestError(
                    f"csv row {number} has {len(cells)} fields but header has {len(headers)}"
                )
            if index >= MAX_ROWS:
                raise AgentRequestError(f"csv input has more than {MAX_ROWS:,} rows")
            source = cells[column].strip() if column is not None else ""
            yield JobRow(
                index=index,
                item_id=_unique(source or f"row-{index + 1}", names),
                source_id=source or None,
                cells=tuple(cells),
            )
            index += 1


def _unique(name: str, names: dict[str, int]) -> str:
    """`a`, `a-2`, `a-3` …; skips names that are taken already."""
    if name not in names:
        names[name] = 1
        return name
    while True:
        names[name] += 1
        candidate = f"{name}-{names[name]}"
        if candidate not in names:
            names[candidate] = 1
            return candidate


def fill_template(instruction: str, values: dict[str, str]) -> str:
    """Replace `{column}`; `{{` and `}}` become braces, others stay. Filled text is final."""

    def one(hit: re.Match[str]) -> str:
        if hit[0] in {"{{", "}}"}:
            return hit[0][0]
        return values.get(hit[1], hit[0])

    return _PLACEHOLDER.sub(one, instruction)


def job_item_prompt(
    instruction: str, headers: tuple[str, ...], row: JobRow, *, job_id: str, schema: bytes | None
) -> str:
    """The prompt of one row's worker."""
    values = dict(zip(headers, row.cells, strict=True))
    wanted = schema.decode(errors="replace") if schema is not None else "any JSON object"
    return "\n\n".join(
        (
            "You work on one item of a batch job; others work on the other items.",
            f"Job: {job_id}\nItem: {row.item_id}",
            f"Your task:\n{fill_template(instruction, values)}",
            f"The item's row as JSON:\n{msgspec.json.encode(values).decode()}",
            f"The result must be a JSON object of this schema: {wanted}",
            "When you have it, call `report_agent_job_result` exactly once, with this job's and "
            "this item's id and the result; set `stop` to true only if the items not yet begun "
            "need no work any more. Then end your turn.",
        )
    )


def output_path_for(table: Path, wanted: str | None, *, job_id: str) -> Path:
    """The path of the results: beside the table unless `wanted` names one."""
    if wanted is not None:
        return Path(wanted)
    return table.with_name(f"{table.stem}.agent-job-{job_id[:8]}.csv")


class JobResultSpool:
    """Ended rows on disk, in order of their ends; memory holds 8 bytes a row."""

    def __init__(self, file: IO[bytes], rows: int) -> None:
        self._file = file
        self._offsets = array("q", [-1]) * rows

    def add(self, index: int, cells: list[str]) -> None:
        """Keep the result cells of row `index`."""
        self._offsets[index] = self._file.seek(0, os.SEEK_END)
        self._file.write(msgspec.json.encode(cells) + b"\n")

    def has(self, index: int) -> bool:
        """True if this row has ended."""
        return self._offsets[index] >= 0

    def cells_of(self, index: int) -> list[str] | None:
        """The result cells of a row; None if it has not ended."""
        if self._offsets[index] < 0:
            return None
        self._file.seek(self._offsets[index])
        return msgspec.json.decode(self._file.readline(), type=list[str])


def write_results(
    target: IO[bytes],
    file: TableFile,
    table: JobTable,
    spool: JobResultSpool,
    *,
    id_column: str | None,
) -> None:
    """Write the ended rows with their result columns, in row order.

    Raises OSError and AgentRequestError.
    """
    text = io.TextIOWrapper(target, encoding="utf-8", newline="")
    writer = csv.writer(text)
    writer.writerow([*table.headers, *RESULT_COLUMNS])
    for row in read_rows(file, table.headers, id_column=id_column):
        cells = spool.cells_of(row.index) if row.index < table.rows else None
        if cells is not None:
            writer.writerow([*row.cells, *cells])
    text.flush()
    text.detach()  # its opener closes it

"""Journal records of batch jobs: tables whose rows are worked through by agents."""

from typing import Literal

import msgspec

from .base import Tagged
from .requests import SpawnOnCsv


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

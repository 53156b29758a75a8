"""Batch jobs of a run's earlier part, from its records: which were cut off, which rows ended. Pure.

A job that was begun and never closed continues; a row that has ended never runs again.
"""

from collections.abc import Iterable, Iterator

import msgspec

from swarm.mailbox.protocol.job_records import JobBegan, JobClosed, JobRowEnded
from swarm.mailbox.protocol.records import Record


class UnfinishedJob(msgspec.Struct, frozen=True):
    """A job without an end. `asker` is the path of the agent that requested it."""

    began: JobBegan
    asker: str


class JobHistory(msgspec.Struct):
    """All jobs of a run."""

    ids: set[str] = set()
    unfinished: dict[str, UnfinishedJob] = {}  # by job id


def fold_jobs(records: Iterable[Record]) -> JobHistory:
    """Fold the supervisor's own records."""
    past = JobHistory()
    for record in records:
        match record.body:
            case JobBegan() as began:
                past.ids.add(began.job_id)
                past.unfinished[began.job_id] = UnfinishedJob(began, record.agent)
            case JobClosed(job_id=job_id):
                past.unfinished.pop(job_id, None)
            case _:
                pass
    return past


def finished_rows(records: Iterable[Record]) -> Iterator[JobRowEnded]:
    """The ended rows, from the records of a job's own file."""
    return (record.body for record in records if isinstance(record.body, JobRowEnded))

"""Batch jobs of a run's earlier part, from its records: which were cut off, which rows ended. Pure.

A job that was begun and never closed continues; a row that has ended never runs again.
"""

from collections.abc import Iterable, Iterator

import msgspec

from swarm.mailbox.parts.jobs.job_messages import JobBegan, JobClosed, JobRowEnded
from swarm.mailbox.protocol.records import Record


class UnfinishedJob(msgspec.Struct, frozen=True):
    """A job without an end. `asker` is the path of the agent that requested it."""

    began: JobBegan
    asker: str


class JobHistory(msgspec.Struct):
    """All jobs of a run."""

    ids: set[str] = set()
    unfinished: dict[str, UnfinishedJob] = {}  # by job id

    def take(self, asker: str, body: JobBegan | JobClosed) -> None:
        """The next record of the run's own file, in order."""
        match body:
            case JobBegan():
                self.ids.add(body.job_id)
                self.unfinished[body.job_id] = UnfinishedJob(body, asker)
            case JobClosed():
                self.unfinished.pop(body.job_id, None)


def finished_rows(records: Iterable[Record]) -> Iterator[JobRowEnded]:
    """The ended rows, from the records of a job's own file."""
    return (record.body for record in records if isinstance(record.body, JobRowEnded))

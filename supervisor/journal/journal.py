"""The journal writer: journal, then acknowledge, then show. One task, batches, one thread hop each.

`write` never waits: it numbers a record and queues it. The writer task takes all that is queued,
writes it in a thread, and only then calls the callbacks, in order: they acknowledge and show.
"""

import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from itertools import groupby
from typing import NamedTuple

import trio

from swarm.mailbox.base.errors import SwarmError
from swarm.mailbox.base.redact import Counts, Redactor
from swarm.mailbox.base.redact_structs import redact_encoded
from swarm.mailbox.protocol.events import TurnAborted, TurnCompleted, TurnFailed
from swarm.mailbox.protocol.records import (
    AgentEnded,
    AgentSpawned,
    AnyRecordBody,
    ApprovalRequested,
    ApprovalResolved,
    FanOutItemEnded,
    GrantGiven,
    Record,
    RunCompleted,
    RunStarted,
    SnapshotTaken,
    encode_record,
)

from ..runs.paths import RunPaths
from .journal_files import RUN_FILE, JournalFiles, repair_tail
from .journal_reader import last_seq as find_last_seq

_SYNCED = (
    RunStarted,
    AgentSpawned,
    TurnCompleted,
    TurnFailed,
    TurnAborted,
    AgentEnded,
    FanOutItemEnded,
    RunCompleted,
    ApprovalRequested,
    ApprovalResolved,
    GrantGiven,
    SnapshotTaken,
)


class JournalClosed(SwarmError):
    """The writer has ended, perhaps since the disk is full: the record is not on disk."""


class _QueuedRecord(NamedTuple):
    file: str
    record: Record
    then: Callable[[Record], None] | None


class Journal:
    """The only code that makes records. Made by `open_journal`."""

    def __init__(
        self,
        files: JournalFiles,
        *,
        last_seq: int,
        redactor: Redactor,
        unix_s: Callable[[], float] = time.time,
    ) -> None:
        self._files, self.redactor = files, redactor
        self._seq, self._unix_s = last_seq, unix_s
        self._queue: list[_QueuedRecord] = []
        self._wake = trio.Event()
        self._written_seq = last_seq  # all up to here are written and called back
        self._progress = trio.lowlevel.ParkingLot()
        self._files_to_close: list[str] = []
        self.redacted = Counts()  # redactions by rule; the writer thread counts
        self._committing: set[trio.Event] = set()
        self._has_ended = False

    def write(
        self,
        body: AnyRecordBody,
        *,
        agent: str = "",
        file: str = RUN_FILE,
        then: Callable[[Record], None] | None = None,
    ) -> Record:
        """Number and queue one record; `then` is called once it is written. Never waits.

        Args:
            body: What happened.
            agent: The path it concerns; "" is the run.
            file: An agent's id, or RUN_FILE.
            then: Acknowledges and shows. It must not raise.
        """
        self._seq += 1
        record = Record(seq=self._seq, ts=round(self._unix_s(), 3), body=body, agent=agent)
        self._queue.append(_QueuedRecord(file, record, then))
        self._wake.set()
        return record

    async def commit(
        self,
        body: AnyRecordBody,
        *,
        agent: str = "",
        file: str = RUN_FILE,
        then: Callable[[Record], None] | None = None,
    ) -> Record:
        """Write one record and return it as written, that is redacted, once it is on disk.

        `then` is called as by `write`: in the order of the records, not after the wait.

        Raises JournalClosed if the writer ends before that.
        """
        done = trio.Event()
        written: list[Record] = []

        def on_written(record: Record) -> None:
            if then is not None:
                then(record)
            written.append(record)
            done.set()

        self.write(body, agent=agent, file=file, then=on_written)
        self._committing.add(done)
        if self._has_ended:
            done.set()
        try:
            await done.wait()
        finally:
            self._committing.discard(done)
        if not written:
            raise JournalClosed("the journal was closed before this could be written")
        return written[0]

    def close_file(self, file: str) -> None:
        """Close the descriptor of a file that will hardly be written again."""
        self._files_to_close.append(file)
        self._wake.set()

    async def flush(self) -> None:
        """Return once all that was queued before is written and called back, whatever follows."""
        await trio.lowlevel.checkpoint_if_cancelled()
        upto = self._seq
        while self._written_seq < upto:
            await self._progress.park()

    async def run(self) -> None:
        """Write until cancelled; `open_journal` runs it. Raises JournalFailed to stop the run."""
        try:
            while True:
                await self._wake.wait()
                self._wake = trio.Event()
                while self._queue or self._files_to_close:
                    await self._write_batch()
        finally:
            self._has_ended = True
            for waiting in self._committing:
                waiting.set()

    async def _write_batch(self) -> None:
        batch, self._queue = self._queue, []
        forget, self._files_to_close = self._files_to_close, []
        with trio.CancelScope(shield=True):  # bounded: local writes of one batch
            written = await trio.to_thread.run_sync(self._write_in_thread, batch, forget)
            _run_callbacks(written)
            if written:
                self._written_seq = written[-1].record.seq
                self._progress.unpark_all()

    def _write_in_thread(
        self, batch: list[_QueuedRecord], forget: list[str]
    ) -> list[_QueuedRecord]:
        """Redact and write in order.

        Only adjacent records of one file share a write. So whenever this process is killed, what is
        on disk is a prefix of what was written, over all files.
        """
        written: list[_QueuedRecord] = []
        synced: dict[str, None] = {}
        for file, queued in groupby(batch, key=lambda entry: entry.file):
            pairs = [self._redacted(entry) for entry in queued]
            self._files.append(file, [line for _, line in pairs])
            for entry, _ in pairs:
                written.append(entry)
                if isinstance(entry.record.body, _SYNCED):
                    synced[file] = None
        for file in synced:
            self._files.sync(file)
        for file in forget:
            self._files.close_file(file)
        return written

    def _redacted(self, entry: _QueuedRecord) -> tuple[_QueuedRecord, bytes]:
        """Redact a record. All records pass here before they are written and shown."""
        record, line = redact_encoded(self.redactor, entry.record, encode_record, self.redacted)
        if record is not entry.record:
            entry = entry._replace(record=record)
        return entry, line + b"\n"

    def finish(self) -> None:
        """Write what is still queued and close. Blocks; for the very end of the run."""
        batch, self._queue = self._queue, []
        _run_callbacks(self._write_in_thread(batch, []))
        self._files.close()


def _run_callbacks(entries: list[_QueuedRecord]) -> None:
    for entry in entries:
        if entry.then is not None:
            entry.then(entry.record)


@asynccontextmanager
async def open_journal(
    run_paths: RunPaths,
    *,
    last_seq: int | None = None,
    redactor: Redactor | None = None,
    unix_s: Callable[[], float] = time.time,
) -> AsyncIterator[Journal]:
    """Open the run's journal for writing; the caller holds the run's lock.

    Args:
        run_paths: Its folder exists already.
        last_seq: The highest number in use; None: looked up, and torn last lines are cut.
        redactor: Knows the run's keys; without one only well-known shapes are redacted.
        unix_s: The clock that dates records.
    """
    run_paths.journal.mkdir(mode=0o700, exist_ok=True)
    if last_seq is None:
        for file in run_paths.journal.glob("*.jsonl"):
            repair_tail(file)
        last_seq = find_last_seq(run_paths)
    journal = Journal(
        JournalFiles(run_paths.journal),
        last_seq=last_seq,
        redactor=redactor or Redactor(()),
        unix_s=unix_s,
    )
    async with trio.open_nursery() as nursery:
        nursery.start_soon(journal.run)
        try:
            yield journal
            with trio.move_on_after(5, shield=True):
                await journal.flush()
        finally:
            nursery.cancel_scope.cancel()
    journal.finish()

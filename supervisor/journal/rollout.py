"""Law 2: journal, then acknowledge, then show. One writer, in batches, in a thread of its own.

`write` never waits: it numbers a record and queues it. The writer task takes all that is queued,
writes it in one thread hop, and only then calls back, in order: that is where acknowledging and
showing happen.
"""

import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import NamedTuple

import trio

from swarm.mailbox.protocol.events import TurnAborted, TurnCompleted, TurnFailed
from swarm.mailbox.protocol.records import (
    AgentEnded,
    AgentSpawned,
    AnyRecordBody,
    FanOutItemEnded,
    Record,
    RunCompleted,
    RunStarted,
    encode_record,
)

from ..places import RunPlaces
from .files import JournalFiles
from .index import Index, IndexRow

RUN_FILE = "run"  # the supervisor's own records; agents' files carry their ids
_SYNCED = (
    RunStarted,
    AgentSpawned,
    TurnCompleted,
    TurnFailed,
    TurnAborted,
    AgentEnded,
    FanOutItemEnded,
    RunCompleted,
)


class _Entry(NamedTuple):
    file: str
    record: Record
    then: Callable[[Record], None] | None


class Journal:
    """The only way a record comes to be. Made by `open_journal`."""

    def __init__(self, files: JournalFiles, index: Index, *, last_seq: int) -> None:
        self._files, self._index = files, index
        self._seq = last_seq
        self._queue: list[_Entry] = []
        self._unindexed: list[IndexRow] = []
        self._wake = trio.Event()
        self._idle = trio.Event()
        self._idle.set()
        self._forget: list[str] = []

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
            then: Acknowledge and show. It must not raise.
        """
        self._seq += 1
        record = Record(seq=self._seq, ts=round(time.time(), 3), body=body, agent=agent)
        self._queue.append(_Entry(file, record, then))
        if self._idle.is_set():
            self._idle = trio.Event()
        self._wake.set()
        return record

    async def commit(self, body: AnyRecordBody, *, agent: str = "", file: str = RUN_FILE) -> Record:
        """Write one record and return once it is on disk; for what must not be shown before."""
        written = trio.Event()
        record = self.write(body, agent=agent, file=file, then=lambda _: written.set())
        await written.wait()
        return record

    def forget(self, file: str) -> None:
        """This file will hardly be written again: its descriptor is given back."""
        self._forget.append(file)
        self._wake.set()

    async def settle(self) -> None:
        """Return once all that was queued is written and called back."""
        await self._idle.wait()

    async def run(self) -> None:
        """Write until cancelled; `open_journal` runs it. Raises JournalFailed and stops the run."""
        while True:
            await self._wake.wait()
            self._wake = trio.Event()
            while self._queue or self._forget:
                await self._write_batch()
            self._idle.set()

    async def _write_batch(self) -> None:
        batch, self._queue = self._queue, []
        forget, self._forget = self._forget, []
        rows, self._unindexed = self._unindexed, []
        with trio.CancelScope(shield=True):  # bounded: local writes of one batch
            fresh = await trio.to_thread.run_sync(self._write_in_thread, batch, forget, rows)
        self._unindexed += fresh
        for entry in batch:
            if entry.then is not None:
                entry.then(entry.record)

    def _write_in_thread(
        self, batch: list[_Entry], forget: list[str], rows: list[IndexRow]
    ) -> list[IndexRow]:
        by_file: dict[str, list[_Entry]] = {}
        for entry in batch:
            by_file.setdefault(entry.file, []).append(entry)
        fresh: list[IndexRow] = []
        for file, entries in by_file.items():
            lines = [encode_record(entry.record) + b"\n" for entry in entries]
            sync = any(isinstance(entry.record.body, _SYNCED) for entry in entries)
            offset = self._files.append(file, lines, sync=sync)
            for entry, line in zip(entries, lines, strict=True):
                fresh.append(IndexRow.of(entry.record, file, offset))
                offset += len(line)
        for file in forget:
            self._files.forget(file)
        self._index.add(rows)  # those of the batch before: nobody waits for the index
        return fresh

    def finish(self) -> None:
        """Write what is still queued, index it, close. Blocks; for the very end of the run."""
        batch, self._queue = self._queue, []
        rows = self._unindexed + self._write_in_thread(batch, [], [])
        for entry in batch:
            if entry.then is not None:
                entry.then(entry.record)
        self._index.add(rows)
        self._index.close()
        self._files.close()


@asynccontextmanager
async def open_journal(places: RunPlaces, *, last_seq: int = 0) -> AsyncIterator[Journal]:
    """Open the run's journal for writing; the caller holds the run's lock.

    Args:
        places: Its folder exists already.
        last_seq: The highest number in use, from a fold; 0 for a new run.
    """
    places.journal.mkdir(mode=0o700, exist_ok=True)
    journal = Journal(JournalFiles(places.journal), Index(places.index), last_seq=last_seq)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(journal.run)
        try:
            yield journal
            with trio.move_on_after(5, shield=True):
                await journal.settle()
        finally:
            nursery.cancel_scope.cancel()
    journal.finish()

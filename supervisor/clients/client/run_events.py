"""A run's events in order: what its journal holds, then what its feed brings, without a gap.

Every record comes once. Transient events (text that is arriving, output of a running command) come
only while the reader keeps up; a reader that is too slow gets the missed records from the journal.
"""

import heapq
from collections import deque
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from itertools import islice
from typing import TypeAlias

import anyio
import anyio.to_thread
import msgspec

from swarm.mailbox.base.errors import SwarmError
from swarm.mailbox.protocol.control import AnyFeed, Recorded, decode_feed
from swarm.mailbox.protocol.records import Record, RunCompleted

from ...journal.journal_reader import last_seq, read_records, records_after
from ...runs.paths import RunPaths
from ...runs.run_metadata import is_run_alive
from .client_sockets import ClientSocket, NobodyListens, open_client_socket, receive_numbered

Event: TypeAlias = AnyFeed
"""`Recorded`, a journaled record; or `TransientEvent`, which no journal keeps."""

_SILENT = "the run does not publish what happens in it; look at it with `swarm doctor`"
_JOIN_LIMIT_S = 15.0
_JOIN_CHECK_INTERVAL_S = 0.2
_ALIVE_CHECK_INTERVAL_S = 1.0
_BATCH = 256  # past records read at once


class RunEvents:
    """The events of one run, for one task. `receive` returns None once the run has ended."""

    def __init__(self, paths: RunPaths, sock: ClientSocket | None, number: int) -> None:
        self._paths, self._sock, self._number = paths, sock, number
        self._seq = 0  # of the last record that was given out
        self._past: Iterator[Record] | None = None
        self._pending: deque[Record] = deque()
        self._may_miss_last = False  # the feed tells of a gap only with its next message

    async def begin(self, after: int | None) -> None:
        """Start behind the record `after`; None: behind the newest. Call once, before `receive`."""
        newest = await anyio.to_thread.run_sync(last_seq, self._paths)
        if after is None or after >= newest:
            self._seq = newest if after is None else after
            return
        self._seq = after
        # Lines are written in the order of their numbers: all up to `newest` are on disk, and what
        # follows is on the feed, which this reader has joined.
        self._past = (one for one in read_records(self._paths) if after < one.seq <= newest)

    async def receive(self) -> Event | None:
        """The next event; None when the run has ended and everything was given out."""
        while True:
            if self._pending:
                record = self._pending.popleft()
                self._seq = record.seq
                return Recorded(record=record)
            if self._past is not None:
                await self._read_past(self._past)
            elif self._sock is None:
                return None
            elif (event := await self._from_feed(self._sock)) is not None:
                return event

    async def _read_past(self, past: Iterator[Record]) -> None:
        batch = await anyio.to_thread.run_sync(lambda: list(islice(past, _BATCH)))
        self._pending.extend(batch)
        if not batch:
            self._past = None

    async def _from_feed(self, sock: ClientSocket) -> Event | None:
        """An event that is new; None if there is none yet, or if the journal has it."""
        body: bytes | None = None
        number = self._number
        with anyio.move_on_after(_ALIVE_CHECK_INTERVAL_S):
            number, body = await receive_numbered(sock)
        if body is None:
            is_gone = not is_run_alive(self._paths)  # killed: it sends nothing any more
            if is_gone:
                self._sock = None
            if is_gone or self._may_miss_last:
                self._may_miss_last = False
                await self._catch_up()
            return None
        self._may_miss_last = True
        is_join = not body  # another reader has joined: the last number once more
        has_gap, self._number = number != self._number + (not is_join), number
        event = None if is_join else _decode(body)
        if has_gap or (event is None and not is_join):
            await self._catch_up()
        return None if event is None else self._if_new(event)

    def _if_new(self, event: Event) -> Event | None:
        if not isinstance(event, Recorded):
            return None if self._pending else event
        if isinstance(event.record.body, RunCompleted):
            self._sock = None  # nothing follows
        if self._pending or event.record.seq <= self._seq:
            return None  # the journal gave it
        self._seq = event.record.seq
        return event

    async def _catch_up(self) -> None:
        """Read from the journal what the feed did not bring."""
        missed = await anyio.to_thread.run_sync(self._missed)
        self._pending.extend(missed)
        if any(isinstance(record.body, RunCompleted) for record in missed):
            self._sock = None  # a resumed run has another feed

    def _missed(self) -> list[Record]:
        newest = last_seq(self._paths)
        if newest <= self._seq:
            return []
        files = sorted(path.stem for path in self._paths.journal.glob("*.jsonl"))
        found = [records_after(self._paths, file, self._seq) for file in files]
        merged = heapq.merge(*found, key=lambda record: record.seq)
        return [record for record in merged if record.seq <= newest]


def _decode(body: bytes) -> Event | None:
    """None for an event of a newer supervisor."""
    try:
        event: Event = decode_feed(body)
    except msgspec.DecodeError:
        return None
    return event


@asynccontextmanager
async def open_events(paths: RunPaths, *, after: int | None = 0) -> AsyncIterator[RunEvents]:
    """Read the events of a run, alive or ended, behind the record with the number `after`.

    `after=None` begins with what happens from now on. Raises SwarmError if a live run publishes
    nothing, and JournalUnreadable for a run of a newer version.
    """
    async with AsyncExitStack() as stack:
        number = None
        if (sock := await _open_feed(stack, paths)) is not None:
            number = await _wait_joined(sock, paths)
        events = RunEvents(paths, None if number is None else sock, number or 0)
        await events.begin(after)
        yield events


async def _open_feed(stack: AsyncExitStack, paths: RunPaths) -> ClientSocket | None:
    """The run's feed, also of a run that is only starting; None if the run has ended."""
    limit = anyio.current_time() + _JOIN_LIMIT_S
    while is_run_alive(paths):
        try:
            return await stack.enter_async_context(open_client_socket("sub", paths.feed_endpoint))
        except NobodyListens:
            if anyio.current_time() > limit:
                raise SwarmError(_SILENT) from None
        await anyio.sleep(_JOIN_CHECK_INTERVAL_S)
    return None


async def _wait_joined(sock: ClientSocket, paths: RunPaths) -> int | None:
    """The feed's last number before this reader; None if the run has ended meanwhile.

    What is published from that number on arrives, or leaves a gap.
    """
    limit = anyio.current_time() + _JOIN_LIMIT_S
    while anyio.current_time() < limit:
        with anyio.move_on_after(_JOIN_CHECK_INTERVAL_S):
            while True:
                number, body = await receive_numbered(sock)
                if not body:
                    return number
        if not is_run_alive(paths):
            return None
    raise SwarmError(_SILENT)

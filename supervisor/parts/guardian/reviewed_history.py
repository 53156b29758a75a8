"""Reads reviewed agents' histories from the journal, continuing where the last review stopped.

Authors come from the supervisor's own records: a text counts as the person's only if the supervisor
received it from a person (or from the person's task file) and posted it. The journal is flushed
before it is read, so the call under review is in it.
"""

from collections.abc import Iterable
from pathlib import Path

import msgspec
import trio

from swarm.mailbox.protocol.records import (
    ContextRecorded,
    InputPosted,
    ItemRecorded,
    Record,
    decode_record,
)
from swarm.mailbox.protocol.values.base import SCHEMA_VERSION

from ...agents.agent_record import AgentPlan
from ...context.run_context import RunContext
from .review_transcript import Source, TranscriptEntry, TranscriptReader, make_entry

KEPT_ENTRIES = 500  # entries other than the person's that are held; at most 40 are ever shown
_MAX_FOLLOWED = 64


class JournalTail:
    """Reads one journal file onward from the last complete line. Blocks: call it in a thread."""

    def __init__(self, path: Path) -> None:
        self._path, self._offset = path, 0

    def read_more(self) -> list[Record]:
        """The records since the last call; an incomplete last line is left for the next call.

        Raises OSError, and msgspec.DecodeError for a line that is no record of this version.
        """
        found: list[Record] = []
        try:
            with self._path.open("rb") as file:
                file.seek(self._offset)
                for line in file:
                    if not line.endswith(b"\n"):
                        break
                    record = decode_record(line)
                    if record.schema_version != SCHEMA_VERSION:
                        raise msgspec.ValidationError("a record of another version")
                    self._offset += len(line)
                    found.append(record)
        except FileNotFoundError:
            return []
        return found


class ReviewedHistory:
    """The entries of one reviewed agent.

    `version` counts how often its history was replaced. Old entries that are not the person's are
    replaced by None, so that numbers never change.
    """

    def __init__(self, *, handed_by: str = "") -> None:
        self.entries: list[TranscriptEntry | None] = []
        self.version = 0
        self._handed_by = handed_by  # the agent that wrote the tasks of this one, as a fan-out
        self._reader = TranscriptReader()
        self._posted: dict[str, InputPosted] = {}
        self._first_kept = 0  # entries before this index were already checked for dropping
        self._person_texts: set[str] = set()  # texts of the person's entries so far
        self._has_records = False

    def read(self, records: Iterable[Record]) -> None:
        """Add further records of the agent's file, in order."""
        for record in records:
            match record.body:
                case InputPosted() as posted:
                    self._posted[posted.input_id] = posted
                case ItemRecorded() as body:
                    self._add(self._entry_of(body))
                case ContextRecorded(items=items):
                    self.version += 1
                    self.entries.clear()
                    self._first_kept = 0
                    for item in items:
                        self._add(self._check_author(self._reader.read(item, "unknown")))
                case _:
                    pass
            self._has_records = True
        self._drop_old()

    @property
    def person_entries(self) -> list[TranscriptEntry]:
        """Only the person's entries."""
        return [entry for entry in self.entries if entry is not None and entry.kind == "user"]

    def _entry_of(self, body: ItemRecorded) -> TranscriptEntry | None:
        source: Source = body.source
        entry = self._reader.read(body.item, source)
        if entry is None or source != "user":
            return entry
        posted = self._posted.pop(body.item_id, None)
        if posted is None:  # the supervisor never received this text
            return make_entry("message", "message of unknown origin", entry.text)
        if posted.source == "fan_out" and self._handed_by:
            return make_entry("message", f"message from agent {self._handed_by}", entry.text)
        return entry

    def _check_author(self, entry: TranscriptEntry | None) -> TranscriptEntry | None:
        """Check an entry of a replaced history, whose content the agent itself reports.

        Its text counts as the person's only if it did so before. A replacement at the start of the
        file is the supervisor's own record: the part of its parent's history that a fork received.
        """
        if (
            entry is None
            or entry.kind != "user"
            or not self._has_records
            or entry.text in self._person_texts
        ):
            return entry
        return make_entry("message", "message of unknown origin", entry.text)

    def _add(self, entry: TranscriptEntry | None) -> None:
        if entry is not None:
            self.entries.append(entry)
            if entry.kind == "user":
                self._person_texts.add(entry.text)

    def _drop_old(self) -> None:
        end = max(self._first_kept, len(self.entries) - KEPT_ENTRIES)
        for index in range(self._first_kept, end):
            entry = self.entries[index]
            if entry is not None and entry.kind != "user":
                self.entries[index] = None
        self._first_kept = end


class _Followed:
    def __init__(self, tail: JournalTail, history: ReviewedHistory) -> None:
        self.tail, self.history, self.lock = tail, history, trio.Lock()


class ReviewedHistories:
    """The histories of recently reviewed agents; others are read again from the start."""

    def __init__(self, running: RunContext) -> None:
        self._run = running
        self._followed: dict[str, _Followed] = {}  # by agent id, most recently used last

    async def read(self, plan: AgentPlan) -> ReviewedHistory:
        """The agent's history as of now. Raises OSError and msgspec.DecodeError."""
        followed = self._followed.pop(plan.agent_id, None)
        if followed is None:
            by = (plan.parent or "") if plan.job else ""
            tail = JournalTail(self._run.paths.journal / f"{plan.agent_id}.jsonl")
            followed = _Followed(tail, ReviewedHistory(handed_by=by))
        self._followed[plan.agent_id] = followed
        if len(self._followed) > _MAX_FOLLOWED:
            del self._followed[next(iter(self._followed))]
        async with followed.lock:
            await self._run.journal.flush()
            # `run_sync` waits for the thread even when cancelled, so no records that it read are
            # lost.
            records = await trio.to_thread.run_sync(followed.tail.read_more)
            followed.history.read(records)
        return followed.history

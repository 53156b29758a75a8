"""Records back from the files: in order of seq, tolerant of a torn last line, of nothing else."""

import heapq
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import msgspec

from swarm.mailbox.errors import SwarmError
from swarm.mailbox.protocol.base import SCHEMA_VERSION
from swarm.mailbox.protocol.records import Record, decode_record

from ..places import RunPlaces
from .rollout import RUN_FILE

_OPEN_AT_ONCE = 200  # more files than that are merged by memory instead of by handle


class JournalUnreadable(SwarmError):
    """A line that is not the last one cannot be read. Names the file and the line."""


def read_file(path: Path) -> Iterator[Record]:
    """The records of one file. A last line without its newline is a torn write: left out.

    Raises JournalUnreadable for any other line that is no record of this version.
    """
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            if not line.endswith(b"\n"):
                return
            try:
                record = decode_record(line)
            except (msgspec.DecodeError, UnicodeDecodeError) as error:
                raise JournalUnreadable(f"{path}, line {number}: {error}") from error
            if record.schema_version != SCHEMA_VERSION:
                raise JournalUnreadable(
                    f"{path}, line {number}: schema version {record.schema_version}; "
                    f"this swarm reads version {SCHEMA_VERSION}"
                )
            yield record


def read_records(places: RunPlaces, *, file: str | None = None) -> Iterator[Record]:
    """All records of a run in order of seq, or those of one file (an agent's id, or "run").

    A file that does not exist has no records.
    """
    if file is not None:
        path = places.journal / f"{file}.jsonl"
        if path.exists():
            yield from read_file(path)
        return
    paths = sorted(places.journal.glob("*.jsonl"))
    if len(paths) > _OPEN_AT_ONCE:
        yield from _merge_many(paths)
        return
    with ExitStack() as stack:
        streams = [read_file(path) for path in paths]
        for stream in streams:
            stack.callback(stream.close)  # type: ignore[attr-defined]
        yield from heapq.merge(*streams, key=lambda record: record.seq)


def _merge_many(paths: list[Path]) -> Iterator[Record]:
    """As a merge, but with only places in memory and few files open: two passes over the lines."""
    places: list[tuple[int, int, int]] = []
    for which, path in enumerate(paths):
        with path.open("rb") as file:
            offset = 0
            for line in file:
                if line.endswith(b"\n"):
                    places.append((decode_record(line).seq, which, offset))
                offset += len(line)
    places.sort()
    for _, which, offset in places:
        with paths[which].open("rb") as file:
            file.seek(offset)
            yield decode_record(file.readline())


def run_records(places: RunPlaces) -> Iterator[Record]:
    """The supervisor's own records alone: enough to list a run's agents and how they ended."""
    return read_records(places, file=RUN_FILE)

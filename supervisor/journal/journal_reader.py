"""Reads records back: streamed, in order of seq, with unreadable lines reported and left out.

Memory does not grow with a journal's length, and nothing is guessed. A torn last line is no record
yet. A damaged line is reported and left out. A record of a newer version is refused, since its
effect is unknown.
"""

import heapq
import logging
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from functools import lru_cache, partial
from pathlib import Path
from typing import get_args

import msgspec

from swarm.mailbox.base.bounded_formats import depth_checked
from swarm.mailbox.base.errors import SwarmError
from swarm.mailbox.protocol.records import AnyRecordBody, Record, decode_record
from swarm.mailbox.protocol.values.base import SCHEMA_VERSION, Value

from ..runs.paths import RunPaths
from .journal_files import RUN_FILE, cut_torn_line

_log = logging.getLogger("swarm.journal")
MAX_LINE_BYTES = 64 * 1024 * 1024  # far more than any line that is written
_OPEN_AT_ONCE = 200  # with more files than that, each is reopened for every chunk
_CHUNKS_BYTES = 16 * 1024 * 1024  # of all files together then
_TAIL_BYTES = 64 * 1024
_KNOWN_TAGS = frozenset(str(one.__struct_config__.tag) for one in get_args(AnyRecordBody))


class JournalUnreadable(SwarmError):
    """The journal is of a newer version. Names the file and the line."""


class BadLine(Value):
    """A line that is no record; `path` and `number` (from 1) say where."""

    path: str
    number: int
    why: str

    def __str__(self) -> str:
        return f"{self.path}, line {self.number} cannot be read and is left out: {self.why}"


BadLineHandler = Callable[[BadLine], None]


@lru_cache(maxsize=1_000)  # a journal is read several times, a line logged once
def log_bad_line(bad: BadLine) -> None:
    """The default handler of bad lines: log them."""
    _log.warning("%s", bad)


class _Tag(Value):
    type: str = ""


class _Head(Value):
    """What every version's record has."""

    body: _Tag = _Tag()
    schema_version: int = SCHEMA_VERSION


_decode_head = depth_checked(msgspec.json.Decoder(_Head).decode)


class RunFileRead(Value):
    """What the one pass of a resume over the run's own file found beside its records."""

    last_seq: int = 0  # the highest number in use there; damaged lines at its end may have had more
    size_bytes: int = 0  # where this part of the run begins in it
    bad_lines: tuple[BadLine, ...] = ()


def take_run_file(run_paths: RunPaths, take: Callable[[Record], None]) -> RunFileRead:
    """Cut a torn last line of the run's own file and give each record to `take`, in order.

    The file is opened once and read once, however many folds `take` feeds. The caller holds the
    run's lock. Raises JournalUnreadable for a record of a newer version.
    """
    path = run_paths.journal / f"{RUN_FILE}.jsonl"
    if not path.exists():
        return RunFileRead()
    bad: list[BadLine] = []
    last, bad_before_it = 0, 0
    with path.open("rb+") as file:
        cut_torn_line(file)
        size = file.seek(0, os.SEEK_END)
        file.seek(0)
        for record in _records(path, _lines(file.readline), bad.append):
            take(record)
            last, bad_before_it = max(last, record.seq), len(bad)
    after = len(bad) - bad_before_it
    return RunFileRead(last_seq=last + after if last else 0, size_bytes=size, bad_lines=tuple(bad))


def read_file(
    path: Path, on_bad_line: BadLineHandler = log_bad_line, *, start: int = 0
) -> Iterator[Record]:
    """The records of one file. A last line without its newline is a torn write: left out.

    Args:
        path: The file.
        on_bad_line: Called with every other line that is no record; the rest is read all the same.
        start: Where in the file to begin: at the first byte of a line.

    Raises JournalUnreadable for a record of a newer version.
    """
    with path.open("rb") as file:
        file.seek(start)
        yield from _records(path, _lines(file.readline), on_bad_line)


def read_records(
    run_paths: RunPaths, *, file: str | None = None, on_bad_line: BadLineHandler = log_bad_line
) -> Iterator[Record]:
    """All records of a run in order of seq, or those of one file (an agent's id, or "run").

    A file that does not exist has no records.
    """
    if file is not None:
        path = run_paths.journal / f"{file}.jsonl"
        if path.exists():
            yield from read_file(path, on_bad_line)
        return
    paths = sorted(run_paths.journal.glob("*.jsonl"))
    with ExitStack() as stack:
        if len(paths) > _OPEN_AT_ONCE:
            chunk = _CHUNKS_BYTES // len(paths)
            streams = [_records(path, _lines_by_chunk(path, chunk), on_bad_line) for path in paths]
        else:
            streams = [read_file(path, on_bad_line) for path in paths]
        for stream in streams:
            stack.callback(stream.close)  # type: ignore[attr-defined]
        yield from heapq.merge(*streams, key=lambda record: record.seq)


def run_records(
    run_paths: RunPaths, on_bad_line: BadLineHandler = log_bad_line
) -> Iterator[Record]:
    """The supervisor's own records: enough to list a run's agents and how they ended."""
    return read_records(run_paths, file=RUN_FILE, on_bad_line=on_bad_line)


def agent_records(here: RunPaths, agent_id: str, path: str) -> Iterator[Record]:
    """The agent's own records and the supervisor's records about it, in order; streamed."""
    own = read_records(here, file=agent_id)
    about = (
        record
        for record in run_records(here)
        if record.agent == path or getattr(record.body, "agent_id", None) == agent_id
    )
    return heapq.merge(own, about, key=lambda record: record.seq)


def run_records_from(run_paths: RunPaths, start: int) -> Iterator[Record]:
    """The supervisor's own records from this byte on (`RunFileRead.size_bytes`)."""
    path = run_paths.journal / f"{RUN_FILE}.jsonl"
    if path.exists():
        yield from read_file(path, start=start)


def last_seq(run_paths: RunPaths) -> int:
    """The highest number in use, from the ends of the files: quick also for a long journal."""
    return max((_last_seq_of(path) for path in run_paths.journal.glob("*.jsonl")), default=0)


def last_seq_of_others(run_paths: RunPaths) -> int:
    """The same of all files but the run's own."""
    return max(map(_last_seq_of, other_files(run_paths)), default=0)


def other_files(run_paths: RunPaths) -> Iterator[Path]:
    """The journal's files but the run's own: those of agents and of parts."""
    return (path for path in run_paths.journal.glob("*.jsonl") if path.stem != RUN_FILE)


def records_after(run_paths: RunPaths, file: str, seq: int) -> list[Record]:
    """The records of one file after this number, read from its end: few, as a rule."""
    path = run_paths.journal / f"{file}.jsonl"
    if not path.exists():
        return []
    with path.open("rb") as stream:
        size = stream.seek(0, os.SEEK_END)
        span = 0
        while True:
            span = min(size, max(_TAIL_BYTES, span * 4))
            stream.seek(size - span)
            if span < size:
                stream.readline()  # most likely not a whole line
            found = list(_records(path, _lines(stream.readline), log_bad_line))
            if span == size or (found and found[0].seq <= seq):
                return [record for record in found if record.seq > seq]


def _last_seq_of(path: Path) -> int:
    """Numbers only grow within a file. Damaged lines at its end may have had the next ones."""
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        span = 0
        while span < size:
            span = min(size, max(_TAIL_BYTES, span * 4))
            file.seek(size - span)
            lines = file.read(span).splitlines()
            if span < size:
                del lines[0]  # most likely not a whole line
            for back, line in enumerate(reversed(lines)):
                record = _decoded(line, partial(_where, path, 0))
                if record is not None:
                    return record.seq + back
    return 0


def _records(path: Path, lines: Iterable[bytes], on_bad_line: BadLineHandler) -> Iterator[Record]:
    skipping = False
    number = 0
    for line in lines:
        number += not skipping
        if not line.endswith(b"\n"):
            if len(line) < MAX_LINE_BYTES:
                return
            if not skipping:
                on_bad_line(BadLine(path=str(path), number=number, why="it is too long"))
            skipping = True
            continue
        if skipping:
            skipping = False  # this is the end of the line that was too long
            continue
        record = _decoded(line, partial(_where, path, number), on_bad_line)
        if record is not None:
            yield record


def _where(path: Path, number: int, why: str) -> BadLine:
    return BadLine(path=str(path), number=number, why=why)


def _decoded(
    line: bytes, where: Callable[[str], BadLine], on_bad_line: BadLineHandler | None = None
) -> Record | None:
    """None for what is no record. Raises JournalUnreadable for one of a newer version."""
    try:
        record = decode_record(line)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        _refuse_newer(line, where)
        if on_bad_line is not None:
            on_bad_line(where(str(error)))
        return None
    if record.schema_version != SCHEMA_VERSION:
        _refuse_newer(line, where)
    return record


def _refuse_newer(line: bytes, where: Callable[[str], BadLine]) -> None:
    try:
        head = _decode_head(line)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return
    bad = where("")
    at = f"{bad.path}, line {bad.number}" if bad.number else bad.path
    if head.schema_version != SCHEMA_VERSION:
        raise JournalUnreadable(
            f"{at}: schema version {head.schema_version}; this swarm reads version "
            f"{SCHEMA_VERSION}: use the swarm that wrote it, or a newer one"
        )
    if head.body.type and head.body.type not in _KNOWN_TAGS:
        raise JournalUnreadable(
            f"{at}: a record of the kind {head.body.type[:60]!r}, which this swarm does not know: "
            "use the swarm that wrote it, or a newer one"
        )


def _lines(readline: Callable[[int], bytes]) -> Iterator[bytes]:
    while line := readline(MAX_LINE_BYTES):
        yield line


def _lines_by_chunk(path: Path, chunk_bytes: int) -> Iterator[bytes]:
    """Like `_lines`, but the file is open only while a chunk (at least one line) is read."""
    offset = 0
    while True:
        lines: list[bytes] = []
        size = 0
        with path.open("rb") as file:
            file.seek(offset)
            for line in _lines(file.readline):
                lines.append(line)
                size += len(line)
                if size >= chunk_bytes:
                    break
        if not lines:
            return
        offset += size
        yield from lines

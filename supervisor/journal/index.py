"""A small sqlite file for finding records by agent and kind. A cache: the JSON lines are the truth.

It may lag behind by one batch or be missing altogether. One that is damaged is begun anew, once.
"""

import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

from swarm.mailbox.protocol.records import Record

_SCHEMA = """
CREATE TABLE IF NOT EXISTS records (
  seq INTEGER PRIMARY KEY, ts REAL NOT NULL, agent TEXT NOT NULL, kind TEXT NOT NULL,
  file TEXT NOT NULL, place INTEGER NOT NULL);
CREATE INDEX IF NOT EXISTS by_agent ON records (agent, seq);
CREATE INDEX IF NOT EXISTS by_kind ON records (kind, seq);
"""
_PAGES_KIB = 128  # sqlite's own 2 MB would fill up over a few hundred agents and stay


class IndexRow(NamedTuple):
    """Where a record lies: `place` is the byte offset of its line in `file`."""

    seq: int
    ts: float
    agent: str
    kind: str
    file: str
    place: int

    @classmethod
    def of(cls, record: Record, file: str, place: int) -> "IndexRow":
        """The row of a record that was just written."""
        tag = record.body.__struct_config__.tag
        return cls(record.seq, record.ts, record.agent, str(tag), file, place)


class Index:
    """One connection, used by one thread at a time. An unusable file is never an error."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._connection: sqlite3.Connection | None = None
        self._broken = self._renewed = False

    def add(self, rows: Iterable[IndexRow]) -> None:
        """Insert rows; a disk that refuses leaves the index behind, not the run."""
        rows = list(rows)
        if not rows or self._broken:
            return
        try:
            self._insert(rows)
        except sqlite3.OperationalError:  # the disk; also a file of another layout
            self._broken = True
        except sqlite3.DatabaseError:
            self._broken = not self._renew(rows)

    def close(self) -> None:
        """Close the file, if it was opened."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _insert(self, rows: list[IndexRow]) -> None:
        connection = self._open()
        connection.execute("BEGIN")
        connection.executemany("INSERT OR REPLACE INTO records VALUES (?,?,?,?,?,?)", rows)
        connection.execute("COMMIT")

    def _renew(self, rows: list[IndexRow]) -> bool:
        """The file is no index any more: the rows go into a fresh one. False: nor can that be."""
        if self._renewed:
            return False
        self._renewed = True
        try:
            self.close()
            for name in (self._path.name, f"{self._path.name}-wal", f"{self._path.name}-shm"):
                self._path.with_name(name).unlink(missing_ok=True)
            self._insert(rows)
        except (OSError, sqlite3.Error):
            return False
        return True

    def _open(self) -> sqlite3.Connection:
        if self._connection is None:
            connection = sqlite3.connect(
                self._path, isolation_level=None, check_same_thread=False, timeout=5
            )
            connection.execute("PRAGMA journal_mode=WAL")
            connection.execute("PRAGMA synchronous=NORMAL")
            connection.execute(f"PRAGMA cache_size=-{_PAGES_KIB}")
            connection.executescript(_SCHEMA)
            self._connection = connection
        return self._connection


def find_rows(path: Path, *, agent: str | None, kinds: tuple[str, ...]) -> Iterator[IndexRow]:
    """Rows of an agent (None: of all) and of these kinds (none: of all), in order of seq.

    Raises sqlite3.Error when the file is no index; the caller then reads the lines themselves.
    """
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection:
        marks = ",".join("?" * len(kinds))
        where = ["1"] + (["agent = ?"] if agent is not None else [])
        where += [f"kind IN ({marks})"] if kinds else []
        values = ([agent] if agent is not None else []) + list(kinds)
        query = f"SELECT * FROM records WHERE {' AND '.join(where)} ORDER BY seq"
        for row in connection.execute(query, values):
            yield IndexRow(*row)

"""Archive of finished agents: an unlinked SQLite file, so that memory stays bounded.

Memory does not grow with the number of ended agents, and yet each of them is found by its path
until the run ends. The file is a cache of this process alone: it has no name once it is open, and
the journal holds the truth. If the disk refuses, everything stays in memory.
"""

import ctypes
import os
import sqlite3
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import msgspec

from swarm.mailbox.base.errors import SwarmError

from .agent_phases import Phase
from .agent_record import Agent, AgentSnapshot

_SCHEMA = """
CREATE TABLE agents (
  path TEXT PRIMARY KEY, parent TEXT NOT NULL, owner TEXT NOT NULL, came INTEGER NOT NULL,
  nickname TEXT NOT NULL, is_child INTEGER NOT NULL, kept BLOB NOT NULL) WITHOUT ROWID;
CREATE INDEX by_parent ON agents (parent, came);
"""
_FIELDS = "path, parent, owner, came, nickname, is_child, kept"
_PAGES_KIB = 64  # SQLite's page cache, whatever the file's size


class FinishedAgentsUnreadable(SwarmError):
    """The archive cannot be read: the disk fails. The journal still has its agents."""


class FinishedAgent(NamedTuple):
    """One archived agent."""

    path: str
    parent: str
    owner: str  # its agent id
    order: int  # its place in the order in which agents were added
    nickname: str = ""
    is_child: bool = False  # its parent's next process is told of it: it was not closed
    encoded: bytes = b""  # its state; empty: only its path is taken


class FinishedAgents:
    """Opened at the first `put`; its maker closes it. Calls are short and block."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._connection: sqlite3.Connection | None = None
        self._broken = False

    def put(self, rows: Sequence[FinishedAgent]) -> bool:
        """Archive these agents. False: the disk refused, nothing was archived."""
        if self._broken or not rows:
            return False
        try:
            connection = self._connection or self._open()
            connection.execute("BEGIN")
            connection.executemany("INSERT OR REPLACE INTO agents VALUES (?,?,?,?,?,?,?)", rows)
            connection.execute("COMMIT")
        except (OSError, sqlite3.Error):
            self._broken = True  # what is there can still be read
            return False
        return True

    def take(self, path: str) -> FinishedAgent | None:
        """Remove and return one agent; None if it is not archived."""
        found = self._select("path = ?", path)
        if found and self._connection is not None:
            with self._translate_errors():
                self._connection.execute("DELETE FROM agents WHERE path = ?", (path,))
        return found[0] if found else None

    def owner_of(self, path: str) -> str | None:
        """The id of the archived agent with this path; None if there is none."""
        if self._connection is None:
            return None
        with self._translate_errors():
            query = "SELECT owner FROM agents WHERE path = ?"
            row = self._connection.execute(query, (path,)).fetchone()
        return None if row is None else str(row[0])

    def descendants_of(self, path: str) -> list[FinishedAgent]:
        """All that descend from `path`, in the order in which they were added."""
        return self._select("path > ? AND path < ?", f"{path}/", f"{path}0")  # `0` follows `/`

    def children_of(self, path: str) -> list[FinishedAgent]:
        """Direct children, in the order in which they were added."""
        return self._select("parent = ?", path)

    def paths_named(self, step: str) -> list[str]:
        """Paths of archived agents whose last step is `step`."""
        if self._connection is None:
            return []
        query = "SELECT path FROM agents WHERE substr(path, -length(?1)) = ?1 AND kept != x''"
        with self._translate_errors():
            return [str(path) for (path,) in self._connection.execute(query, (f"/{step}",))]

    def close(self) -> None:
        """Close and so delete the file; afterwards nothing is found or archived."""
        connection, self._connection, self._broken = self._connection, None, True
        if connection is not None:
            connection.close()

    def _select(self, where: str, *values: str) -> list[FinishedAgent]:
        if self._connection is None:
            return []
        query = f"SELECT {_FIELDS} FROM agents WHERE {where} ORDER BY came"
        with self._translate_errors():
            return [FinishedAgent(*row) for row in self._connection.execute(query, values)]

    @contextmanager
    def _translate_errors(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise FinishedAgentsUnreadable(
                f"the finished agents that lie in {self._folder} cannot be read: {error}; "
                "look after the disk, then `swarm resume`"
            ) from error

    def _open(self) -> sqlite3.Connection:
        handle, name = tempfile.mkstemp(prefix="agents-", dir=self._folder)
        os.close(handle)
        try:
            connection = sqlite3.connect(name, isolation_level=None)
            for option in ("locking_mode=EXCLUSIVE", "journal_mode=OFF", "synchronous=OFF",
                           f"cache_size=-{_PAGES_KIB}"):  # fmt: skip
                connection.execute(f"PRAGMA {option}")
            connection.executescript(_SCHEMA)
        finally:
            Path(name).unlink()  # whatever ends this process, no file stays
        self._connection = connection
        return connection


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(AgentSnapshot).decode


def archive_agent(agent: Agent) -> FinishedAgent:
    """This agent as a row, with all that later requests need: no caller sees a difference."""
    plan = agent.plan
    return FinishedAgent(
        path=agent.path,
        parent=plan.parent or "",
        owner=plan.agent_id,
        order=agent.order,
        nickname=plan.nickname,
        is_child=plan.reports and not agent.closed,
        encoded=_encode(agent.snapshot()),
    )


def restore_agent(row: FinishedAgent) -> Agent:
    """The agent as it was archived."""
    kept = _decode(row.encoded)
    agent = Agent.restored(kept, Phase.CLOSED if kept.closed else Phase.ENDED)
    agent.order = row.order
    return agent


_trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # glibc only


def trim_heap() -> None:
    """Return free heap pages to the system, with glibc's malloc_trim where there is one.

    Ten thousand agents that came and went fragment the allocator's heap: without this the process
    would keep almost 2 MB more. Takes about a millisecond, so call it once for many agents.
    """
    if _trim is not None:
        _trim(0)

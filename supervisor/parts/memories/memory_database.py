"""The tables of memories: one SQLite file for each person, with what was learned and its jobs.

Only the memory job and the commands that a person calls write it, one at a time under the lock of
`memory_paths.py`. Deleted content is overwritten (`secure_delete`). Blocks.

Source: Codex's state database (`stage1_outputs`, `jobs`). Differs: facts are rows of their own, so
that a person can see, change and forget a single one; projects have a scope of their own.
"""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from swarm.mailbox.base.errors import SwarmError
from swarm.mailbox.base.foreign_failures import explain_database
from swarm.mailbox.base.private_files import make_own_folders

from .memory_migration import to_version_2

VERSION = 2
_BUSY_S = 5.0
_SCHEMA = """
CREATE TABLE paths (path TEXT PRIMARY KEY, project TEXT NOT NULL);
CREATE TABLE homes (path TEXT PRIMARY KEY, project TEXT NOT NULL);
CREATE TABLE jobs (
  kind TEXT NOT NULL, job_key TEXT NOT NULL, status TEXT NOT NULL, ownership_token TEXT,
  started_at REAL, finished_at REAL, lease_until REAL, retry_at REAL,
  retry_remaining INTEGER NOT NULL, last_error TEXT NOT NULL DEFAULT '',
  input_watermark REAL NOT NULL DEFAULT 0, last_success_watermark REAL NOT NULL DEFAULT 0,
  PRIMARY KEY (kind, job_key));
CREATE TABLE outputs (
  run_id TEXT PRIMARY KEY, project TEXT NOT NULL, cwd TEXT NOT NULL,
  source_updated_at REAL NOT NULL, raw_memory TEXT NOT NULL, summary TEXT NOT NULL,
  slug TEXT NOT NULL, method TEXT NOT NULL, generated_at REAL NOT NULL,
  uses INTEGER NOT NULL DEFAULT 0, last_used REAL,
  selected INTEGER NOT NULL DEFAULT 0, selected_updated_at REAL,
  origin TEXT NOT NULL DEFAULT '', untrusted INTEGER NOT NULL DEFAULT 0);
CREATE INDEX outputs_by_project ON outputs (project, source_updated_at);
CREATE TABLE facts (
  fact_id TEXT PRIMARY KEY, project TEXT NOT NULL, kind TEXT NOT NULL, text TEXT NOT NULL,
  place TEXT NOT NULL, run_id TEXT NOT NULL, created_at REAL NOT NULL,
  uses INTEGER NOT NULL DEFAULT 0, last_used REAL, pinned INTEGER NOT NULL DEFAULT 0,
  stale TEXT NOT NULL DEFAULT '', by_person INTEGER NOT NULL DEFAULT 0,
  origin TEXT NOT NULL DEFAULT '', untrusted INTEGER NOT NULL DEFAULT 0);
CREATE INDEX facts_by_project ON facts (project);
CREATE TABLE fact_runs (
  fact_id TEXT NOT NULL, run_id TEXT NOT NULL, PRIMARY KEY (fact_id, run_id)) WITHOUT ROWID;
CREATE INDEX fact_runs_by_run ON fact_runs (run_id);
CREATE TABLE forgotten (
  project TEXT NOT NULL, whole BLOB NOT NULL, words BLOB NOT NULL,
  PRIMARY KEY (project, whole)) WITHOUT ROWID;
CREATE TABLE left_out (run_id TEXT PRIMARY KEY, why TEXT NOT NULL);
CREATE TABLE written (project TEXT NOT NULL, name TEXT NOT NULL, text TEXT NOT NULL,
  PRIMARY KEY (project, name)) WITHOUT ROWID;
CREATE TABLE spent (day TEXT PRIMARY KEY, tokens INTEGER NOT NULL, usd REAL NOT NULL);
CREATE VIRTUAL TABLE search USING fts5(text, project, kind UNINDEXED, ref UNINDEXED);
"""


class MemoryUnreadable(SwarmError):
    """The database of memories cannot be used; the message says why."""


def open_database(file: Path, *, read_only: bool = False) -> sqlite3.Connection:
    """Open, or make if it is missing. The caller closes it. Raises MemoryUnreadable."""
    try:
        if read_only:
            base = sqlite3.connect(
                f"file:{file}?mode=ro", uri=True, timeout=_BUSY_S, isolation_level=None
            )
        else:
            make_own_folders(file.parent)
            file.touch(mode=0o600)
            base = sqlite3.connect(file, timeout=_BUSY_S, isolation_level=None)
            base.execute("PRAGMA journal_mode = WAL")
        base.row_factory = sqlite3.Row
        base.execute("PRAGMA secure_delete = ON")
        base.execute("PRAGMA synchronous = NORMAL")
        version = base.execute("PRAGMA user_version").fetchone()[0]
        if version == 0 and not read_only:
            with transaction(base):
                if base.execute("PRAGMA user_version").fetchone()[0] == 0:
                    for statement in _SCHEMA.split(";\n"):
                        base.execute(statement)
                    base.execute(f"PRAGMA user_version = {VERSION}")
            version = VERSION
        if version == 1 and not read_only:
            with transaction(base):
                if base.execute("PRAGMA user_version").fetchone()[0] == 1:
                    to_version_2(base)
                    base.execute(f"PRAGMA user_version = {VERSION}")
            version = VERSION
    except sqlite3.Error as error:
        raise MemoryUnreadable(_unreadable(file, error)) from error
    except OSError as error:
        raise MemoryUnreadable(f"{file} cannot be made: {error.strerror}") from error
    if version != VERSION:
        base.close()
        raise MemoryUnreadable(
            f"{file} is of another version of swarm ({version}, this is {VERSION}); use that "
            "version, or move the file away"
        )
    return base


@contextmanager
def using_database(file: Path, *, read_only: bool = False) -> Iterator[sqlite3.Connection]:
    """An open database, whose failures are told as such. Raises MemoryUnreadable."""
    with closing(open_database(file, read_only=read_only)) as base:
        try:
            yield base
        except sqlite3.Error as error:
            raise MemoryUnreadable(_unreadable(file, error)) from error


def _unreadable(file: Path, error: sqlite3.Error) -> str:
    words = explain_database(error, file=str(file)) or f"{file} cannot be used: {error}"
    return f"{words}. The notes beside it ({file.parent}/*/MEMORY.md) stay readable"


@contextmanager
def transaction(base: sqlite3.Connection) -> Iterator[None]:
    """All of it, or nothing."""
    base.execute("BEGIN IMMEDIATE")
    try:
        yield
    except BaseException:
        base.execute("ROLLBACK")
        raise
    base.execute("COMMIT")


def wipe(base: sqlite3.Connection) -> None:
    """Remove what was deleted from the full-text index and the write-ahead log as well."""
    base.execute("INSERT INTO search (search) VALUES ('optimize')")
    base.execute("PRAGMA wal_checkpoint(TRUNCATE)")

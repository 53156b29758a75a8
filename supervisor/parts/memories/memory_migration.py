"""Brings a database of memories of an older version up to date. Blocks.

Version 1 knew a repository by its first commit, so that any clone or fork read and added to one
set. Each such set now belongs to one folder, the one where most of it was learned; what was learned
in other folders is kept, marked as untrusted, and not told until the person pins it.
"""

import sqlite3

from .memory_facts import GLOBAL

_COLUMNS = (
    "ALTER TABLE facts ADD COLUMN origin TEXT NOT NULL DEFAULT ''",
    "ALTER TABLE facts ADD COLUMN untrusted INTEGER NOT NULL DEFAULT 0",
    "ALTER TABLE outputs ADD COLUMN origin TEXT NOT NULL DEFAULT ''",
    "ALTER TABLE outputs ADD COLUMN untrusted INTEGER NOT NULL DEFAULT 0",
    "CREATE TABLE homes (path TEXT PRIMARY KEY, project TEXT NOT NULL)",
)


def to_version_2(base: sqlite3.Connection) -> None:
    """In a transaction of the caller."""
    for statement in _COLUMNS:
        base.execute(statement)
    rows = base.execute("SELECT DISTINCT project FROM paths").fetchall()
    for project in (str(row["project"]) for row in rows):
        if project != GLOBAL:
            _settle(base, project)
    # Of the set for all projects nobody knows where its facts were learned.
    for table in ("facts", "outputs"):
        base.execute(f"UPDATE {table} SET untrusted = 1 WHERE project = ?", (GLOBAL,))


def _settle(base: sqlite3.Connection, project: str) -> None:
    paths = [
        str(row["path"])
        for row in base.execute("SELECT path FROM paths WHERE project = ?", (project,))
    ]
    tops = sorted(path for path in paths if not any(_is_below(path, other) for other in paths))
    runs = base.execute("SELECT run_id, cwd FROM outputs WHERE project = ?", (project,)).fetchall()
    learned = dict.fromkeys(tops, 0)
    origins: dict[str, str] = {}
    for row in runs:
        cwd = str(row["cwd"])
        top = next((one for one in tops if cwd == one or _is_below(cwd, one)), cwd)
        origins[str(row["run_id"])] = top
        learned[top] = learned.get(top, 0) + 1
    home = max(learned, key=lambda top: (learned[top], -len(top)))
    base.execute("INSERT OR REPLACE INTO homes VALUES (?, ?)", (home, project))
    base.execute("DELETE FROM paths WHERE project = ?", (project,))
    base.execute("INSERT OR REPLACE INTO paths VALUES (?, ?)", (home, project))
    for table in ("facts", "outputs"):
        base.execute(f"UPDATE {table} SET origin = ? WHERE project = ?", (home, project))
        for run_id, origin in origins.items():
            if origin != home:
                base.execute(
                    f"UPDATE {table} SET origin = ?, untrusted = 1"
                    " WHERE run_id = ? AND project = ?",
                    (origin, run_id, project),
                )


def _is_below(path: str, other: str) -> bool:
    return path != other and path.startswith(f"{other.rstrip('/')}/")

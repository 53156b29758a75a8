"""What is remembered: outputs of runs, facts, what was forgotten, and what it cost. Blocks.

Times are Unix seconds. Nothing here reads a run or asks a model.
"""

import sqlite3
from collections.abc import Iterable
from typing import NamedTuple

from .fact_table import FactTable
from .memory_database import transaction, wipe
from .memory_facts import Fact, Output
from .memory_jobs import Claim, MemoryJobs

_PRUNE_MOST = 200


class Spent(NamedTuple):
    tokens: int
    usd: float


class MemoryStore:
    """`base`: see `memory_database.open_database`; the caller closes it."""

    def __init__(self, base: sqlite3.Connection) -> None:
        self._base = base
        self.jobs = MemoryJobs(base)
        self.facts = FactTable(base, self.jobs, self._forget_in_texts)

    # --- extraction -----------------------------------------------------------------------------

    def finish_extraction(
        self, claim: Claim, output: Output | None, facts: Iterable[Fact], *, now: float
    ) -> bool:
        """Replace what the run gave before; False: the claim is lost and nothing was written.

        `output` None: the run gave nothing worth keeping.
        """
        with transaction(self._base):
            if not self.jobs.succeed(claim, now):
                return False
            before = self.output(claim.key)
            self._drop_run(claim.key)
            self._base.execute("DELETE FROM left_out WHERE run_id = ?", (claim.key,))
            if output is not None:
                self._add_output(output, before, now)
                for fact in facts:
                    self.facts.learn(fact, claim.key)
            for project in {one.project for one in (before, output) if one is not None}:
                self.jobs.request_consolidation(project, claim.watermark)
        return True

    def leave_out(self, claim: Claim, why: str, *, now: float) -> bool:
        """The run is no source of memories, and nothing of it stays. False: the claim is lost."""
        with transaction(self._base):
            if not self.jobs.succeed(claim, now):
                return False
            before = self.output(claim.key)
            self._drop_run(claim.key)
            self._base.execute("INSERT OR REPLACE INTO left_out VALUES (?, ?)", (claim.key, why))
            if before is not None:
                self.jobs.request_consolidation(before.project, claim.watermark)
        return True

    def left_out(self) -> dict[str, str]:
        """Runs that are no source, and why."""
        rows = self._base.execute("SELECT run_id, why FROM left_out ORDER BY run_id")
        return {row["run_id"]: row["why"] for row in rows}

    def note_uses(self, fact_ids: Iterable[str], now: float) -> None:
        """A run has used these memories, so they come further up."""
        with transaction(self._base):
            for name in set(fact_ids):
                if (fact := self.facts.find(name)) is None:
                    continue
                self.jobs.request_consolidation(fact.project, now)
                self._base.execute(
                    "UPDATE facts SET uses = uses + 1, last_used = ? WHERE fact_id = ?", (now, name)
                )
                self._base.execute(
                    "UPDATE outputs SET uses = uses + 1, last_used = ? WHERE run_id IN"
                    " (SELECT run_id FROM fact_runs WHERE fact_id = ?)",
                    (now, name),
                )

    def mark_stale(self, name: str, why: str, now: float) -> bool:
        """An agent found that a memory is not true any more. A pinned one stays as it is."""
        with transaction(self._base):
            fact = self.facts.find(name)
            if fact is None or fact.pinned:
                return False
            self._base.execute("UPDATE facts SET stale = ? WHERE fact_id = ?", (why, name))
            self.jobs.request_consolidation(fact.project, now)
        return True

    # --- consolidation --------------------------------------------------------------------------

    def select(self, project: str, *, most: int, used_since: float) -> tuple[Output, ...]:
        """The outputs that count: the most used ones first, none that was not used since then."""
        rows = self._base.execute(
            "SELECT * FROM outputs WHERE project = ?"
            " AND coalesce(last_used, source_updated_at) >= ? ORDER BY uses DESC,"
            " coalesce(last_used, source_updated_at) DESC, source_updated_at DESC, run_id DESC"
            " LIMIT ?",
            (project, used_since, most),
        )
        return tuple(_output(row) for row in rows)

    def finish_consolidation(
        self, claim: Claim, chosen: Iterable[Output], written: dict[str, str], *, now: float
    ) -> bool:
        """The files were written from exactly these outputs. False: the claim is lost."""
        with transaction(self._base):
            if not self.jobs.succeed(claim, now):
                return False
            self._base.execute("UPDATE outputs SET selected = 0 WHERE project = ?", (claim.key,))
            for one in chosen:
                self._base.execute(
                    "UPDATE outputs SET selected = 1, selected_updated_at = source_updated_at"
                    " WHERE run_id = ? AND source_updated_at = ?",
                    (one.run_id, one.updated_at),
                )
            self.note_written(claim.key, written)
        return True

    def note_written(self, project: str, written: dict[str, str]) -> None:
        """What the files of a project hold now, to tell a person's edits. In a transaction."""
        for name, text in written.items():
            self._base.execute(
                "INSERT OR REPLACE INTO written VALUES (?, ?, ?)", (project, name, text)
            )

    def remember_written(self, project: str, written: dict[str, str]) -> None:
        """The files were written outside of a consolidation."""
        with transaction(self._base):
            self.note_written(project, written)

    def written(self, project: str) -> dict[str, str]:
        rows = self._base.execute("SELECT name, text FROM written WHERE project = ?", (project,))
        return {row["name"]: row["text"] for row in rows}

    def prune(self, *, unused_since: float) -> int:
        """Remove outputs that nobody used since then, the oldest first; returns how many."""
        with transaction(self._base):
            rows = self._base.execute(
                "SELECT run_id FROM outputs WHERE selected = 0 AND"
                " coalesce(last_used, source_updated_at) < ?"
                " ORDER BY coalesce(last_used, source_updated_at) LIMIT ?",
                (unused_since, _PRUNE_MOST),
            ).fetchall()
            for row in rows:
                self._drop_run(row["run_id"])
        return len(rows)

    def search(self, project: str, words: Iterable[str], most: int) -> tuple[Fact | Output, ...]:
        """What the full-text index finds of a project for any of these words, the best first.

        `words` consist of letters and digits.
        """
        wanted = " OR ".join(f'"{word}"' for word in words)
        rows = self._base.execute(
            "SELECT kind, ref FROM search WHERE search MATCH ? ORDER BY rank LIMIT ?",
            (f'project : "{project}" AND text : ({wanted})', most),
        ).fetchall()
        found = (
            self.facts.find(row["ref"]) if row["kind"] == "fact" else self.output(row["ref"])
            for row in rows
        )
        return tuple(one for one in found if one is not None)

    # --- runs, projects, cost -------------------------------------------------------------------

    def output(self, run_id: str) -> Output | None:
        row = self._base.execute("SELECT * FROM outputs WHERE run_id = ?", (run_id,)).fetchone()
        return None if row is None else _output(row)

    def outputs(self, project: str | None = None) -> tuple[Output, ...]:
        """Newest first."""
        where, values = ("", ()) if project is None else (" WHERE project = ?", (project,))
        rows = self._base.execute(
            f"SELECT * FROM outputs{where} ORDER BY source_updated_at DESC, run_id DESC",
            values,
        )
        return tuple(_output(row) for row in rows)

    def add_output(self, output: Output, *, now: float) -> bool:
        """An output of another machine; False: what is known here is as new."""
        with transaction(self._base):
            before = self.output(output.run_id)
            if before is not None and before.updated_at >= output.updated_at:
                return False
            self._base.execute("DELETE FROM outputs WHERE run_id = ?", (output.run_id,))
            self._add_output(output, before, now)
            self.jobs.request_consolidation(output.project, now)
        return True

    def remove_run(self, run_id: str, now: float) -> bool:
        """Remove what only this run gave. False: it gave nothing."""
        with transaction(self._base):
            before = self.output(run_id)
            if before is None:
                return False
            self._drop_run(run_id)
            self.jobs.request_consolidation(before.project, now)
        wipe(self._base)
        return True

    def home_of(self, project: str) -> str:
        """The folder to which a project belongs; "" if it has no folder, as the set of all."""
        rows = self._base.execute(
            "SELECT path FROM homes WHERE project = ? ORDER BY rowid LIMIT 1", (project,)
        ).fetchone()
        return "" if rows is None else str(rows["path"])

    def project_at(self, top: str) -> str | None:
        """The project of a folder that has one, as its home or by a link."""
        row = self._base.execute("SELECT project FROM homes WHERE path = ?", (top,)).fetchone()
        return None if row is None else str(row["project"])

    def settle(self, top: str, project: str) -> None:
        """The project's home is this folder, if it has none; another one becomes linked to it."""
        self._base.execute("INSERT OR REPLACE INTO homes VALUES (?, ?)", (top, project))

    def unlink(self, top: str) -> None:
        """The folder has memories of its own from now on."""
        self._base.execute("DELETE FROM homes WHERE path = ?", (top,))
        self._base.execute("DELETE FROM paths WHERE path = ?", (top,))

    def project_of(self, path: str) -> str | None:
        row = self._base.execute("SELECT project FROM paths WHERE path = ?", (path,)).fetchone()
        return None if row is None else str(row["project"])

    def know_path(self, path: str, project: str) -> None:
        self._base.execute("INSERT OR REPLACE INTO paths VALUES (?, ?)", (path, project))

    def paths_of(self, project: str) -> tuple[str, ...]:
        rows = self._base.execute(
            "SELECT path FROM paths WHERE project = ? ORDER BY path", (project,)
        )
        return tuple(row["path"] for row in rows)

    def projects(self) -> tuple[str, ...]:
        rows = self._base.execute(
            "SELECT project FROM facts UNION SELECT project FROM outputs UNION"
            " SELECT project FROM written ORDER BY 1"
        )
        return tuple(row["project"] for row in rows)

    def spent(self, day: str) -> Spent:
        """What models were paid for memories on a day (`2026-01-31`)."""
        row = self._base.execute("SELECT tokens, usd FROM spent WHERE day = ?", (day,)).fetchone()
        return Spent(0, 0.0) if row is None else Spent(row["tokens"], row["usd"])

    def spend(self, day: str, tokens: int, usd: float) -> None:
        self._base.execute(
            "INSERT INTO spent VALUES (?, ?, ?) ON CONFLICT (day) DO UPDATE SET"
            " tokens = tokens + excluded.tokens, usd = usd + excluded.usd",
            (day, tokens, usd),
        )

    # --- within a transaction -------------------------------------------------------------------

    def _add_output(self, output: Output, before: Output | None, now: float) -> None:
        uses, last_used = (0, None) if before is None else (before.uses, before.last_used)
        selected = before is not None and before.is_selected
        mark = None if before is None else before.selected_updated_at
        forgotten = self.facts.forgotten(output.project)
        raw, summary, slug = map(
            forgotten.without, (output.raw_memory, output.summary, output.slug)
        )
        self._base.execute(
            "INSERT INTO outputs VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (output.run_id, output.project, output.cwd, output.updated_at, raw, summary,
             slug, output.method, now, uses, last_used, selected, mark,
             output.origin, output.untrusted),
        )  # fmt: skip
        self.facts.index("run", output.run_id, output.project, f"{slug} {summary}")

    def _drop_run(self, run_id: str) -> None:
        """Remove a run's output, and facts that no other run and no person stands for."""
        self._base.execute("DELETE FROM outputs WHERE run_id = ?", (run_id,))
        self._base.execute("DELETE FROM search WHERE ref = ?", (run_id,))
        alone = self._base.execute(
            "SELECT facts.fact_id FROM facts JOIN fact_runs USING (fact_id)"
            " WHERE fact_runs.run_id = ? AND pinned = 0 AND by_person = 0 AND NOT EXISTS"
            " (SELECT 1 FROM fact_runs AS other WHERE other.fact_id = facts.fact_id"
            "  AND other.run_id <> ?)",
            (run_id, run_id),
        ).fetchall()
        for row in alone:
            self.facts.remove(row["fact_id"])
        self._base.execute("DELETE FROM fact_runs WHERE run_id = ?", (run_id,))

    def _forget_in_texts(self, project: str) -> None:
        forgotten = self.facts.forgotten(project)
        for output in self.outputs(project):
            texts = (output.raw_memory, output.summary, output.slug)
            kept = tuple(map(forgotten.without, texts))
            if kept != texts:
                self._base.execute(
                    "UPDATE outputs SET raw_memory = ?, summary = ?, slug = ? WHERE run_id = ?",
                    (*kept, output.run_id),
                )
                self.facts.index("run", output.run_id, project, f"{kept[2]} {kept[1]}")
        for name, text in self.written(project).items():
            self.note_written(project, {name: forgotten.without(text)})


def _output(row: sqlite3.Row) -> Output:
    return Output(
        run_id=row["run_id"], project=row["project"], cwd=row["cwd"],
        updated_at=row["source_updated_at"], raw_memory=row["raw_memory"], summary=row["summary"],
        slug=row["slug"], method=row["method"], uses=row["uses"], last_used=row["last_used"],
        is_selected=bool(row["selected"]), selected_updated_at=row["selected_updated_at"],
        origin=row["origin"], untrusted=bool(row["untrusted"]),
    )  # fmt: skip

"""The facts that are remembered, what was forgotten, and the index for searches. Blocks.

Times are Unix seconds.
"""

import sqlite3
from collections.abc import Callable, Iterable, Sequence

import msgspec

from .memory_database import transaction, wipe
from .memory_facts import Fact, FactKind, Forgotten, forget_marks, is_near, make_fact
from .memory_jobs import MemoryJobs

_MARK_BYTES = 8


class FactTable:
    """Part of a `MemoryStore`.

    Args:
        base: The database.
        jobs: A change of facts asks for a consolidation.
        forget_in_texts: Removes from all other texts of a project what is forgotten now.
    """

    def __init__(
        self, base: sqlite3.Connection, jobs: MemoryJobs, forget_in_texts: Callable[[str], None]
    ) -> None:
        self._base, self._jobs, self._forget_in_texts = base, jobs, forget_in_texts

    def find(self, name: str) -> Fact | None:
        row = self._base.execute(f"{_FACTS} WHERE facts.fact_id = ? {_GROUP}", (name,)).fetchone()
        return None if row is None else _fact(row)

    def all(self, project: str | None = None) -> tuple[Fact, ...]:
        """All facts, of one project or of all: pinned ones first, then the most and last used."""
        where, values = ("", ()) if project is None else (" WHERE facts.project = ?", (project,))
        rows = self._base.execute(
            f"{_FACTS}{where} {_GROUP} ORDER BY pinned DESC, uses DESC,"
            " coalesce(last_used, created_at) DESC, facts.fact_id",
            values,
        )
        return tuple(_fact(row) for row in rows)

    def add_note(self, project: str, text: str, *, now: float, kind: FactKind = "note") -> Fact:
        """What a person wrote: pinned, and no longer forgotten."""
        made = make_fact(project, "note", text, now=now)
        fact = msgspec.structs.replace(made, kind=kind, pinned=True, by_person=True)
        with transaction(self._base):
            whole, _ = forget_marks(project, fact.text)
            self._base.execute(
                "DELETE FROM forgotten WHERE project = ? AND whole = ?", (project, whole)
            )
            self.insert(fact)
            self._jobs.request_consolidation(project, now)
        return fact

    def add(self, fact: Fact, runs: Iterable[str], *, now: float) -> bool:
        """A fact of another machine; False: it was forgotten here."""
        if self.forgotten(fact.project).covers(fact.text):
            return False
        with transaction(self._base):
            known = self.find(fact.fact_id)
            if known is not None:
                fact = msgspec.structs.replace(
                    known,
                    uses=max(known.uses, fact.uses),
                    last_used=max(known.last_used or 0.0, fact.last_used or 0.0) or None,
                    created_at=min(known.created_at, fact.created_at),
                    pinned=known.pinned or fact.pinned,
                )
            self.insert(fact)
            self.add_runs(fact.fact_id, runs)
            self._jobs.request_consolidation(fact.project, now)
        return True

    def pin(self, name: str, *, pinned: bool, now: float) -> bool:
        """A pinned fact is never pruned, marked stale or reworded. False: it is not known."""
        with transaction(self._base):
            fact = self.find(name)
            if fact is None:
                return False
            self._base.execute(
                "UPDATE facts SET pinned = ?, stale = CASE ? WHEN 1 THEN '' ELSE stale END"
                " WHERE fact_id = ?",
                (pinned, pinned, name),
            )
            self._jobs.request_consolidation(fact.project, now)
        return True

    def reword(self, name: str, text: str, *, now: float, by_person: bool) -> Fact | None:
        """Give a fact other words, and so another id; its runs and uses stay. None: not known."""
        with transaction(self._base):
            fact = self.find(name)
            if fact is None:
                return None
            new = make_fact(fact.project, fact.kind, text, place=fact.place, run_id=fact.run_id)
            if new.fact_id == name:
                return fact
            runs = self.runs_of(name)
            self.remove(name)
            kept = msgspec.structs.replace(fact, fact_id=new.fact_id, text=new.text)
            if by_person:
                kept = msgspec.structs.replace(kept, pinned=True, by_person=True, stale="")
            self.insert(kept)
            self.add_runs(new.fact_id, runs)
            self._jobs.request_consolidation(fact.project, now)
        return self.find(new.fact_id)

    def merge_facts(self, name: str, others: Sequence[str]) -> None:
        """Let one fact stand for others, which say the same; pinned ones stay."""
        with transaction(self._base):
            kept = self.find(name)
            for other in others:
                fact = self.find(other)
                if kept is None or fact is None or fact.pinned or fact.project != kept.project:
                    continue
                self.add_runs(name, self.runs_of(other))
                self._base.execute(
                    "UPDATE facts SET uses = uses + ? WHERE fact_id = ?", (fact.uses, name)
                )
                self.remove(other)

    def forget(self, name: str, *, now: float) -> Fact | None:
        """Remove a fact from every table, with what says the same, and keep it from coming back.

        The files are the caller's. None: it is not known.
        """
        fact = self.find(name)
        if fact is None:
            return None
        whole, words = forget_marks(fact.project, fact.text)
        with transaction(self._base):
            self._base.execute(
                "INSERT OR REPLACE INTO forgotten VALUES (?, ?, ?)",
                (fact.project, whole, b"".join(sorted(words))),
            )
            for other in self.all(fact.project):
                if is_near(forget_marks(fact.project, other.text)[1], words):
                    self.remove(other.fact_id)
            self._forget_in_texts(fact.project)
            self._jobs.request_consolidation(fact.project, now)
        wipe(self._base)
        return fact

    def forgotten(self, project: str) -> Forgotten:
        """What a person wanted gone."""
        rows = self._base.execute(
            "SELECT whole, words FROM forgotten WHERE project = ?", (project,)
        )
        return Forgotten(project, tuple((row["whole"], _marks(row["words"])) for row in rows))

    # --- within a transaction -------------------------------------------------------------------

    def learn(self, fact: Fact, run_id: str) -> None:
        if self.forgotten(fact.project).covers(fact.text):
            return
        if self.find(fact.fact_id) is None:
            self.insert(fact)
        else:  # it was found true once more
            if not fact.untrusted:
                self._base.execute(
                    "UPDATE facts SET origin = ?, untrusted = 0 WHERE fact_id = ?",
                    (fact.origin, fact.fact_id),
                )
            self._base.execute(
                "UPDATE facts SET stale = '' WHERE fact_id = ? AND ? > created_at",
                (fact.fact_id, fact.created_at),
            )
        self.add_runs(fact.fact_id, (run_id,))

    def insert(self, fact: Fact) -> None:
        self._base.execute(
            "INSERT OR REPLACE INTO facts VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (fact.fact_id, fact.project, fact.kind, fact.text, fact.place, fact.run_id,
             fact.created_at, fact.uses, fact.last_used, fact.pinned, fact.stale, fact.by_person,
             fact.origin, fact.untrusted),
        )  # fmt: skip
        self.index("fact", fact.fact_id, fact.project, f"{fact.text} {fact.place}")

    def index(self, kind: str, ref: str, project: str, text: str) -> None:
        self._base.execute("DELETE FROM search WHERE ref = ?", (ref,))
        self._base.execute("INSERT INTO search VALUES (?, ?, ?, ?)", (text, project, kind, ref))

    def runs_of(self, name: str) -> tuple[str, ...]:
        rows = self._base.execute(
            "SELECT run_id FROM fact_runs WHERE fact_id = ? ORDER BY run_id", (name,)
        )
        return tuple(row["run_id"] for row in rows)

    def add_runs(self, name: str, runs: Iterable[str]) -> None:
        for run_id in runs:
            self._base.execute("INSERT OR IGNORE INTO fact_runs VALUES (?, ?)", (name, run_id))

    def remove(self, name: str) -> None:
        self._base.execute("DELETE FROM facts WHERE fact_id = ?", (name,))
        self._base.execute("DELETE FROM fact_runs WHERE fact_id = ?", (name,))
        self._base.execute("DELETE FROM search WHERE ref = ?", (name,))


_FACTS = (
    "SELECT facts.*, count(fact_runs.run_id) AS runs FROM facts"
    " LEFT JOIN fact_runs ON fact_runs.fact_id = facts.fact_id"
)
_GROUP = "GROUP BY facts.fact_id"


def _marks(data: bytes) -> frozenset[bytes]:
    return frozenset(data[at : at + _MARK_BYTES] for at in range(0, len(data), _MARK_BYTES))


def _fact(row: sqlite3.Row) -> Fact:
    return Fact(
        fact_id=row["fact_id"], project=row["project"], kind=row["kind"], text=row["text"],
        place=row["place"], run_id=row["run_id"], created_at=row["created_at"], runs=row["runs"],
        uses=row["uses"], last_used=row["last_used"], pinned=bool(row["pinned"]),
        stale=row["stale"], by_person=bool(row["by_person"]),
        origin=row["origin"], untrusted=bool(row["untrusted"]),
    )  # fmt: skip

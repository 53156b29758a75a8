"""The job table: who works on what, until when, and how often it is tried again. Blocks.

Source: Codex's `jobs` table: claims with leases and tokens, watermarks, three retries. A job that
is killed is claimed again when its lease has ended; what a claim that lost its token writes has no
effect.
"""

import sqlite3
from collections.abc import Iterable
from typing import Literal, NamedTuple

from .memory_database import transaction

LEASE_S = 3600.0
RETRY_S = 3600.0
RETRIES = 3
EXTRACT, CONSOLIDATE = "memory_extract", "memory_consolidate"

Skip = Literal["up to date", "running", "retry later", "no retries left"]


class Claim(NamedTuple):
    kind: str
    key: str
    token: str
    watermark: float  # of the input; it is the success watermark in the end


class MemoryJobs:
    """`base`: see `memory_database.open_database`. Times are Unix seconds."""

    def __init__(self, base: sqlite3.Connection) -> None:
        self._base = base

    def is_extracted(self, run_id: str, updated_at: float) -> bool:
        """True if nothing of the run is new since its last extraction."""
        row = self._find(EXTRACT, run_id)
        return row is not None and row["last_success_watermark"] >= updated_at

    def claim_extraction(
        self, run_id: str, updated_at: float, *, token: str, now: float
    ) -> Claim | Skip:
        """Claim the extraction of one run, whose journal ended at `updated_at`."""
        with transaction(self._base):
            row = self._find(EXTRACT, run_id)
            if row is not None:
                if row["last_success_watermark"] >= updated_at:
                    return "up to date"
                if why := _why_not(row, updated_at, now):
                    return why
            is_newer = row is None or updated_at > row["input_watermark"]
            retries = RETRIES if is_newer or row is None else row["retry_remaining"]
            self._take(Claim(EXTRACT, run_id, token, updated_at), retries, now)
        return Claim(EXTRACT, run_id, token, updated_at)

    def request_consolidation(self, project: str, watermark: float) -> None:
        """The memories of a project are to be consolidated again. Within a transaction."""
        row = self._find(CONSOLIDATE, project)
        before = 0.0 if row is None else row["input_watermark"]
        mark = max(watermark, before) if watermark > before else before + 1
        self._base.execute(
            "INSERT INTO jobs (kind, job_key, status, retry_remaining, input_watermark)"
            " VALUES (?, ?, 'pending', ?, ?) ON CONFLICT (kind, job_key) DO UPDATE SET"
            " status = CASE status WHEN 'running' THEN 'running' ELSE 'pending' END,"
            " retry_remaining = max(retry_remaining, excluded.retry_remaining),"
            " retry_at = NULL, input_watermark = excluded.input_watermark",
            (CONSOLIDATE, project, RETRIES, mark),
        )

    def waiting_projects(self) -> tuple[str, ...]:
        """Projects whose memories have changed since they were consolidated."""
        rows = self._base.execute(
            "SELECT job_key FROM jobs WHERE kind = ? AND input_watermark > last_success_watermark"
            " ORDER BY job_key",
            (CONSOLIDATE,),
        )
        return tuple(row["job_key"] for row in rows)

    def claim_consolidation(self, project: str, *, token: str, now: float) -> Claim | Skip:
        """Claim the consolidation of one project."""
        with transaction(self._base):
            row = self._find(CONSOLIDATE, project)
            if row is None or row["input_watermark"] <= row["last_success_watermark"]:
                return "up to date"
            if why := _why_not(row, row["input_watermark"], now):
                return why
            claim = Claim(CONSOLIDATE, project, token, row["input_watermark"])
            self._take(claim, row["retry_remaining"], now)
        return claim

    def succeed(self, claim: Claim, now: float) -> bool:
        """Within a transaction. False: the claim is lost, and nothing must be written for it."""
        return self._update(
            claim,
            "status = 'done', finished_at = ?, lease_until = NULL, retry_at = NULL,"
            " last_error = '', last_success_watermark = max(last_success_watermark, ?)",
            now,
            claim.watermark,
        )

    def fail(self, claim: Claim, error: str, now: float) -> bool:
        with transaction(self._base):
            return self._update(
                claim,
                "status = 'error', finished_at = ?, lease_until = NULL, retry_at = ?,"
                " retry_remaining = retry_remaining - 1, last_error = ?",
                now,
                now + RETRY_S,
                error[:500],
            )

    def extract_again(self, run_ids: Iterable[str]) -> None:
        """Let these runs be claimed once more, though nothing of them is new."""
        with transaction(self._base):
            self._base.executemany(
                "UPDATE jobs SET last_success_watermark = 0 WHERE kind = ? AND job_key = ?",
                [(EXTRACT, run_id) for run_id in run_ids],
            )

    def release_dead(self) -> None:
        """Under the lock of who writes: what still runs is of a process that was killed."""
        with transaction(self._base):
            self._base.execute(
                "UPDATE jobs SET status = 'pending', lease_until = NULL, ownership_token = NULL"
                " WHERE status = 'running'"
            )

    def failures(self) -> tuple[tuple[str, str, str], ...]:
        """Kind, key and words of each job whose last try failed."""
        rows = self._base.execute(
            "SELECT kind, job_key, last_error FROM jobs WHERE status = 'error' ORDER BY job_key"
        )
        return tuple((row["kind"], row["job_key"], row["last_error"]) for row in rows)

    def _find(self, kind: str, key: str) -> sqlite3.Row | None:
        found = self._base.execute("SELECT * FROM jobs WHERE kind = ? AND job_key = ?", (kind, key))
        row: sqlite3.Row | None = found.fetchone()
        return row

    def _take(self, claim: Claim, retries: int, now: float) -> None:
        self._base.execute(
            "INSERT INTO jobs (kind, job_key, status, ownership_token, started_at, lease_until,"
            " retry_remaining, input_watermark) VALUES (?, ?, 'running', ?, ?, ?, ?, ?)"
            " ON CONFLICT (kind, job_key) DO UPDATE SET status = 'running',"
            " ownership_token = excluded.ownership_token, started_at = excluded.started_at,"
            " lease_until = excluded.lease_until, retry_at = NULL,"
            " retry_remaining = excluded.retry_remaining,"
            " input_watermark = excluded.input_watermark",
            (claim.kind, claim.key, claim.token, now, now + LEASE_S, retries, claim.watermark),
        )

    def _update(self, claim: Claim, what: str, *values: object) -> bool:
        done = self._base.execute(
            f"UPDATE jobs SET {what} WHERE kind = ? AND job_key = ? AND status = 'running'"
            " AND ownership_token = ?",
            (*values, claim.kind, claim.key, claim.token),
        )
        return done.rowcount == 1


def _why_not(row: sqlite3.Row, watermark: float, now: float) -> Skip | None:
    """Why a job cannot be taken now. A lease that lies further ahead than one can be has ended:
    the clock went back.
    """
    lease = row["lease_until"]
    if row["status"] == "running" and lease is not None and now < lease <= now + LEASE_S:
        return "running"
    if watermark > row["input_watermark"]:
        return None
    if row["retry_remaining"] <= 0:
        return "no retries left"
    retry_at = row["retry_at"]
    if retry_at is not None and now < retry_at <= now + RETRY_S:
        return "retry later"
    return None

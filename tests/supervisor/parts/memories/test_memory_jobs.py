"""The job table under crashes, lost leases, two jobs and a clock that goes back."""

import sqlite3
import tempfile
from pathlib import Path

import hypothesis.strategies as st
import pytest
from hypothesis import settings
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from swarm.supervisor.parts.memories.memory_database import open_database, transaction
from swarm.supervisor.parts.memories.memory_jobs import (
    CONSOLIDATE,
    LEASE_S,
    RETRIES,
    RETRY_S,
    Claim,
    MemoryJobs,
)

RUNS = ("run-a", "run-b")


@pytest.fixture
def base(tmp_path: Path):
    opened = open_database(tmp_path / "m.sqlite")
    yield opened
    opened.close()


@pytest.fixture
def jobs(base: sqlite3.Connection) -> MemoryJobs:
    return MemoryJobs(base)


def claim(jobs: MemoryJobs, run="run-a", at=10.0, token="t", now=100.0):
    return jobs.claim_extraction(run, at, token=token, now=now)


def succeed(base, jobs, taken, now=101.0) -> bool:
    with transaction(base):
        return jobs.succeed(taken, now)


def test_a_run_is_extracted_once_and_again_when_it_has_gone_on(base, jobs):
    taken = claim(jobs)
    assert isinstance(taken, Claim)
    assert claim(jobs, token="u") == "running"
    assert succeed(base, jobs, taken)
    assert claim(jobs, token="u") == "up to date"
    assert isinstance(claim(jobs, at=11.0, token="u"), Claim)


def test_a_job_that_failed_is_tried_three_times_an_hour_apart(jobs):
    now = 100.0
    for _ in range(RETRIES):
        taken = claim(jobs, now=now)
        assert isinstance(taken, Claim)
        assert jobs.fail(taken, "why", now)
        assert claim(jobs, now=now + 1) in ("retry later", "no retries left")
        now += RETRY_S + 1
    assert claim(jobs, now=now) == "no retries left"
    assert isinstance(claim(jobs, at=12.0, now=now), Claim)


def test_who_lost_its_claim_writes_nothing(base, jobs):
    old = claim(jobs)
    new = claim(jobs, token="u", now=100.0 + LEASE_S + 1)
    assert isinstance(old, Claim)
    assert isinstance(new, Claim)
    assert not succeed(base, jobs, old)
    assert not jobs.fail(old, "why", 1.0)
    assert succeed(base, jobs, new)


def test_a_request_while_it_is_consolidated_makes_it_wait_again(base, jobs):
    with transaction(base):
        jobs.request_consolidation("p", 5.0)
    taken = jobs.claim_consolidation("p", token="t", now=1.0)
    with transaction(base):
        jobs.request_consolidation("p", 5.0)
    assert isinstance(taken, Claim)
    assert succeed(base, jobs, taken)
    assert jobs.waiting_projects() == ("p",)
    again = jobs.claim_consolidation("p", token="u", now=2.0)
    assert isinstance(again, Claim)
    assert succeed(base, jobs, again)
    assert jobs.waiting_projects() == ()


def test_a_job_that_was_killed_is_taken_at_once_by_who_holds_the_lock(jobs):
    claim(jobs)
    jobs.release_dead()
    assert isinstance(claim(jobs, token="u"), Claim)


class JobMachine(RuleBasedStateMachine):
    """Two jobs that share a table; either may die, and the clock may go back."""

    @initialize()
    def start(self) -> None:
        self.folder = tempfile.TemporaryDirectory()
        self.base = open_database(Path(self.folder.name, "m.sqlite"))
        self.jobs = MemoryJobs(self.base)
        self.now, self.tokens = 1000.0, 0
        self.updated = dict.fromkeys(RUNS, 1.0)
        self.held: list[Claim] = []
        self.newest: dict[tuple[str, str], str] = {}  # who claimed last
        self.done: dict[tuple[str, str], float] = {}

    def teardown(self) -> None:
        self.base.close()
        self.folder.cleanup()

    @rule(run=st.sampled_from(RUNS))
    def a_run_goes_on(self, run: str) -> None:
        self.updated[run] += 1

    @rule(seconds=st.sampled_from((-7200.0, -1.0, 1.0, 1800.0, LEASE_S + 1, 3 * LEASE_S)))
    def time_passes(self, seconds: float) -> None:
        self.now += seconds

    @rule(run=st.sampled_from(RUNS))
    def claim_run(self, run: str) -> None:
        self._note(
            self.jobs.claim_extraction(run, self.updated[run], token=self._token(), now=self.now)
        )

    @rule()
    def request(self) -> None:
        with transaction(self.base):
            self.jobs.request_consolidation("p", self.now)

    @rule()
    def claim_project(self) -> None:
        self._note(self.jobs.claim_consolidation("p", token=self._token(), now=self.now))

    @precondition(lambda self: self.held)
    @rule(data=st.data(), ends=st.sampled_from(("succeeds", "fails", "dies")))
    def a_claim_ends(self, data: st.DataObject, ends: str) -> None:
        at = data.draw(st.integers(0, len(self.held) - 1))
        taken = self.held[at]
        is_owner = self.newest.get((taken.kind, taken.key)) == taken.token
        self.held.pop(at)
        if ends == "dies":
            return
        if ends == "fails":
            assert self.jobs.fail(taken, "x", self.now) is is_owner
        else:
            with transaction(self.base):
                assert self.jobs.succeed(taken, self.now) is is_owner
            if is_owner:
                self.done[taken.kind, taken.key] = taken.watermark
        if is_owner:
            del self.newest[taken.kind, taken.key]

    @rule()
    def another_job_takes_the_lock(self) -> None:
        self.jobs.release_dead()
        self.newest.clear()

    @invariant()
    def what_succeeded_is_never_taken_back(self) -> None:
        for (kind, key), mark in getattr(self, "done", {}).items():
            row = self.base.execute(
                "SELECT last_success_watermark FROM jobs WHERE kind = ? AND job_key = ?",
                (kind, key),
            ).fetchone()
            assert row[0] >= mark

    @invariant()
    def whoever_holds_a_claim_is_the_one_that_the_table_names(self) -> None:
        for (kind, key), token in getattr(self, "newest", {}).items():
            row = self.base.execute(
                "SELECT status, ownership_token FROM jobs WHERE kind = ? AND job_key = ?",
                (kind, key),
            ).fetchone()
            assert tuple(row) == ("running", token)

    def _token(self) -> str:
        self.tokens += 1
        return f"token-{self.tokens}"

    def _note(self, taken: object) -> None:
        if isinstance(taken, Claim):
            key = (taken.kind, taken.key)
            assert self.done.get(key, 0.0) < taken.watermark or taken.kind == CONSOLIDATE
            self.held.append(taken)
            self.newest[key] = taken.token


JobMachine.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
TestJobMachine = JobMachine.TestCase

"""Batch jobs: one worker for each row of a table, in order, as slots come free.

Rule guarded: memory holds the workers of now; rows and results stay on disk. What was cut off by
the end of the supervisor, of the asker's process or at a bound of the run goes on where it stopped.
Source: Codex `spawn_agents_on_csv`; that a job outlives its call is ours.
"""

import csv
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import IO

import msgspec
import trio

from swarm.mailbox.protocol.control import Passed
from swarm.mailbox.protocol.events import Waiting
from swarm.mailbox.protocol.records import JobBegan, JobClosed
from swarm.mailbox.protocol.requests import (
    AnyReply,
    JobEnded,
    ReportJobResult,
    Spawn,
    SpawnOnCsv,
)

from ..agents import LiveAgent
from ..birth import hidden_paths
from ..control import Control
from ..journal.reading import read_records
from ..running import Running
from ..spawner.base import SpawnError
from .births import NO_ROOM, Births
from .csv_rows import (
    Row,
    Spool,
    Table,
    check_table,
    output_for,
    write_results,
)
from .inherit import NotPossible, plan_child, role_for
from .job import Fate, Item, Job, JobStatus, open_job, report_result
from .job_files import Reach, ResultsPlace, TableFile
from .job_past import CutOff, rows_done
from .member import Member
from .team import Team

MOST_WORKERS = 64
_USUAL_WORKERS = 16
_RUNTIME_S = 1_800
_DEPTH = "agent depth limit reached; this session cannot spawn more subagents"
_NOT_REPORTED = "worker finished without calling report_agent_job_result"


class Jobs:
    """Runs jobs, each in the task of whoever calls `run` or `go_on`."""

    def __init__(
        self,
        running: Running,
        control: Control,
        team: Team,
        births: Births,
        nursery: trio.Nursery,
    ) -> None:
        self._run, self._control, self._team = running, control, team
        self._births, self._nursery = births, nursery
        request = running.request  # its folders, before any command could put links in their place
        self._roots = {one: os.path.realpath(one) for one in (request.cwd, *request.add_dirs)}
        self._jobs: dict[str, Job] = {}
        self.on_cut_off: Callable[[CutOff], None] = lambda job: None  # its fate is `now`

    async def run(self, asker: Member, wish: SpawnOnCsv) -> AnyReply:
        """From the table to the results; raises NotPossible before anything is started."""
        if asker.plan.depth + 1 > asker.plan.limits.max_depth:
            raise NotPossible(_DEPTH)
        if self._run.registry.max_agents == 1:
            raise NotPossible(NO_ROOM)
        if not wish.instruction.strip():
            raise NotPossible("instruction must be non-empty")
        if wish.max_runtime_seconds is not None and wish.max_runtime_seconds < 1:
            raise NotPossible("max_runtime_seconds must be at least 1")
        source = Path(asker.plan.cwd) / wish.csv_path
        with closing(TableFile(source, self._reach(asker).may_read)) as file:
            table = await _checked(file, wish)
            job_id = self._run.chances.new_id()
            output = Path(asker.plan.cwd) / output_for(source, wish.output_csv_path, job_id=job_id)
            began = JobBegan(
                job_id=job_id, wish=wish, headers=table.headers, rows=table.rows, output=str(output)
            )
            return JobEnded(summary=await self._do(asker, began, table, file))

    async def go_on(self, asker: Member, cut_off: CutOff) -> bytes:
        """The rest of a job; its summary. Raises NotPossible: its table is another one now."""
        began = cut_off.began
        try:
            source = Path(asker.plan.cwd) / began.wish.csv_path
            with closing(TableFile(source, self._reach(asker).may_read)) as file:
                table = await _checked(file, began.wish)
                if (table.headers, table.rows) != (began.headers, began.rows):
                    raise NotPossible(f"the table {table.path} was changed")
                again = msgspec.structs.replace(began, attempt=began.attempt + 1)
                return await self._do(asker, again, table, file)
        except NotPossible:
            self.close(asker.path, began.job_id, "failed")
            raise

    def destine(self, fate: Fate, *, asker: str | None = None) -> None:
        """What becomes of the jobs that this agent's calls wait for, when they are cut off next.

        None: of all jobs, also of those that go on by themselves.
        """
        for job in self._jobs.values():
            if asker is None or (job.is_called and job.asker == asker):
                job.destine(fate)

    def report(self, asker: Member, wish: ReportJobResult) -> AnyReply:
        """Take a worker's result."""
        return report_result(self._jobs, asker.path, wish)

    # --- one job -------------------------------------------------------------------------------

    def _reach(self, asker: Member) -> Reach:
        """What the asker's own commands may read and write."""
        plan = asker.plan
        folders = (plan.cwd, *plan.add_dirs)
        return Reach(
            sandbox=plan.limits.sandbox,
            roots=tuple(self._roots.get(one) or os.path.realpath(one) for one in folders),
            hidden=tuple(map(os.path.realpath, hidden_paths(self._run))),
            granted=self._run.grants.permissions_of(plan.path),
        )

    async def _do(self, asker: Member, began: JobBegan, table: Table, file: TableFile) -> bytes:
        with closing(ResultsPlace(Path(began.output), self._reach(asker))) as place:
            return await self._do_rows(asker, began, table, (file, place))

    async def _do_rows(
        self, asker: Member, began: JobBegan, table: Table, files: tuple[TableFile, ResultsPlace]
    ) -> bytes:
        place = files[1]
        with tempfile.TemporaryFile(dir=self._run.places.tmp) as spooled:
            job = open_job(
                table,
                began.wish,
                Spool(spooled, table.rows),
                job_id=began.job_id,
                attempt=began.attempt,
                chances=self._run.chances,
            )
            if began.attempt > 1:
                await trio.to_thread.run_sync(self._remember, job)
            job.asker, job.file = asker.path, files[0]
            self._run.note(began, agent=asker.path)
            self._jobs[job.job_id] = job
            is_over = False
            try:
                await self._work_through(asker, job)
                job.fault = job.fault or await self._export(job, place)
                is_over = True
            finally:  # a cancelled nursery's error is a group: no `except` would catch it
                del self._jobs[job.job_id]
                self._run.journal.forget(job.job_id)
                if is_over or job.fate == "cancelled":
                    self.close(asker.path, job.job_id, job.status if is_over else "cancelled")
                elif job.fate == "now":
                    self.on_cut_off(CutOff(began, asker.path))
            return job.summary(place.path)

    def _remember(self, job: Job) -> None:
        job.remember(rows_done(read_records(self._run.places, file=job.job_id)))

    def close(self, asker: str, job_id: str, status: JobStatus) -> None:
        """Nothing of this job will run any more."""
        self._run.note(JobClosed(job_id=job_id, status=status), agent=asker)

    async def _work_through(self, asker: Member, job: Job) -> None:
        most = self._run.registry.max_agents - 1
        workers = min(job.wish.max_concurrency or _USUAL_WORKERS, MOST_WORKERS, most)
        rows = job.rows_to_do()
        try:
            async with trio.open_nursery() as nursery:
                for _ in range(max(1, workers)):
                    nursery.start_soon(self._work, asker, job, rows)
        except* (NotPossible, OSError, UnicodeDecodeError, csv.Error) as group:
            job.fault = f"the table changed while it was read: {group.exceptions[0]}"

    async def _export(self, job: Job, place: ResultsPlace) -> str | None:
        """Write the results; returns why not."""

        def write(target: IO[bytes]) -> None:
            assert job.file is not None  # it was read to the end just now
            write_results(target, job.file, job.table, job.spool, id_column=job.wish.id_column)

        try:
            await trio.to_thread.run_sync(place.write, write)
        except (OSError, NotPossible, UnicodeDecodeError, csv.Error) as error:
            return f"failed to write {place.path}: {error}"
        return None

    async def _work(self, asker: Member, job: Job, rows: Iterator[Row]) -> None:
        for row in rows:
            if job.stopping:
                return
            item = job.begin(row, asker.path)
            ended = job.finish(item, await self._one_row(asker, job, item))
            self._run.note(ended, agent=asker.path, file=job.job_id)
            self._show(asker, job)

    # --- one row -------------------------------------------------------------------------------

    async def _one_row(self, asker: Member, job: Job, item: Item) -> str | None:
        """Why the row failed; None if it did not."""
        member = self._enlist(asker, job, item)
        limit_s = job.wish.max_runtime_seconds or self._run.request.job_seconds or _RUNTIME_S
        ended_in_time = False
        try:
            show = partial(self._show_place, item.path)
            life = await self._births.bring_forth(member, None, on_place=show)
        except BaseException as error:
            member.beginning = False
            self._births.withdraw(member, "it was never started")
            if isinstance(error, SpawnError):
                return f"failed to spawn worker: {error}"
            raise
        try:
            with trio.move_on_after(limit_s):
                await self._control.say(life, job.words_for(item), source="fan_out")
                await life.done.wait()
                ended_in_time = True
        finally:
            member.beginning = False
            self._nursery.start_soon(self._end, life)
        await life.gone.wait()
        if item.result is not None:
            return None
        if not ended_in_time:
            return f"worker exceeded max runtime of {limit_s}s"
        outcome = life.outcome
        if outcome is not None and outcome.cut_off:
            await trio.sleep_forever()  # the run ends, and this job with it: a resume does the row
        if outcome is not None and outcome.state not in {"completed", "truncated"}:
            return f"{_NOT_REPORTED} ({outcome.state}: {outcome.message[:500]})"
        return _NOT_REPORTED

    def _show_place(self, path: str, place: int) -> None:
        self._run.showing.state.note_state(path, "queued", note=f"number {place} in line")

    async def _end(self, life: LiveAgent) -> None:
        """Also when the job itself is cancelled: nobody else ends its workers."""
        if life.path in self._control.agents:
            await self._control.end(life)

    def _enlist(self, asker: Member, job: Job, item: Item) -> Member:
        name = item.path.rpartition("/")[2]
        role = role_for(self._births.roles, None, provider=None)
        wish = Spawn(task_name=name, message="-")
        plan = plan_child(asker.plan, wish, role, agent_id=self._run.chances.new_id())
        plan = msgspec.structs.replace(plan, job=job.job_id, reports=False)
        member = self._team.enlist(plan, state="queued")
        member.beginning = True
        return member

    def _show(self, asker: Member, job: Job) -> None:
        now = trio.current_time()
        if now - job.shown_at < 1:
            return
        job.shown_at = now
        reason = (
            f"job {job.job_id[-8:]}: {job.completed + job.failed} of {job.table.rows} rows, "
            f"{job.failed} failed"
        )
        self._run.showing.passing(Passed(agent=asker.path, event=Waiting(reason=reason)))


async def _checked(file: TableFile, wish: SpawnOnCsv) -> Table:
    return await trio.to_thread.run_sync(partial(check_table, file, id_column=wish.id_column))

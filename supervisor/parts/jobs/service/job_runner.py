"""Runs batch jobs: one worker per table row, in order, as slots come free.

Memory holds only the present workers; rows and results stay on disk. A job that was cut off (by the
end of the supervisor or of the asker's process, or by a limit of the run) continues where it
stopped. Source: Codex `spawn_agents_on_csv`; Codex's jobs do not outlive their call.
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

from swarm.mailbox.parts.jobs.job_messages import (
    JobBegan,
    JobClosed,
    JobEnded,
    ReportJobResult,
    ResultAccepted,
    SpawnOnCsv,
)
from swarm.mailbox.protocol.control import AgentHeld, TransientEvent
from swarm.mailbox.protocol.events import Waiting

from ....agents.agent_record import Agent
from ....agents.child_plan import IN_COPY, AgentRequestError
from ....agents.life.spawning import ONE_AGENT_ONLY
from ....journal.journal_reader import read_records
from ....part_access.part_host import Fate, PartHost, PartTeam
from ....processes.process_types import SpawnError
from ..job_files import FileAccess, ResultsFile, TableFile
from ..job_history import UnfinishedJob, finished_rows
from ..job_table import (
    JobResultSpool,
    JobRow,
    JobTable,
    check_table,
    output_path_for,
    write_results,
)
from .batch_job import BatchJob, JobItem, JobStatus, report_result

MAX_WORKERS = 64
_DEFAULT_WORKERS = 16
_RUNTIME_S = 1_800
_LOOK_S = 0.2  # while a row's time stops
_DEPTH = "agent depth limit reached; this session cannot spawn more subagents"
_NOT_REPORTED = "worker finished without calling report_agent_job_result"


class JobRunner:
    """Runs jobs, each in the task that calls `run` or `continue_job`."""

    def __init__(
        self,
        host: PartHost,
        team: PartTeam,
        nursery: trio.Nursery,
        *,
        on_cut_off: Callable[[UnfinishedJob], None],
    ) -> None:
        self._host = host
        self._agents = team.manager
        self._spawner = team.spawner
        self._nursery = nursery
        request = host.request  # folders as of now: later a command may put links there
        self._roots = {one: os.path.realpath(one) for one in (request.cwd, *request.add_dirs)}
        self._jobs: dict[str, BatchJob] = {}
        self._on_cut_off = on_cut_off  # of a job whose fate is `now`

    async def run(self, asker: Agent, request: SpawnOnCsv) -> JobEnded:
        """Run a new job from table to results. AgentRequestError before anything is started."""
        _check_shared(asker)
        if asker.plan.depth + 1 > asker.plan.limits.max_depth:
            raise AgentRequestError(_DEPTH)
        if self._host.agents.registry.max_agents == 1:
            raise AgentRequestError(ONE_AGENT_ONLY)
        if not request.instruction.strip():
            raise AgentRequestError("instruction must be non-empty")
        if request.max_runtime_seconds is not None and request.max_runtime_seconds < 1:
            raise AgentRequestError("max_runtime_seconds must be at least 1")
        source = Path(asker.plan.cwd) / request.csv_path
        with closing(TableFile(source, self._file_access(asker).may_read)) as file:
            table = await _check_table(file, request)
            job_id = self._host.entropy.new_id()
            output = Path(asker.plan.cwd) / output_path_for(
                source, request.output_csv_path, job_id=job_id
            )
            began = JobBegan(
                job_id=job_id,
                request=request,
                headers=table.headers,
                rows=table.rows,
                output=str(output),
            )
            return JobEnded(summary=await self._run_job(asker, began, table, file))

    async def continue_job(self, asker: Agent, cut_off: UnfinishedJob) -> bytes:
        """Run the rest of a job; return its summary. AgentRequestError if its table changed."""
        began = cut_off.began
        try:
            _check_shared(asker)
            source = Path(asker.plan.cwd) / began.request.csv_path
            with closing(TableFile(source, self._file_access(asker).may_read)) as file:
                table = await _check_table(file, began.request)
                if (table.headers, table.rows) != (began.headers, began.rows):
                    raise AgentRequestError(f"the table {table.path} was changed")
                again = msgspec.structs.replace(began, attempt=began.attempt + 1)
                return await self._run_job(asker, again, table, file)
        except AgentRequestError:
            self.close_job(asker.path, began.job_id, "failed")
            raise

    def set_fate(self, fate: Fate, *, asker: str | None = None) -> None:
        """Set what follows when the jobs that this agent's calls wait for are cut off next.

        `asker` None: all jobs, also those without a call.
        """
        for job in self._jobs.values():
            if asker is None or (job.has_call and job.asker == asker):
                job.set_fate(fate)

    def report(self, asker: Agent, request: ReportJobResult) -> ResultAccepted:
        """Accept a worker's result."""
        return report_result(self._jobs, asker.path, request)

    # --- one job -------------------------------------------------------------------------------

    def _file_access(self, asker: Agent) -> FileAccess:
        """What the asker's own commands may read and write."""
        plan = asker.plan
        folders = (plan.cwd, *plan.add_dirs)
        return FileAccess(
            sandbox=plan.limits.sandbox,
            roots=tuple(self._roots.get(one) or os.path.realpath(one) for one in folders),
            hidden=tuple(map(os.path.realpath, self._spawner.hidden_paths)),
            granted=self._host.grants.permissions_of(plan.path),
        )

    async def _run_job(
        self, asker: Agent, began: JobBegan, table: JobTable, file: TableFile
    ) -> bytes:
        with closing(ResultsFile(Path(began.output), self._file_access(asker))) as place:
            return await self._run_rows(asker, began, table, (file, place))

    async def _run_rows(
        self,
        asker: Agent,
        began: JobBegan,
        table: JobTable,
        files: tuple[TableFile, ResultsFile],
    ) -> bytes:
        place = files[1]
        with tempfile.TemporaryFile(dir=self._host.paths.tmp) as spooled:
            job = BatchJob(
                began,
                table,
                JobResultSpool(spooled, table.rows),
                asker=asker.path,
                file=files[0],
                entropy=self._host.entropy,
            )
            if began.attempt > 1:
                await trio.to_thread.run_sync(self._restore_rows, job)
            self._host.note(began, agent=asker.path)
            self._jobs[job.job_id] = job
            is_over = False
            try:
                await self._run_workers(asker, job)
                if not job.fault:
                    job.fail(await self._write_results(job, place))
                is_over = True
            finally:  # a cancelled nursery raises a group, which no `except` here would catch
                del self._jobs[job.job_id]
                self._host.journal.close_file(job.job_id)
                if is_over or job.fate == "cancelled":
                    self.close_job(asker.path, job.job_id, job.status if is_over else "cancelled")
                elif job.fate == "now":
                    self._on_cut_off(UnfinishedJob(began, asker.path))
            return job.summary(place.path)

    def _restore_rows(self, job: BatchJob) -> None:
        job.restore_rows(finished_rows(read_records(self._host.paths, file=job.job_id)))

    def close_job(self, asker: str, job_id: str, status: JobStatus) -> None:
        """Journal that nothing of this job will run any more."""
        self._host.note(JobClosed(job_id=job_id, status=status), agent=asker)

    async def _run_workers(self, asker: Agent, job: BatchJob) -> None:
        most = self._host.agents.registry.max_agents - 1
        workers = min(job.request.max_concurrency or _DEFAULT_WORKERS, MAX_WORKERS, most)
        rows = job.remaining_rows()
        try:
            async with trio.open_nursery() as nursery:
                for _ in range(max(1, workers)):
                    nursery.start_soon(self._run_worker, asker, job, rows)
        except* (AgentRequestError, OSError, UnicodeDecodeError, csv.Error) as group:
            job.fail(f"the table changed while it was read: {group.exceptions[0]}")

    async def _write_results(self, job: BatchJob, place: ResultsFile) -> str | None:
        """Write the results; return the error, or None."""

        def write(target: IO[bytes]) -> None:
            write_results(target, job.file, job.table, job.spool, id_column=job.request.id_column)

        try:
            await trio.to_thread.run_sync(place.write, write)
        except (OSError, AgentRequestError, UnicodeDecodeError, csv.Error) as error:
            return f"failed to write {place.path}: {error}"
        return None

    async def _run_worker(self, asker: Agent, job: BatchJob, rows: Iterator[JobRow]) -> None:
        for row in rows:
            if job.stopping:
                return
            item = job.begin(row)
            ended = job.finish(item, await self._run_row(asker, job, item))
            self._host.note(ended, agent=asker.path, file=job.job_id)
            self._show_progress(asker, job)

    # --- one row -------------------------------------------------------------------------------

    async def _run_row(self, asker: Agent, job: BatchJob, item: JobItem) -> str | None:
        """Run one row; return why it failed, or None."""
        member = self._add_member(asker, job, item)
        own_limit_s = job.request.max_runtime_seconds
        limit_s = own_limit_s or self._host.request.team.job_seconds or _RUNTIME_S
        ended_in_time = False
        try:
            show = partial(self._show_position, item.path)
            await self._spawner.start_first_process(member, None, on_position=show)
        except BaseException as error:
            member.end_start()
            self._spawner.cancel_spawn(member, "it was never started")
            if isinstance(error, SpawnError):
                return f"failed to spawn worker: {error}"
            raise
        try:
            ended_in_time = await self._work_on(member, job, item, limit_s)
        finally:
            member.end_start()
            self._nursery.start_soon(self._end, member)
        await member.gone.wait()
        if item.result is not None:
            return None
        if not ended_in_time:
            return f"worker exceeded max runtime of {limit_s}s"
        outcome = member.present_outcome
        if outcome is not None and outcome.cut_off:
            await trio.sleep_forever()  # the run ends, and this job with it: a resume does the row
        if outcome is not None and outcome.state not in {"completed", "truncated"}:
            return f"{_NOT_REPORTED} ({outcome.state}: {outcome.message[:500]})"
        return _NOT_REPORTED

    async def _work_on(self, member: Agent, job: BatchJob, item: JobItem, limit_s: float) -> bool:
        """Have the row done; False if it took too long. What its commands waited does not count."""
        ends_at = trio.current_time() + limit_s
        with trio.move_on_at(ends_at):
            await self._agents.send_input(member, job.first_input(item), source="fan_out")
            await member.done.wait()
        while not member.done.is_set():
            left_s = ends_at + self._host.pauses.waited_s(item.path) - trio.current_time()
            if left_s <= 0:
                return False
            with trio.move_on_after(max(left_s, _LOOK_S)):
                await member.done.wait()
        return True

    def _show_position(self, path: str, place: int) -> None:
        held = AgentHeld(state="queued", note=f"number {place} in line")
        self._host.broadcast.show(path, held)

    async def _end(self, member: Agent) -> None:
        """Runs outside the job's own scope: if the job is cancelled, this still ends its worker."""
        if member.is_live:
            await self._agents.end(member)

    def _add_member(self, asker: Agent, job: BatchJob, item: JobItem) -> Agent:
        return self._spawner.add_worker(asker, item.path.rpartition("/")[2], job.job_id)

    def _show_progress(self, asker: Agent, job: BatchJob) -> None:
        if not job.is_news(trio.current_time()):
            return
        reason = (
            f"job {job.job_id[-8:]}: {job.completed + job.failed} of {job.table.rows} rows, "
            f"{job.failed} failed"
        )
        self._host.broadcast.publish_transient(
            TransientEvent(agent=asker.path, event=Waiting(reason=reason))
        )


def _check_shared(asker: Agent) -> None:
    """Raises AgentRequestError for an agent in a copy: it starts no others."""
    if asker.plan.limits.isolation == "copy":
        raise AgentRequestError(IN_COPY)


async def _check_table(file: TableFile, request: SpawnOnCsv) -> JobTable:
    return await trio.to_thread.run_sync(partial(check_table, file, id_column=request.id_column))

"""Batch jobs: one worker for each row of a table, in order, as slots come free.

Rule guarded: only a row's own worker reports its result, once, while it works. Memory holds the
workers of now; rows and results stay on disk. Source: Codex `spawn_agents_on_csv`.
"""

import csv
import re
import tempfile
from collections import deque
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import msgspec
import trio

from swarm.mailbox.ids import new_uuid7
from swarm.mailbox.protocol.control import Passed
from swarm.mailbox.protocol.events import Waiting
from swarm.mailbox.protocol.ops import TextInput, UserInput
from swarm.mailbox.protocol.requests import (
    AnyReply,
    JobEnded,
    ReportJobResult,
    ResultAccepted,
    Spawn,
    SpawnOnCsv,
)

from ..agents import LiveAgent
from ..control import Control
from ..results import schema_fault
from ..running import Running
from ..spawner.base import SpawnError
from .births import NO_ROOM, Births
from .csv_rows import (
    Row,
    Spool,
    Table,
    check_table,
    check_writable,
    item_prompt,
    output_for,
    read_rows,
    write_results,
)
from .inherit import NotPossible, plan_child, role_for
from .team import Member, Team

JOB_WORKER = re.compile(r"job_[0-9a-f]{8}_[0-9]+\Z")  # their names
MOST_WORKERS = 64
_USUAL_WORKERS = 16
_RUNTIME_S = 1_800
_MOST_FAILURES_TOLD = 5
_DEPTH = "agent depth limit reached; this session cannot spawn more subagents"
_NOT_REPORTED = "worker finished without calling report_agent_job_result"
_CANCELLED = "cancelled by worker request"


class Item:
    """A row that is being worked on."""

    def __init__(self, row: Row, path: str) -> None:
        self.row, self.path = row, path
        self.result: str | None = None
        self.reported_at = ""


class Job:
    """One job while it runs."""

    def __init__(self, table: Table, wish: SpawnOnCsv, spool: Spool) -> None:
        self.job_id = new_uuid7()
        self.table, self.wish, self.spool = table, wish, spool
        self.schema = msgspec.json.decode(wish.output_schema) if wish.output_schema else None
        self.running: dict[str, Item] = {}  # by item id
        self.completed = self.failed = 0
        self.stopping = False
        self.fault: str | None = None
        self.failures: deque[dict[str, str | None]] = deque(maxlen=_MOST_FAILURES_TOLD)
        self.shown_at = float("-inf")

    def rows(self) -> Iterator[Row]:
        path, headers = Path(self.table.path), self.table.headers
        yield from read_rows(path, headers, id_column=self.wish.id_column)

    def finish(self, item: Item, error: str | None) -> None:
        """One row has ended: into the spool with it."""
        self.running.pop(item.row.item_id, None)
        self.completed += error is None
        if error is not None:
            self.failed += 1
            self.failures.append(
                {
                    "item_id": item.row.item_id,
                    "source_id": item.row.source_id,
                    "last_error": error,
                }
            )
        cells = [
            self.job_id, item.row.item_id, str(item.row.index), item.row.source_id or "",
            "completed" if error is None else "failed", "1", error or "", item.result or "",
            item.reported_at, _now(),
        ]  # fmt: skip
        self.spool.add(item.row.index, cells)

    def summary(self, output: Path | str) -> bytes:
        return msgspec.json.encode(
            {
                "job_id": self.job_id,
                "status": "failed" if self.fault else "cancelled" if self.stopping else "completed",
                "output_csv_path": str(output),
                "total_items": self.table.rows,
                "completed_items": self.completed,
                "failed_items": self.failed,
                "job_error": self.fault or (_CANCELLED if self.stopping else None),
                "failed_item_errors": list(self.failures) or None,
            }
        )


class Jobs:
    """Runs jobs; each in the task of the request that asked for it."""

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
        self._jobs: dict[str, Job] = {}

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
        table = await trio.to_thread.run_sync(
            partial(check_table, source, id_column=wish.id_column)
        )
        with tempfile.TemporaryFile(dir=self._run.places.tmp) as file:
            job = _open_job(table, wish, Spool(file, table.rows))
            output = output_for(source, wish.output_csv_path, job_id=job.job_id)
            roots = (asker.plan.cwd, *asker.plan.add_dirs)
            place = check_writable(
                Path(asker.plan.cwd) / output, asker.plan.limits.sandbox, roots=roots
            )
            self._jobs[job.job_id] = job
            try:
                await self._work_through(asker, job)
                job.fault = job.fault or await self._export(job, place)
                return JobEnded(summary=job.summary(place))
            finally:
                del self._jobs[job.job_id]

    async def _work_through(self, asker: Member, job: Job) -> None:
        most = self._run.registry.max_agents - 1
        workers = min(job.wish.max_concurrency or _USUAL_WORKERS, MOST_WORKERS, most)
        rows = job.rows()
        try:
            async with trio.open_nursery() as nursery:
                for _ in range(max(1, workers)):
                    nursery.start_soon(self._work, asker, job, rows)
        except* (NotPossible, OSError, UnicodeDecodeError, csv.Error) as group:
            job.fault = f"the table changed while it was read: {group.exceptions[0]}"

    async def _export(self, job: Job, place: Path) -> str | None:
        """Write the results; returns why not."""
        try:
            await trio.to_thread.run_sync(
                partial(write_results, place, job.table, job.spool, id_column=job.wish.id_column)
            )
        except (OSError, NotPossible) as error:
            return f"failed to write {place}: {error}"
        return None

    async def _work(self, asker: Member, job: Job, rows: Iterator[Row]) -> None:
        for row in rows:
            if job.stopping:
                return
            item = Item(row, f"{asker.path}/job_{job.job_id[-8:]}_{row.index + 1}")
            job.running[row.item_id] = item
            job.finish(item, await self._one_row(asker, job, item))
            self._show(asker, job)

    async def _one_row(self, asker: Member, job: Job, item: Item) -> str | None:
        """Why the row failed; None if it did not."""
        member = self._enlist(asker, job, item)
        limit_s = job.wish.max_runtime_seconds or _RUNTIME_S
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
                await self._control.say(life, _words(job, item), source="fan_out")
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
        plan = plan_child(asker.plan, wish, role, agent_id=new_uuid7())
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

    def report(self, asker: Member, wish: ReportJobResult) -> AnyReply:
        """Take a worker's result."""
        return report_result(self._jobs, asker.path, wish)


def report_result(jobs: Mapping[str, Job], path: str, wish: ReportJobResult) -> ResultAccepted:
    """Take the result of the worker at `path`: its own row's, while it works, once.

    One that does not fit raises NotPossible, with the reason: it may be sent again.
    """
    job = jobs.get(wish.job_id)
    item = job.running.get(wish.item_id) if job is not None else None
    if job is None or item is None or item.path != path or item.result is not None:
        return ResultAccepted(accepted=False)
    try:
        result = msgspec.json.decode(wish.result)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise NotPossible("result must be a JSON object") from error
    if not isinstance(result, dict):
        raise NotPossible("result must be a JSON object")
    text = msgspec.json.encode(result).decode()
    if job.schema is not None and (fault := schema_fault(text, job.schema)):
        raise NotPossible(fault)
    item.result, item.reported_at = text, _now()
    job.stopping |= wish.stop
    return ResultAccepted(accepted=True)


def _open_job(table: Table, wish: SpawnOnCsv, spool: Spool) -> Job:
    try:
        job = Job(table, wish, spool)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise NotPossible(f"output_schema is not JSON: {error}") from error
    if job.schema is not None and not isinstance(job.schema, dict):
        raise NotPossible("output_schema must be a JSON object")
    return job


def _words(job: Job, item: Item) -> UserInput:
    text = item_prompt(
        job.wish.instruction,
        job.table.headers,
        item.row,
        job_id=job.job_id,
        schema=job.wish.output_schema,
    )
    return UserInput(input_id=new_uuid7(), parts=(TextInput(text=text),))


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")

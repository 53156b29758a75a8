"""spawn_agents_on_csv and report_agent_job_result: one worker for each row of a table.

The supervisor reads and writes the files of a job on behalf of this agent, so this agent's own
limits are checked first.
"""

from functools import partial
from pathlib import Path
from typing import Annotated

import msgspec

from swarm.mailbox.parts.jobs.job_messages import (
    REPORT_RESULT,
    START_JOB,
    JobEnded,
    ReportJobResult,
    ResultAccepted,
    SpawnOnCsv,
)
from swarm.mailbox.protocol.items import AnyCall
from swarm.mailbox.protocol.sampling import ModelInfo

from ...tools.interface.function_tool import HIDDEN, decode_arguments, described, read_descriptions
from ...tools.interface.team_client import TeamClient, TeamInvocation, TeamTool, as_json
from ...tools.interface.tool_context import ToolContext
from ...tools.interface.tool_interface import Invocation, ToolFailed, ToolResult

_TEXTS = read_descriptions(Path(__file__).parent)
JOB_LIMIT_S = 24 * 3600.0  # each item has its own limit; the run's deadline comes before this
MAX_WORKERS = 64


class CsvArguments(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    csv_path: str
    instruction: Annotated[
        str,
        described("Each worker's task; `{column}` is the row's value."),
    ]
    id_column: Annotated[str | None, described("Its values name the items.")] = None
    output_csv_path: str | None = None
    output_schema: Annotated[dict[str, msgspec.Raw] | None, described("Of each result.")] = None
    max_concurrency: Annotated[int | None, described(f"At most {MAX_WORKERS}; default 16.")] = None
    max_workers: Annotated[int | None, HIDDEN] = None  # alias of max_concurrency
    max_runtime_seconds: Annotated[int | None, described("Of one worker; default 1800.")] = None


class ReportArguments(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    job_id: str
    item_id: str
    result: msgspec.Raw
    stop: Annotated[bool | None, described("Cancel the items not yet started.")] = None


class JobTool(TeamTool):
    """A tool of jobs."""

    def description(self) -> str:
        return _TEXTS[self.name]


class SpawnAgentsOnCsvTool(JobTool):
    """Starts a job and returns when it has ended."""

    name = START_JOB.name
    arguments = CsvArguments

    def __init__(self, team: TeamClient, context: ToolContext) -> None:
        super().__init__(team)
        self._context = context

    async def prepare(self, call: AnyCall) -> Invocation:
        self._team.check_may_spawn()
        arguments = decode_arguments(call, CsvArguments)
        request = csv_request(arguments, cwd=self._context.cwd)
        self._check_files(Path(request.csv_path), request.output_csv_path)
        argument = f"{request.csv_path}: {request.instruction}"
        return TeamInvocation(argument, partial(self._run_job, request))

    def _check_files(self, table: Path, output: str | None) -> None:
        if not self._context.may_read(table):
            raise ToolFailed(f"failed to read csv input {table}: Permission denied")
        target = Path(output) if output is not None else table.with_suffix(".agent-job.csv")
        plan = self._context.write_plan()
        if plan is None or not self._context.may_write(target, plan):
            raise ToolFailed(
                f"the results cannot be written to {target.parent}: it is outside of what you may "
                "write; name another place in output_csv_path"
            )

    async def _run_job(self, request: SpawnOnCsv) -> ToolResult:
        ended = await self._team.request(
            request, JobEnded, limit_s=JOB_LIMIT_S, waiting=f"works through {request.csv_path}"
        )
        return ToolResult(content=ended.summary.decode(errors="replace"))


class ReportAgentJobResultTool(JobTool):
    """Reports the result of the one item that this agent was started for."""

    name = REPORT_RESULT.name
    arguments = ReportArguments

    def is_offered(self, model: ModelInfo) -> bool:
        return bool(self._team.spec.job)

    async def prepare(self, call: AnyCall) -> Invocation:
        if not self._team.spec.job:
            raise ToolFailed("only the worker of a job's item can report a result")
        report = job_report(decode_arguments(call, ReportArguments))
        return TeamInvocation(report.item_id, partial(self._report, report))

    async def _report(self, report: ReportJobResult) -> ToolResult:
        reply = await self._team.request(report, ResultAccepted)
        return ToolResult(content=as_json({"accepted": reply.accepted}))


def csv_request(arguments: CsvArguments, *, cwd: Path) -> SpawnOnCsv:
    """Return the request for these arguments, with absolute paths. Raises ToolFailed."""
    if not arguments.instruction.strip():
        raise ToolFailed("instruction must be non-empty")
    if not arguments.csv_path.strip():
        raise ToolFailed("csv_path must be non-empty")
    workers = arguments.max_concurrency
    workers = arguments.max_workers if workers is None else workers
    runtime_s = arguments.max_runtime_seconds
    if runtime_s is not None and runtime_s < 1:
        raise ToolFailed("max_runtime_seconds must be at least 1")
    output = (arguments.output_csv_path or "").strip()
    schema = arguments.output_schema
    return SpawnOnCsv(
        csv_path=str(cwd / arguments.csv_path.strip()),
        instruction=arguments.instruction,
        id_column=(arguments.id_column or "").strip() or None,
        output_csv_path=str(cwd / output) if output else None,
        output_schema=None if schema is None else msgspec.json.encode(schema),
        max_concurrency=None if workers is None else min(max(workers, 1), MAX_WORKERS),
        max_runtime_seconds=runtime_s,
    )


def job_report(arguments: ReportArguments) -> ReportJobResult:
    """Return the report for these arguments. Raises ToolFailed if the result is no JSON object."""
    result = bytes(arguments.result).strip()
    if not result.startswith(b"{"):
        raise ToolFailed("result must be a JSON object")
    return ReportJobResult(
        job_id=arguments.job_id,
        item_id=arguments.item_id,
        result=result,
        stop=bool(arguments.stop),
    )

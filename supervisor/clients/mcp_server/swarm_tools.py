"""What each tool of swarm does. An error of a call is its result, for the model to read."""

import secrets
from collections.abc import Mapping

import anyio
import anyio.to_thread
import mcp_types as types
import msgspec
from msgspec import UNSET

from swarm.mailbox.base.errors import SwarmError, UsageError
from swarm.mailbox.protocol.values.base import Value
from swarm.mailbox.protocol.values.limits import Budget

from ..client import LiveRun
from .approval_forms import approval_form, decided
from .calling_client import CallingClient, answered, elicit_request
from .run_ceiling import CallerOptions
from .run_report import RunReport, StatusReport, report_row, words_of
from .served_runs import ServedRuns, stop_turn
from .tool_arguments import (
    ApproveToolArguments,
    ResultToolArguments,
    RunBudget,
    RunToolArguments,
    SendToolArguments,
    StatusToolArguments,
    StopToolArguments,
    read_arguments,
)
from .turn_progress import AwaitedTurn
from .turn_wait import TurnWait

CallResult = types.CallToolResult | types.InputRequiredResult
_STOP_LIMIT_S = 10.0
_MOST_CONTINUATIONS = 256


class Continuation(Value):
    """A call that was answered with a question and comes again with the answer."""

    run_id: str
    awaited: AwaitedTurn
    limit_s: float | None


class SwarmTools:
    """The tools of one server, for all its clients."""

    def __init__(self, runs: ServedRuns) -> None:
        self._runs = runs
        self._continuations: dict[str, Continuation] = {}  # by request state, oldest first

    async def call(
        self, name: str, params: types.CallToolRequestParams, client: CallingClient
    ) -> CallResult:
        """Raises SwarmError; KeyError for a name that no tool has."""
        if params.request_state is not None:
            return await self._continue(params, client)
        match name:
            case "swarm_run":
                return await self._run(read_arguments(params.arguments, RunToolArguments), client)
            case "swarm_send":
                return await self._send(read_arguments(params.arguments, SendToolArguments), client)
            case "swarm_status":
                return await self._status(
                    read_arguments(params.arguments, StatusToolArguments), client
                )
            case "swarm_result":
                asked = read_arguments(params.arguments, ResultToolArguments)
                found = self._runs.find(asked.run)
                return await self._wait(found, AwaitedTurn(), client, limit_s=asked.wait_s)
            case "swarm_approve":
                return await self._approve(
                    read_arguments(params.arguments, ApproveToolArguments), client
                )
            case "swarm_stop":
                return await self._stop(read_arguments(params.arguments, StopToolArguments), client)
            case _:
                raise KeyError(name)

    # --- turns -------------------------------------------------------------------------------

    async def _run(self, asked: RunToolArguments, client: CallingClient) -> CallResult:
        run = await self._runs.start(
            asked.task, options_of(asked), cwd=asked.cwd, background=asked.background
        )
        return await self._turn(run, AwaitedTurn(), client, background=asked.background)

    async def _send(self, asked: SendToolArguments, client: CallingClient) -> CallResult:
        run = self._runs.find(asked.run)
        awaited = await self._runs.send(run, asked.text, asked.agent)
        if not asked.background:
            self._runs.attend(run)
        return await self._turn(run, awaited, client, background=asked.background)

    async def _turn(
        self, run: LiveRun, awaited: AwaitedTurn, client: CallingClient, *, background: bool
    ) -> CallResult:
        """Wait for a turn that this call began; if the call is cancelled, the turn is too."""
        if background:
            return await self._wait(run, awaited, client, limit_s=0)
        try:
            return await self._wait(run, awaited, client, limit_s=None)
        except anyio.get_cancelled_exc_class():
            with anyio.CancelScope(shield=True), anyio.move_on_after(_STOP_LIMIT_S):
                await stop_turn(run)
            raise

    async def _wait(
        self, run: LiveRun, awaited: AwaitedTurn, client: CallingClient, *, limit_s: float | None
    ) -> CallResult:
        wait = TurnWait(run, awaited, client)
        report = await wait.wait(limit_s=limit_s)
        asks = client.can_be_asked_by_result and limit_s != 0
        if report.status != "approval_needed" or not asks:
            return result_of(report, words_of(report), is_error=report.status == "failed")
        asked = {one.approval_id: elicit_request(approval_form(one)) for one in wait.approvals}
        state = secrets.token_urlsafe(24)
        self._continuations[state] = Continuation(
            run_id=run.run_id, awaited=awaited, limit_s=limit_s
        )
        while len(self._continuations) > _MOST_CONTINUATIONS:
            del self._continuations[next(iter(self._continuations))]
        return types.InputRequiredResult(input_requests={**asked}, request_state=state)

    async def _continue(
        self, params: types.CallToolRequestParams, client: CallingClient
    ) -> CallResult:
        """The answers of a client of protocol 2026-07-28 to what its call was answered with."""
        known = self._continuations.pop(params.request_state or "", None)
        if known is None:
            raise UsageError("this call is no longer waiting; swarm_result has its answer")
        run = self._runs.find(known.run_id)
        given = params.input_responses or {}
        for pending in await run.approvals() if run.is_alive else ():
            answer = given.get(pending.approval_id)
            if answer is not None and pending.reviewer == "person" and not pending.denied:
                accepted = (
                    answer if isinstance(answer, types.ElicitResult)
                    else types.ElicitResult(action="cancel")
                )  # fmt: skip
                await run.request(answered(pending, accepted))
        if known.limit_s is None:
            return await self._turn(run, known.awaited, client, background=False)
        return await self._wait(run, known.awaited, client, limit_s=known.limit_s)

    # --- looking and steering ----------------------------------------------------------------

    async def _status(self, asked: StatusToolArguments, client: CallingClient) -> CallResult:
        if asked.run is UNSET:
            rows = await anyio.to_thread.run_sync(self._runs.summaries)
            report = StatusReport(runs=tuple(map(report_row, rows)))
            lines = [f"{row.run} {row.state}: {row.title}" for row in report.runs]
            return result_of(report, "\n".join(lines) or "there is no run yet")
        one = await self._report(self._runs.find(asked.run), client)
        return result_of(StatusReport(run=one), words_of(one))

    async def _report(self, run: LiveRun, client: CallingClient) -> RunReport:
        return await TurnWait(run, AwaitedTurn(), client).wait(limit_s=0)

    async def _approve(self, asked: ApproveToolArguments, client: CallingClient) -> CallResult:
        run = self._runs.find(asked.run)
        waiting = {
            one.approval_id: one for one in await run.approvals()
            if one.reviewer == "person" and not one.denied
        }  # fmt: skip
        pending = waiting.get(asked.approval_id)
        if pending is None:
            known = ", ".join(waiting) or "nothing waits"
            raise UsageError(f"no approval {asked.approval_id!r} waits for an answer ({known})")
        answer = decided(pending, asked.decision, asked.reason)
        if asked.answers:
            answers: dict[str, tuple[str, ...]] = {
                name: (text,) for name, text in asked.answers.items()
            }
            answer = msgspec.structs.replace(answer, answers=answers)
        await run.request(answer)
        report = await self._report(run, client)
        return result_of(report, f"{asked.decision}: {asked.approval_id}")

    async def _stop(self, asked: StopToolArguments, client: CallingClient) -> CallResult:
        run = self._runs.find(asked.run)
        if asked.interrupt_only:
            await stop_turn(run)
        else:
            await run.cancel()
        report = await self._report(run, client)
        state = "is alive" if report.alive else "has ended"
        return result_of(report, f"run {report.run} {state}")


def options_of(asked: RunToolArguments) -> CallerOptions:
    return CallerOptions(
        role=asked.role,
        model=asked.model,
        sandbox=None if asked.sandbox is UNSET else asked.sandbox,
        approval=None if asked.approval is UNSET else asked.approval,
        isolation=None if asked.isolation is UNSET else asked.isolation,
        budget=budget_of(asked.budget) if isinstance(asked.budget, RunBudget) else Budget(),
    )


def budget_of(asked: RunBudget) -> Budget:
    return Budget(
        tokens=None if asked.tokens is UNSET else asked.tokens,
        usd=None if asked.usd is UNSET else asked.usd,
    )


def result_of(content: Value, words: str, *, is_error: bool = False) -> types.CallToolResult:
    """A result with structured content, and the same in words."""
    structured: Mapping[str, object] = msgspec.to_builtins(content)
    return types.CallToolResult(
        content=[types.TextContent(text=words)], structured_content=structured, is_error=is_error
    )


def error_result(error: SwarmError) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(text=str(error))], is_error=True)

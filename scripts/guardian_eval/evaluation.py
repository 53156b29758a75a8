"""A run whose work is to judge labelled cases: the real gateway, post, journal and guardian.

Rule guarded: no case knows of another one: each is judged by a process of its own, which has
read nothing before.
"""

import tempfile
from collections.abc import Sequence
from pathlib import Path

import msgspec
import trio
from labelled_cases import GroupedCase, make_case, write_case_files

from swarm.mailbox.protocol.approvals import PendingApproval
from swarm.mailbox.protocol.items import TokenUsage
from swarm.mailbox.protocol.records import Reviewed, RunCompleted
from swarm.supervisor.agents.life.agent_manager import AgentManager
from swarm.supervisor.approvals.approval_types import ReviewVerdict
from swarm.supervisor.context.run_context import RunContext
from swarm.supervisor.gateway.gateway_manager import GatewayManager
from swarm.supervisor.journal.journal_reader import run_records
from swarm.supervisor.journal.replay import RunPast
from swarm.supervisor.parts.guardian.guardian import Guardian
from swarm.supervisor.parts.guardian.review_prompt import ReviewCase
from swarm.supervisor.parts.guardian.reviewer_pool import ReviewerPool
from swarm.supervisor.team.team_service import TeamService
from swarm.supervisor.workload.run_shutdown import RunShutdown


class CaseResult(msgspec.Struct):
    """What came of one case. `unreadable`: attempts whose answer could not be used."""

    id: str
    group: str
    expect: str
    outcome: str
    rationale: str
    seconds: float
    risk: str = ""
    authorization: str = ""
    unreadable: int = 0
    tokens: int = 0
    usd: float | None = None


class Evaluation:
    """The work of the run. `judged` is in the order in which verdicts came."""

    def __init__(self, cases: Sequence[GroupedCase]) -> None:
        self._cases = cases
        self.judged: list[CaseResult] = []
        self.usage = TokenUsage()

    def start_evaluation(  # noqa: PLR0917 - as `MakeWorkload` of supervisor/run.py
        self,
        running: RunContext,
        control: AgentManager,
        team_service: TeamService,
        manager: GatewayManager,
        ending: RunShutdown,
        past: RunPast,
    ) -> "EvaluationRun":
        """As `run_to_end` wants it."""
        return EvaluationRun(self, self._cases, running, control, manager, ending)


class EvaluationRun:
    """One evaluation in a run."""

    def __init__(  # noqa: PLR0917 - as `MakeWorkload` of supervisor/run.py
        self,
        told: Evaluation,
        cases: Sequence[GroupedCase],
        running: RunContext,
        control: AgentManager,
        manager: GatewayManager,
        ending: RunShutdown,
    ) -> None:
        self._told, self._cases = told, cases
        self._run, self._control = running, control
        self._manager, self._ending = manager, ending

    def close(self) -> None:
        """Nothing is left to write: each case was counted when it was judged."""

    async def run(self) -> RunCompleted:
        """Judge every case, some side by side."""
        done = False
        with tempfile.TemporaryDirectory(prefix="guardian-eval-") as folder:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._stop_on, self._ending.stop, nursery)
                nursery.start_soon(self._stop_on, self._manager.failed, nursery)
                await self._judge_all(Path(folder))
                done = True
                nursery.cancel_scope.cancel()
        await self._add_up()
        if done:
            return RunCompleted(status="completed")
        if self._manager.failed.is_set():
            return RunCompleted(status="provider", message=self._manager.failure)
        return RunCompleted(status="interrupted", message="stopped before every case was judged")

    async def _stop_on(self, event: trio.Event, nursery: trio.Nursery) -> None:
        await event.wait()
        nursery.cancel_scope.cancel()

    async def _judge_all(self, folder: Path) -> None:
        async with trio.open_nursery() as nursery:
            bench = ReviewerPool(self._run, self._control, nursery, alone=True)
            settings = self._run.request.approvals.auto_review
            guardian = Guardian(self._run, bench, lambda path: None, settings=settings)
            places = trio.CapacityLimiter(int(bench.limiter.total_tokens))
            async with trio.open_nursery() as judging:
                for one in self._cases:
                    judging.start_soon(self._judge, one, folder, guardian, places)

    async def _judge(
        self, one: GroupedCase, folder: Path, guardian: Guardian, places: trio.CapacityLimiter
    ) -> None:
        home = folder / one.case.id
        write_case_files(one.case, home)
        case = make_case(one.case, home)

        async def gather(pending: PendingApproval) -> ReviewCase:
            return case

        async with places:  # a case's deadline begins when it is its turn
            began = trio.current_time()
            pending = PendingApproval(
                approval_id=one.case.id,
                agent=case.agent,
                request=case.request,
                reviewer="guardian",
            )
            verdict = await guardian.review_case(pending, gather)
        self._told.judged.append(_judged(one, verdict, trio.current_time() - began))

    async def _add_up(self) -> None:
        """Risk, cost and unreadable answers, from the journal."""
        await self._run.journal.flush()
        by_id = {one.id: one for one in self._told.judged}
        for record in run_records(self._run.paths):
            body = record.body
            if not isinstance(body, Reviewed) or (one := by_id.get(body.approval_id)) is None:
                continue
            one.unreadable += body.outcome == "failed"
            one.risk, one.authorization = body.risk, body.authorization
            one.tokens += body.usage.total_tokens
            if body.usd is not None:
                one.usd = (one.usd or 0.0) + body.usd


def _judged(one: GroupedCase, verdict: ReviewVerdict, seconds: float) -> CaseResult:
    return CaseResult(
        id=one.case.id,
        group=one.group,
        expect=one.case.expect,
        outcome=verdict.outcome,
        rationale=verdict.rationale,
        seconds=round(seconds, 3),
    )

"""A run whose work is to judge labelled cases: the real gateway, post, journal and guardian.

Rule guarded: no case knows of another one: each is judged by a process of its own, which has
read nothing before.
"""

import tempfile
from collections.abc import Sequence
from pathlib import Path

import msgspec
import trio
from cases import Loaded, lay_out, make_case

from swarm.mailbox.protocol.approvals import PendingApproval
from swarm.mailbox.protocol.items import TokenUsage
from swarm.mailbox.protocol.records import Reviewed, RunCompleted
from swarm.supervisor.agency.agency import Agency
from swarm.supervisor.approvals.base import Verdict
from swarm.supervisor.control import Control
from swarm.supervisor.ending import Ending
from swarm.supervisor.guardian.prompt import Case
from swarm.supervisor.guardian.reviewer import Guardian
from swarm.supervisor.guardian.trunk import Bench
from swarm.supervisor.journal.reading import run_records
from swarm.supervisor.journal.replay import RunPast
from swarm.supervisor.keeper import Keeper
from swarm.supervisor.running import Running


class Judged(msgspec.Struct):
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

    def __init__(self, cases: Sequence[Loaded]) -> None:
        self._cases = cases
        self.judged: list[Judged] = []
        self.usage = TokenUsage()

    def make(
        self,
        running: Running,
        control: Control,
        agency: Agency,
        keeper: Keeper,
        ending: Ending,
        past: RunPast,
    ) -> "Doing":
        """As `run_to_its_end` wants it."""
        return Doing(self, self._cases, running, control, keeper, ending)


class Doing:
    """One evaluation in a run."""

    def __init__(
        self,
        told: Evaluation,
        cases: Sequence[Loaded],
        running: Running,
        control: Control,
        keeper: Keeper,
        ending: Ending,
    ) -> None:
        self._told, self._cases = told, cases
        self._run, self._control = running, control
        self._keeper, self._ending = keeper, ending

    def close(self) -> None:
        """Nothing is left to write: each case was counted when it was judged."""

    async def run(self) -> RunCompleted:
        """Judge every case, some side by side."""
        done = False
        with tempfile.TemporaryDirectory(prefix="guardian-eval-") as folder:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._stop_on, self._ending.stop, nursery)
                nursery.start_soon(self._stop_on, self._keeper.failed, nursery)
                await self._judge_all(Path(folder))
                done = True
                nursery.cancel_scope.cancel()
        await self._add_up()
        if done:
            return RunCompleted(status="completed")
        if self._keeper.failed.is_set():
            return RunCompleted(status="provider", message=self._keeper.failure)
        return RunCompleted(status="interrupted", message="stopped before every case was judged")

    async def _stop_on(self, event: trio.Event, nursery: trio.Nursery) -> None:
        await event.wait()
        nursery.cancel_scope.cancel()

    async def _judge_all(self, folder: Path) -> None:
        async with trio.open_nursery() as nursery:
            bench = Bench(self._run, self._control, nursery, alone=True)
            settings = self._run.request.auto_review
            guardian = Guardian(self._run, bench, lambda path: None, settings=settings)
            places = trio.CapacityLimiter(int(bench.places.total_tokens))
            async with trio.open_nursery() as judging:
                for one in self._cases:
                    judging.start_soon(self._judge, one, folder, guardian, places)

    async def _judge(
        self, one: Loaded, folder: Path, guardian: Guardian, places: trio.CapacityLimiter
    ) -> None:
        home = folder / one.case.id
        lay_out(one.case, home)
        case = make_case(one.case, home)

        async def gather(pending: PendingApproval) -> Case:
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
        await self._run.journal.settle()
        by_id = {one.id: one for one in self._told.judged}
        for record in run_records(self._run.places):
            body = record.body
            if not isinstance(body, Reviewed) or (one := by_id.get(body.approval_id)) is None:
                continue
            one.unreadable += body.outcome == "failed"
            one.risk, one.authorization = body.risk, body.authorization
            one.tokens += body.usage.total_tokens
            if body.usd is not None:
                one.usd = (one.usd or 0.0) + body.usd


def _judged(one: Loaded, verdict: Verdict, seconds: float) -> Judged:
    return Judged(
        id=one.case.id,
        group=one.group,
        expect=one.case.expect,
        outcome=verdict.outcome,
        rationale=verdict.rationale,
        seconds=round(seconds, 3),
    )

"""The services of the parts while a run lives, and which of them takes what; the list of them.

The kernel asks this list, never a part. A new part adds itself to what it has of these; the type
checker names a message that nobody takes.
"""

from typing import assert_never

import trio

from swarm.mailbox.parts.findings.finding_messages import PublishFinding, RecallFindings
from swarm.mailbox.parts.goals.goal_messages import GetGoal, SteerGoal, UpdateGoal
from swarm.mailbox.parts.jobs.job_messages import ReportJobResult, SpawnOnCsv
from swarm.mailbox.parts.leases.lease_messages import HeavyCommandEnded, TakeLease
from swarm.mailbox.parts.machines.machine_messages import DrainHost
from swarm.mailbox.parts.memories.memory_messages import RecallMemories, ReportStaleMemory
from swarm.mailbox.parts.notices.notice_messages import TellPerson
from swarm.mailbox.parts.part_messages import (
    PartControl,
    PartControlReply,
    PartEvent,
    PartQuestion,
    PartReply,
    PartRequest,
)
from swarm.mailbox.parts.wakeups.wakeup_messages import (
    CancelWakeUps,
    TakeBackWakeUp,
    WaitForLimit,
    WakeMe,
)
from swarm.mailbox.protocol.control import Done, Refused
from swarm.mailbox.protocol.records import RunCompleted

from ..agents.agent_phases import AgentEvent
from ..agents.agent_record import Agent
from ..part_access.part_host import Fate, PartHost, PartTeam
from ..part_access.work_end import WorkEnd
from ..parts.findings.service.shared_findings import SharedFindings
from ..parts.goals.service.goal_service import GoalService
from ..parts.jobs.service.detached_jobs import DetachedJobs
from ..parts.leases.service.node_leases import NodeLeases
from ..parts.machines.host_drain import drain_host
from ..parts.notices.service.notice_service import NoticeService
from ..parts.run_parts import RunParts
from ..parts.wakeups.service.limit_waits import LimitWaits
from ..parts.wakeups.service.wake_ups import WakeUps


class PartServices:
    """Nothing but `answer` and `control` waits. Their tasks run in the nursery."""

    def __init__(
        self, host: PartHost, parts: RunParts, team: PartTeam, nursery: trio.Nursery
    ) -> None:
        self._host = host
        self._folds = parts.folds
        self._leases = NodeLeases(host, parts.leases, nursery)
        self._findings = SharedFindings(host, parts.folds.findings, nursery)
        self._jobs = DetachedJobs(host, team, nursery)
        self._wakeups = WakeUps(host, team, parts.folds.wakeups, nursery)
        self._limits = LimitWaits(host, team, self._wakeups, nursery)
        self._goals = GoalService(host, team, parts.goal, nursery)
        self._notices = NoticeService(host, team, parts.folds.notices, nursery)

    # --- messages of agents --------------------------------------------------------------------

    def serve(self, agent: Agent, request_id: int, request: PartRequest) -> None:
        """Begin to serve a request of an agent; the part replies."""
        match request:
            case TakeLease():
                self._leases.serve(agent, request_id, request)
            case _:
                assert_never(request)

    def take(self, agent: Agent, event: PartEvent) -> None:
        """An event that is about to be journaled."""
        match event:
            case HeavyCommandEnded():
                self._leases.end(agent, event)
            case _:
                assert_never(event)

    async def answer(self, asker: Agent, question: PartQuestion) -> PartReply:
        """One answer to a question of an agent. Raises AgentRequestError."""
        match question:
            case PublishFinding() | RecallFindings():
                return await self._findings.serve(asker, question)
            case SpawnOnCsv():
                return await self._jobs.join(asker, question)
            case ReportJobResult():
                return self._jobs.jobs.report(asker, question)
            case TellPerson():
                return await self._notices.serve(asker, question)
            case WaitForLimit():
                return await self._limits.wait(asker, question)
            case WakeMe() | TakeBackWakeUp():
                return await self._wakeups.answer(asker, question)
            case GetGoal() | UpdateGoal():
                return self._goals.serve(question)
            case RecallMemories() | ReportStaleMemory():
                from ..parts.memories.service.memory_recall import (
                    MemoryRecall,  # few runs have memories
                )

                return await MemoryRecall(self._host).serve(asker, question)
            case _:
                assert_never(question)

    # --- requests of a person ------------------------------------------------------------------

    async def control(self, request: PartControl) -> Done | Refused | PartControlReply:
        """One answer to a person who steers the live run."""
        match request:
            case DrainHost(node=name):
                return drain_host(self._host, name)
            case CancelWakeUps():
                return self._wakeups.control(request)
            case SteerGoal():
                return await self._goals.steer(request)
            case _:
                assert_never(request)

    async def try_now(self) -> bool:
        """A person wants what waits for limits tried. False if nothing does."""
        return await self._limits.try_now()

    def check_new_agent(self) -> None:
        """Raises AgentRequestError if no new agent may start now."""
        self._limits.check_new_agent()

    # --- the end of the run --------------------------------------------------------------------

    async def at_end(self, completed: RunCompleted) -> WorkEnd:
        """The work has ended, and this is how the run would end: what becomes of it.

        Asked again whenever the work has ended, of a run that stays, too.
        """
        end = await self._goals.at_end(completed)
        if not end.goes_on:
            await self._notices.tell_end(end.completed)
        return end

    # --- what happens to agents and to the run -------------------------------------------------

    @property
    def is_idle(self) -> bool:
        """False while a part works, or waits for what will give an agent work: the run stays."""
        return self._jobs.is_idle and self._notices.is_idle and self._wakeups.is_idle

    def restore(self) -> frozenset[str]:
        """The run is resumed and its root is there: take up what was cut off.

        Returns the names of the parts' own files of the journal.
        """
        self._jobs.restore(self._folds.jobs)
        self._wakeups.restore()
        self._goals.restore()
        return frozenset(self._folds.jobs.ids)

    def on_agent_event(self, agent: Agent, event: AgentEvent) -> None:
        """What happens to agents, but reviewers; their phase has changed. Raises nothing."""
        self._goals.on_agent_event(agent, event)
        match event:
            case AgentEvent.PROCESS_STARTED:
                self._findings.send_new(agent)
            case AgentEvent.PROCESS_ENDED:
                self._findings.forget_process(agent)
            case AgentEvent.WORK_ENDED:
                self._wakeups.on_work_ended()
            case _:
                pass

    def set_fate(self, fate: Fate, *, asker: str | None = None) -> None:
        """The calls of this agent are about to be cut off; None: all work of the parts."""
        self._jobs.jobs.set_fate(fate, asker=asker)
        if asker is None:
            self._goals.set_fate(fate)

    def on_agent_lost(self, path: str) -> None:
        """This agent is gone for good."""
        self._jobs.cancel_jobs_of(path)
        self._wakeups.on_agent_lost(path)

    def cancel_all(self) -> None:
        """End the work that no call waits for; what becomes of it was said by `set_fate`."""
        self._jobs.cancel_all()
        self._wakeups.cut_off()
        self._goals.cut_off()

"""What the parts of a run know before it begins; the list of it.

A new part adds itself to what it has of these; the type checker names a record that no fold takes.
"""

from typing import assert_never

from swarm.mailbox.base.ids import ROOT_PATH
from swarm.mailbox.parts.goals.goal_messages import (
    Goal,
    GoalAccess,
    GoalRecord,
    GoalStep,
)
from swarm.mailbox.parts.jobs.job_messages import JobBegan, JobClosed, JobRowEnded
from swarm.mailbox.parts.leases.lease_messages import HeavyCommandEnded
from swarm.mailbox.parts.memories.memory_messages import MemoryAccess, MemoryMarked
from swarm.mailbox.parts.notices.notice_messages import NoticeAccess, NoticeBegan, NoticeEnded
from swarm.mailbox.parts.part_messages import PartRecord, PartRules, PartText
from swarm.mailbox.parts.wakeups.wakeup_messages import WakeUpEnded, WakeUpFired, WakeUpMade
from swarm.mailbox.protocol.records import Record
from swarm.mailbox.protocol.values.findings import Finding, FindingPublished

from ..agents.agent_record import AgentPlan
from ..request.run_request import RunRequest
from ..runs.paths import RunPaths
from .goals.goal_state import GoalCell
from .goals.goal_texts import goal_text
from .jobs.job_history import JobHistory
from .leases.lease_ledger import LeaseLedger
from .memories.memory_brief import brief_memories
from .memories.memory_readers import reads_memories
from .notices.notice_history import NoticePast
from .wakeups.wakeup_book import WakeUpBook


class PartFolds:
    """What each part reads of its records when a run is resumed; empty for a new run."""

    def __init__(self) -> None:
        self.findings: list[Finding] = []  # in the order of their numbers
        self.jobs = JobHistory()
        self.wakeups = WakeUpBook()
        self.goals: list[GoalRecord] = []
        self.notices = NoticePast()

    def take(self, record: Record) -> None:
        """The next record of the run's own file; each is given once, in order."""
        if isinstance(record.body, PartRecord):
            self._take(record.agent, record.ts, record.body)

    def _take(self, agent: str, ts: float, body: PartRecord) -> None:
        match body:
            case FindingPublished(finding=finding):
                self.findings.append(finding)
            case JobBegan() | JobClosed():
                self.jobs.take(agent, body)
            case WakeUpMade() | WakeUpFired() | WakeUpEnded():
                self.wakeups.take(agent, body)
            case GoalStep():
                self.goals.append(body)
            case NoticeBegan():
                self.notices.take(ts, body)
            case HeavyCommandEnded() | MemoryMarked() | JobRowEnded() | NoticeEnded():
                pass  # these are read from files of their own
            case _:
                assert_never(body)


class RunParts:
    """Made with the run."""

    def __init__(self, request: RunRequest, paths: RunPaths, folds: PartFolds) -> None:
        self._request = request
        self.folds = folds
        self.leases = LeaseLedger(paths.folder.parent, request.parts.leases, cwd=request.cwd)
        self.goal = GoalCell(request.parts.goals, folds.goals)

    @property
    def _can_tell(self) -> bool:
        notices = self._request.parts.notices
        return bool(notices.sinks) and "agents" in notices.about

    def rules_for(self, plan: AgentPlan) -> PartRules:
        """What a new process of this agent is told."""
        if plan.slotless:
            return PartRules()
        goal = self._request.parts.goals.goal if plan.path == ROOT_PATH else Goal()
        is_reader, text = reads_memories(self._request, plan), self._request.parts.memories.text
        return PartRules(
            leases=self.leases.rules_for_agents(),
            memories=MemoryAccess(is_reader=is_reader),
            goals=GoalAccess(has_goal=plan.path == ROOT_PATH and self.goal.is_set),
            notices=NoticeAccess(can_tell=plan.path == ROOT_PATH and self._can_tell),
            texts=(
                *((PartText(text=text, brief=brief_memories(text)),) if is_reader else ()),
                *((goal_text(goal),) if goal.text else ()),
            ),
        )

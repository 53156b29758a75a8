"""The parts: what each adds to a run's settings, to what agents are told, and to messages.

The kernel names this list, never what a part consists of. A new part adds itself to each of these.
"""

from typing import Literal

import msgspec

from ..protocol.values.base import Value
from ..protocol.values.findings import FindingPublished
from .accounts.account_messages import AccountSource
from .clouds.cloud_messages import CloudCredentials
from .findings.finding_messages import (
    FINDING_TOOLS,
    FindingAccepted,
    FindingsFound,
    PublishFinding,
    RecallFindings,
    ShareFindings,
)
from .goals.goal_messages import (
    GOAL_TOOLS,
    GetGoal,
    GoalAccess,
    GoalChecked,
    GoalChecking,
    GoalCleared,
    GoalPaused,
    GoalReported,
    GoalSet,
    GoalSettings,
    GoalShown,
    GoalTold,
    SteerGoal,
    UpdateGoal,
)
from .jobs.job_messages import (
    JOB_TOOLS,
    START_JOB,
    JobBegan,
    JobClosed,
    JobEnded,
    JobRowEnded,
    ReportJobResult,
    ResultAccepted,
    SpawnOnCsv,
)
from .leases.lease_messages import (
    FormerLeaseSettings,
    HeavyCommandEnded,
    LeaseGiven,
    LeaseRules,
    LeaseSettings,
    QueuedForLease,
    TakeLease,
)
from .machines.machine_messages import DrainHost
from .memories.memory_messages import (
    MEMORY_TOOLS,
    MemoriesFound,
    MemoryAccess,
    MemoryMarked,
    MemoryReported,
    RecallMemories,
    ReportStaleMemory,
    RunMemories,
    former_memories,
)
from .notices.notice_messages import (
    NOTICE_TOOLS,
    NoticeAccess,
    NoticeBegan,
    NoticeEnded,
    NotifySettings,
    PersonTold,
    TellPerson,
)
from .wakeups.wakeup_messages import (
    WAKE_TOOLS,
    CancelWakeUps,
    LimitOver,
    TakeBackWakeUp,
    WaitForLimit,
    WakeMe,
    WakeUp,
    WakeUpKept,
    WakeUpRecord,
    WakeUpSettings,
    WakeUpTakenBack,
)

PartRequest = TakeLease  # of agents; the part replies when it will
PartQueued = QueuedForLease  # told before the reply, any number of times
PartQuestion = (  # of agents; one answer each
    RecallMemories
    | ReportStaleMemory
    | PublishFinding
    | RecallFindings
    | SpawnOnCsv
    | ReportJobResult
    | WakeMe
    | TakeBackWakeUp
    | WaitForLimit
    | GetGoal
    | UpdateGoal
    | TellPerson
)
PartReply = (
    LeaseGiven
    | MemoriesFound
    | MemoryReported
    | FindingAccepted
    | FindingsFound
    | JobEnded
    | ResultAccepted
    | WakeUpKept
    | WakeUpTakenBack
    | LimitOver
    | GoalTold
    | PersonTold
)
PartOp = ShareFindings  # sent to agents; the part in the agent's process takes it
PartControl = DrainHost | SteerGoal | CancelWakeUps  # of a person, to a live run; one answer each
PartControlReply = GoalShown  # an answer that is more than text
PartEvent = HeavyCommandEnded  # of agents; journaled as it is
PartKeySource = AccountSource  # what gives a provider its key, in the gateway
PartCredentials = CloudCredentials  # the same by a provider's table; it may sign requests
PartRecord = (  # all that a part journals
    PartEvent
    | MemoryMarked
    | FindingPublished
    | JobBegan
    | JobRowEnded
    | JobClosed
    | GoalSet
    | GoalChecking
    | GoalChecked
    | GoalReported
    | GoalPaused
    | GoalCleared
    | NoticeBegan
    | NoticeEnded
    | WakeUpRecord
)
PartEndState = Literal["unmet"]  # how a run ends by the word of a part
# Questions whose answer needs other agents: who waits for it can do without a process.
PART_WAITS: dict[type[object], str] = {SpawnOnCsv: START_JOB.name}
PART_TOOLS = (
    *JOB_TOOLS,
    *FINDING_TOOLS,
    *MEMORY_TOOLS,
    *WAKE_TOOLS,
    *GOAL_TOOLS,
    *NOTICE_TOOLS,
)  # of agents


class PartSettings(Value):
    """What the configuration says of each part, for a whole run."""

    leases: LeaseSettings = LeaseSettings()
    memories: RunMemories = RunMemories()
    wakeups: WakeUpSettings = WakeUpSettings()
    goals: GoalSettings = GoalSettings()
    notices: NotifySettings = NotifySettings()


class FormerPartSettings(Value):
    """The same where runs kept it before there were parts; None: a run of today."""

    leases: FormerLeaseSettings | None = None
    memories: dict[str, object] | None = None
    memory_text: str = ""

    def on(self, settings: PartSettings) -> PartSettings:
        """The settings of a run that may be a former one. Raises ValidationError."""
        if self.leases is not None:
            settings = msgspec.structs.replace(settings, leases=self.leases.settings)
        if self.memories is not None:
            memories = former_memories(self.memories, self.memory_text)
            settings = msgspec.structs.replace(settings, memories=memories)
        return settings


class PartText(Value):
    """What models are told of a part at the start of a conversation."""

    text: str
    brief: str = ""  # for a model that reads little


class PartRules(Value):
    """What an agent's process is told of each part."""

    leases: LeaseRules = LeaseRules()
    memories: MemoryAccess = MemoryAccess()
    goals: GoalAccess = GoalAccess()
    notices: NoticeAccess = NoticeAccess()
    texts: tuple[PartText, ...] = ()


class PartFigures(Value):
    """What a view of the whole run shows of each part: a fold of what the part journaled."""

    findings: int = 0  # that agents have published for each other
    wake_ups: tuple[WakeUp, ...] = ()  # that have not fired
    goal: str = ""  # how it stands, in words

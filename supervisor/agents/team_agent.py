"""One agent as its team knows it, and how it is archived once it has finished.

The archived state holds all that later requests need: no caller can tell the difference.
"""

from collections import deque

import msgspec
import trio

from swarm.mailbox.protocol.ops import Mail
from swarm.mailbox.protocol.records import AgentEnded, InputPosted
from swarm.mailbox.protocol.requests import TeamMember

from .finished_agents import FinishedAgent
from .live_agent import AgentPlan, LiveAgent, Spending, TurnEnd

ACTIVE_STATES = frozenset({"queued", "starting", "running"})
IDLE = "idle"  # started, and never given work
PREVIEW_CHARS = 500


class SuspendedTurn:
    """A turn suspended in the middle of one call, to continue in another process."""

    def __init__(self, *, turn_id: str, call_id: str, tool: str) -> None:
        self.turn_id, self.call_id, self.tool = turn_id, call_id, tool
        self.output: str | None = None  # the call's output, once known
        self.success = True


class TeamAgent:
    """One agent as its team knows it. Only TeamService changes it, and TeamMembers its state."""

    def __init__(self, plan: AgentPlan, *, state: str) -> None:
        self.plan = plan
        self.state = state  # queued, starting, running, idle, or an EndState
        self.live_agent: LiveAgent | None = None  # set while it has a process or is suspended
        self.epoch = 0
        self.unread_mail: dict[str, Mail] = {}  # sent, and not yet in its history
        self.undelivered_inputs: dict[str, InputPosted] = {}  # sent while it had no process
        self.outbox: deque[Mail] = deque()  # journaled, and not yet delivered
        self.outcome: AgentEnded | None = None
        self.last_turn_end: TurnEnd | None = None
        self.last_task = ""
        self.end_count = 0  # how often its work reached an end state
        self.children: dict[str, str] = {}  # those not closed: path → nickname
        self.ends_reported = 0  # how many of its ends its parent knows of
        self.order = 0  # its place in the order in which agents were added
        self.closed = False  # for good: killed or closed
        self.is_starting = False  # a process of it is being started
        self.start_scope: trio.CancelScope | None = None  # of its first start, while in progress
        self.deaths: list[float] = []
        self.spending = Spending()
        self.suspended: SuspendedTurn | None = None
        self.forgotten = False  # it reports elsewhere, or it never started

    @property
    def path(self) -> str:
        return self.plan.path

    @property
    def is_active(self) -> bool:
        """It works, or is about to."""
        return self.state in ACTIVE_STATES

    @property
    def result(self) -> str | None:
        """The result of its work, or why there is none."""
        return self.outcome.message if self.outcome is not None else None

    def as_reply(self) -> TeamMember:
        """This member in a reply."""
        return TeamMember(
            path=self.path,
            status=self.state,
            result=None if self.is_active else self.result,
            last_task=self.last_task,
            nickname=self.plan.nickname,
            role=self.plan.role.name,
        )

    @property
    def can_be_archived(self) -> bool:
        """It has had a process, nothing of it is in progress, and nothing waits for it."""
        return not (
            self.is_active
            or not self.epoch
            or self.live_agent is not None
            or self.unread_mail
            or self.outbox
            or self.is_starting
            or self.suspended is not None
        )

    def as_finished(self) -> FinishedAgent:
        """This member as a row of the archive."""
        plan = self.plan
        rest = _FinishedState(
            plan=plan,
            state=self.state,
            epoch=self.epoch,
            outcome=self.outcome,
            last_turn_end=self.last_turn_end,
            last_task=self.last_task,
            ends=self.end_count,
            told=self.ends_reported,
            closed=self.closed,
            usd=self.spending.usd,
        )
        return FinishedAgent(
            path=self.path,
            parent=plan.parent or "",
            owner=plan.agent_id,
            order=self.order,
            nickname=plan.nickname,
            is_child=plan.reports and not self.closed,
            encoded=_encode(rest),
        )


class _FinishedState(msgspec.Struct, array_like=True):
    """The fields of a resting member that are archived."""

    plan: AgentPlan
    state: str
    epoch: int
    outcome: AgentEnded | None
    last_turn_end: TurnEnd | None
    last_task: str
    ends: int
    told: int
    closed: bool
    usd: float | None


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(_FinishedState).decode


def restore_agent(kept: FinishedAgent) -> TeamAgent:
    """The member as it was archived."""
    rest = _decode(kept.encoded)
    member = TeamAgent(rest.plan, state=rest.state)
    member.epoch, member.order = rest.epoch, kept.order
    member.outcome, member.last_turn_end = rest.outcome, rest.last_turn_end
    member.last_task, member.closed = rest.last_task, rest.closed
    member.end_count, member.ends_reported = rest.ends, rest.told
    member.spending = Spending(rest.usd)
    return member

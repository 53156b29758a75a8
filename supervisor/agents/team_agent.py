"""One agent as its team knows it, and what of it lies on the shelf once it has finished.

Rule guarded: what is put away is all that a later question needs: who asks cannot tell.
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
IDLE = "idle"  # started, and never asked anything
PREVIEW_CHARS = 500


class SuspendedTurn:
    """A turn that stopped in the middle of one call, to go on in another process."""

    def __init__(self, *, turn_id: str, call_id: str, tool: str) -> None:
        self.turn_id, self.call_id, self.tool = turn_id, call_id, tool
        self.output: str | None = None  # what the call came to, once it is known
        self.success = True


class TeamAgent:
    """One agent as its team knows it. Changed by the agency alone, its state by `Team`."""

    def __init__(self, plan: AgentPlan, *, state: str) -> None:
        self.plan = plan
        self.state = state  # queued, starting, running, idle, or an EndState
        self.live_agent: LiveAgent | None = None  # kept while a process lives or is suspended
        self.epoch = 0
        self.unread_mail: dict[str, Mail] = {}  # posted, and not yet in its history
        self.undelivered_inputs: dict[str, InputPosted] = {}  # said to it while it had no life
        self.outbox: deque[Mail] = deque()  # journaled, and not yet handed over
        self.outcome: AgentEnded | None = None
        self.last_turn_end: TurnEnd | None = None
        self.last_task = ""
        self.end_count = 0  # how often its work reached an end state
        self.children: dict[str, str] = {}  # those not closed: path → nickname
        self.ends_reported = 0  # which of its ends its parent has heard of
        self.order = 0  # its place in the order of coming
        self.closed = False  # for good: killed or closed
        self.is_starting = False  # a life of it is being started
        self.start_scope: trio.CancelScope | None = None  # of its first life, while it is begun
        self.deaths: list[float] = []
        self.spending = Spending()
        self.suspended: SuspendedTurn | None = None
        self.forgotten = False  # its answer went elsewhere, or it never lived

    @property
    def path(self) -> str:
        return self.plan.path

    @property
    def is_active(self) -> bool:
        """Works, or is about to."""
        return self.state in ACTIVE_STATES

    @property
    def result(self) -> str | None:
        """What its work came to, or why it did not."""
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
        """It has lived, nothing of it goes on, and nothing waits for it."""
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
        """Itself for the shelf."""
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
    """What of a member that is at rest has a value of its own."""

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
    """The member as it was put away."""
    rest = _decode(kept.encoded)
    member = TeamAgent(rest.plan, state=rest.state)
    member.epoch, member.order = rest.epoch, kept.order
    member.outcome, member.last_turn_end = rest.outcome, rest.last_turn_end
    member.last_task, member.closed = rest.last_task, rest.closed
    member.end_count, member.ends_reported = rest.ends, rest.told
    member.spending = Spending(rest.usd)
    return member

"""The record of one agent: its plan, its phase and its work.

Only `AgentDirectory.apply` changes the phase. A new process gets a new `AgentProcess`.
"""

from collections import deque
from collections.abc import Callable

import msgspec
import trio

from swarm.mailbox.base.model_reference import ModelReference
from swarm.mailbox.protocol.events import TurnEnd
from swarm.mailbox.protocol.ops import Mail
from swarm.mailbox.protocol.records import AgentEnded, EndState, InputPosted
from swarm.mailbox.protocol.requests import TeamMember
from swarm.mailbox.protocol.settings import ModelSettings
from swarm.mailbox.protocol.spec import RoleBrief
from swarm.mailbox.protocol.values.base import Value
from swarm.mailbox.protocol.values.limits import Limits, ReadOnly

from ..processes.child_loop import RestartCounter
from .agent_phases import Phase
from .process_record import AgentProcess, SuspendedTurn


class AgentPlan(Value):
    """What stays the same over all processes of an agent."""

    path: str
    agent_id: str
    role: RoleBrief
    limits: Limits
    cwd: str
    parent: str | None = None
    depth: int = 0
    model_settings: ModelSettings = ModelSettings()
    fallbacks_taken: int = 0
    nickname: str = ""
    add_dirs: tuple[str, ...] = ()
    job: str = ""  # the batch job whose row it works on
    reports: bool = True  # to its parent, by mail; False: to its starter, for example the fan-out
    # A reviewer: no slot, no team, no restart, no guidance of the project.
    slotless: bool = False
    paused: bool = False  # a person paused this agent
    allowed: Limits | None = None  # in plan mode: its limits outside of it
    widened: bool = False  # a person gave it more than the run began with
    claims: tuple[str, ...] = ()  # absolute paths of files and folders that it is to write
    task_key: str = ""  # of its first task: `claims.task_key`
    host: str = ""  # the table of machines on which its processes run; "" = this one
    resources: dict[str, float] = {}  # what it takes of such a machine

    @property
    def model_reference(self) -> ModelReference:
        """Its provider and model."""
        asked = self.model_settings
        return ModelReference(provider=asked.provider, model=asked.model)

    @property
    def only_looks(self) -> bool:
        """True for one that sees the copy in which its parent works, and cannot write there."""
        sandbox = (self.allowed or self.limits).sandbox
        is_in_copy = self.limits.isolation == "copy" and self.parent is not None and not self.host
        return is_in_copy and isinstance(sandbox, ReadOnly)


class AgentSnapshot(msgspec.Struct, frozen=True, array_like=True):
    """What is kept of an agent that has no process and no work."""

    plan: AgentPlan
    closed: bool
    epoch: int  # of its last process
    outcome: AgentEnded | None
    last_turn_end: TurnEnd | None = None
    last_task: str = ""
    end_count: int = 0
    ends_reported: int = 0
    usd: float | None = None


class Agent:
    """One agent over all its processes."""

    def __init__(self, plan: AgentPlan, *, phase: Phase = Phase.NEW) -> None:
        self.plan, self.phase = plan, phase
        self.process = AgentProcess(0)  # the present or the last one; epoch 0: none so far
        self.has_started = False  # a process of it has started, in any part of the run
        self.has_begun_here = False  # a process of it has started in this supervisor's life
        self.is_starting = False  # a task starts a process of it
        self.start_scope: trio.CancelScope | None = None  # of its first start, while in progress
        self.suspended: SuspendedTurn | None = None
        self.wanted_end: EndState | None = None  # the supervisor is ending it, with this state
        self.ends_with_work = plan.reports  # its process ends with its work; else its starter does
        self.gone = trio.Event()  # its process ended and no other will be started
        self.restarts = RestartCounter()

        self.done = trio.Event()  # its work reached the end state `outcome`
        self.outcome: AgentEnded | None = None  # of its latest work that has ended
        self.last_turn_end: TurnEnd | None = None
        self.turn_ends_pending = 0  # turns that ended but whose end is not yet written
        self.end_count = self.ends_reported = 0  # ends of its work; those that its parent knows of
        self.usd: float | None = None  # paid over all its processes; None: no price is known so far
        self.open_questions = 0  # its questions that wait for an answer
        self.last_task = ""
        self.change_note = ""  # what its last turn left in its copy; "": not known

        self.pending_inputs: set[str] = set()  # inputs sent that no turn has taken up yet
        self.continue_inputs: set[str] = set()  # those of them that only mean "continue"
        self.undelivered_inputs: dict[str, InputPosted] = {}  # journaled while it had no process
        self.unread_mail: dict[str, Mail] = {}  # sent, and not yet in its history
        self.unwritten_mail: set[str] = set()  # not in the journal yet: nobody may get it
        self.outbox: deque[Mail] = deque()  # journaled, and not yet delivered

        self.order = 0  # its place in the order in which agents were added
        self.children: dict[str, str] = {}  # those not closed: path → nickname
        self.forgotten = False  # it reports elsewhere, or it never started

    @classmethod
    def restored(cls, kept: AgentSnapshot, phase: Phase) -> "Agent":
        """An agent that had processes before."""
        agent = cls(kept.plan, phase=phase)
        agent.process, agent.has_started = AgentProcess(kept.epoch), True
        agent.outcome, agent.last_turn_end = kept.outcome, kept.last_turn_end
        agent.last_task, agent.usd = kept.last_task, kept.usd
        agent.end_count, agent.ends_reported = kept.end_count, kept.ends_reported
        return agent

    def snapshot(self) -> AgentSnapshot:
        """What `restored` needs to know."""
        return AgentSnapshot(
            plan=self.plan,
            closed=self.closed,
            epoch=self.epoch,
            outcome=self.outcome,
            last_turn_end=self.last_turn_end,
            last_task=self.last_task,
            end_count=self.end_count,
            ends_reported=self.ends_reported,
            usd=self.usd,
        )

    @property
    def path(self) -> str:
        return self.plan.path

    def change_plan(self, plan: AgentPlan) -> None:
        """Its settings have changed; its next process starts with them."""
        self.plan = plan

    def note_process(self) -> None:
        """A process of it has started."""
        self.has_started = self.has_begun_here = True

    def note_last_epoch(self, epoch: int) -> None:
        """An earlier part of the run had processes of it, the last one with this epoch."""
        self.process = AgentProcess(epoch)

    @property
    def epoch(self) -> int:
        return self.process.epoch

    @property
    def identity(self) -> bytes:
        """The socket identity of its present process; the gateway reads the epoch from it."""
        return f"a/{self.plan.agent_id}/{self.epoch}".encode()

    @property
    def status(self) -> str:
        """What is shown: queued, starting, running, idle, or an EndState."""
        end = self.outcome.state if self.outcome is not None else Phase.IDLE.status
        return self.phase.status or end

    @property
    def is_active(self) -> bool:
        """It works, or is about to."""
        return self.phase.is_active

    @property
    def is_live(self) -> bool:
        """It has a process, or is between two of them because it is being restarted."""
        return self.phase.has_process

    @property
    def closed(self) -> bool:
        """It was ended for good."""
        return self.phase.is_closed

    @property
    def present_outcome(self) -> AgentEnded | None:
        """How its work ended; None while it works again."""
        return self.outcome if self.done.is_set() else None

    @property
    def has_waking_mail(self) -> bool:
        """It has unread mail that starts a turn."""
        return any(mail.trigger_turn for mail in self.unread_mail.values())

    @property
    def has_taken_work(self) -> bool:
        """An input was sent that no turn has taken up, or a turn runs, or its end is unwritten."""
        return bool(self.pending_inputs or self.process.turn or self.turn_ends_pending)

    @property
    def can_be_archived(self) -> bool:
        """It has had a process, nothing of it is in progress, and nothing waits for it."""
        return self.has_started and not (
            self.is_active
            or self.is_live
            or self.unread_mail
            or self.outbox
            or self.is_starting
            or self.suspended is not None
        )

    def as_reply(self) -> TeamMember:
        """This agent in a reply."""
        ended = self.outcome if not self.is_active else None
        return TeamMember(
            path=self.path,
            status=self.status,
            result=None if ended is None else ended.message,
            last_task=self.last_task,
            nickname=self.plan.nickname,
            role=self.plan.role.name,
            claims=self.plan.claims,
        )

    # --- processes -----------------------------------------------------------------------------

    def renew_process(self) -> None:
        """Forget the last process; the next one has the next epoch."""
        self.process = AgentProcess(self.epoch + 1, now=trio.current_time())

    def reopen(self) -> None:
        """Before a process that follows its end: what was requested then is over.

        A suspended turn continues. Otherwise new work begins, and its process ends with it.
        """
        self.gone, self.wanted_end = trio.Event(), None
        if self.done.is_set():
            self.begin_work()
            self.last_turn_end, self.ends_with_work = None, True

    def begin_start(self, scope: trio.CancelScope | None = None) -> None:
        """A task starts a process of it, in `scope` if that start may be cancelled."""
        self.is_starting, self.start_scope = True, scope

    def end_start(self) -> None:
        """No task starts a process of it any more."""
        self.is_starting, self.start_scope = False, None

    def request_end(self, state: EndState) -> None:
        """Its process is to end, with this state of its work. The first request counts."""
        if self.wanted_end is None or state == "killed":
            self.wanted_end = state

    # --- work ----------------------------------------------------------------------------------

    def begin_work(self) -> None:
        """New work: whoever waits for its end waits from now on."""
        if self.done.is_set():
            self.done = trio.Event()

    def begin_turn(self, turn_id: str) -> None:
        """A turn has started. Whatever started it, it satisfies every pending "continue"."""
        self.process.begin_turn(turn_id)
        self.pending_inputs -= self.continue_inputs | {turn_id}
        self.continue_inputs.clear()

    def note_change(self, note: str) -> None:
        """What is in its copy now; its next report says it."""
        self.change_note = note

    def end_turn(self) -> None:
        """Its turn has ended; `turn_ends_pending` counts it until its end is written."""
        self.process.end_turn()
        self.turn_ends_pending += 1

    def suspend_turn(self) -> None:
        """Suspend its turn in the one call that is open."""
        assert self.process.turn is not None
        (call_id, tool), *_ = self.process.open_calls.items()
        self.suspended = SuspendedTurn(turn_id=self.process.turn, call_id=call_id, tool=tool)

    def suspend_between_calls(self) -> None:
        """Suspend its turn where it stands: no call is open."""
        assert self.process.turn is not None
        self.suspended = SuspendedTurn(turn_id=self.process.turn, call_id="", tool="")

    def take_suspended(self) -> SuspendedTurn | None:
        """Its suspended turn, which it has no more: that ends, or continues in a process."""
        suspended, self.suspended = self.suspended, None
        return suspended

    def note_turn_end(self, end: TurnEnd) -> None:
        """Its last turn has ended so."""
        self.last_turn_end = end

    def note_task(self, text: str) -> None:
        """Another agent gave it this task."""
        self.last_task = text

    def mark_reported(self) -> None:
        """Its parent knows of its latest end."""
        self.ends_reported = self.end_count

    def expect_turn(self, input_id: str, *, is_continue: bool) -> None:
        """An input was sent; while a turn runs, the process ignores a mere "continue"."""
        if is_continue and self.process.turn is not None:
            return
        self.pending_inputs.add(input_id)
        if is_continue:
            self.continue_inputs.add(input_id)

    def end_work(self, outcome: AgentEnded) -> None:
        """Its work has ended. What no turn took up waits in the journal for a resume."""
        self.pending_inputs.clear()
        self.continue_inputs.clear()
        self.outcome = outcome
        self.done.set()

    def count_end(self) -> None:
        """An end of its work is journaled."""
        self.end_count += 1

    def begin_question(self) -> None:
        self.open_questions += 1

    def end_question(self) -> None:
        self.open_questions -= 1

    def pay(self, usd: float | None) -> None:
        if usd is not None:
            self.usd = (self.usd or 0.0) + usd


class GatewayAddress(msgspec.Struct):
    """The present address of the gateway."""

    endpoint: str = ""
    epoch: int = 0

    def move(self, endpoint_of: Callable[[int], str]) -> None:
        """The next gateway has the next epoch, and listens elsewhere."""
        self.epoch += 1
        self.endpoint = endpoint_of(self.epoch)

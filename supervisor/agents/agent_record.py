"""The record of one agent: its plan, its phase, its work, and its present process.

Only `AgentDirectory.apply` changes the phase. A new process gets a new `AgentProcess`.
"""

from collections import deque

import msgspec
import trio

from swarm.mailbox.protocol.base import Value
from swarm.mailbox.protocol.events import Heartbeat, TurnAborted, TurnCompleted, TurnFailed
from swarm.mailbox.protocol.items import (
    AnyItem,
    CustomToolCall,
    CustomToolCallOutput,
    FunctionCall,
    FunctionCallOutput,
)
from swarm.mailbox.protocol.limits import Limits
from swarm.mailbox.protocol.ops import Mail
from swarm.mailbox.protocol.records import AgentEnded, EndState, InputPosted
from swarm.mailbox.protocol.requests import TeamMember
from swarm.mailbox.protocol.settings import Summary, Verbosity
from swarm.mailbox.protocol.spec import RoleBrief

from ..processes.child_loop import RestartCounter
from ..processes.process_types import Child
from .agent_phases import Phase

TurnEnd = TurnCompleted | TurnFailed | TurnAborted


class AgentPlan(Value):
    """What stays the same over all processes of an agent."""

    path: str
    agent_id: str
    role: RoleBrief
    limits: Limits
    cwd: str
    parent: str | None = None
    depth: int = 0
    model: str | None = None
    effort: str | None = None
    provider: str | None = None  # None: the run's own
    fallback: tuple[str, ...] = ()  # `provider:model`, after a provider's final failures
    fallbacks_taken: int = 0
    nickname: str = ""
    add_dirs: tuple[str, ...] = ()
    job: str = ""  # the batch job whose row it works on
    reports: bool = True  # to its parent, by mail; False: to its starter, for example the fan-out
    # A reviewer: no slot, no team, no restart, no guidance of the project.
    slotless: bool = False
    summary: Summary = "auto"
    verbosity: Verbosity | None = None
    paused: bool = False  # a person paused this agent
    allowed: Limits | None = None  # in plan mode: its limits outside of it
    widened: bool = False  # a person gave it more than the run began with


class AgentProcess:
    """What is known of one process. Times are of Trio's clock."""

    def __init__(self, epoch: int, *, now: float = 0.0) -> None:
        self.epoch = epoch
        self.child: Child | None = None
        self.hello = trio.Event()  # it sent its Hello
        self.said_goodbye = False
        self.suspending = False  # only this process is ended: another one continues its turn
        self.is_redelivered = False  # it has its pending inputs; mail may be sent now
        self.kill_reason = ""  # why the supervisor killed it, for the journal
        self.last_heartbeat = self.progress_at = now
        self.progress = self.live_commands = 0  # as its last heartbeat said
        self.busy = self.reported_stuck = False
        self.turn: str | None = None
        self.open_calls: dict[str, str] = {}  # call id → tool, of the running turn
        self.unstarted_calls: set[str] = set()  # calls of its last response that have not begun
        self.responding = False  # a model response is still incomplete
        self.has_detached_command = False  # a call ended in this process, its command runs on
        self.rules_sent = 0  # how many of the rules saved in this run it knows
        self.gateway_endpoint = ""  # the gateway address that it knows

    @property
    def may_have_commands(self) -> bool:
        """By its last heartbeat, or because a call since then left a command running."""
        return self.live_commands > 0 or self.has_detached_command

    def note_heartbeat(self, now: float) -> None:
        """A message came from it, or its silence proves nothing."""
        self.last_heartbeat = now

    def note_goodbye(self) -> None:
        """It said that it ends in order."""
        self.said_goodbye = True

    def begin_suspension(self) -> None:
        """It is about to be killed, and another process will continue its turn."""
        self.suspending = self.said_goodbye = True

    def kill(self, reason: str) -> None:
        """SIGKILL, once; the journal gets the reason."""
        if self.child is not None and not self.kill_reason:
            self.kill_reason = reason
            self.child.kill_group()

    def note_progress(self, now: float) -> None:
        self.progress_at, self.reported_stuck = now, False

    def report_stuck(self, *, since: float) -> bool:
        """True, once, if it works without progress since then."""
        is_new = self.busy and self.progress_at < since and not self.reported_stuck
        self.reported_stuck |= is_new
        return is_new

    def take_heartbeat(self, beat: Heartbeat, *, now: float) -> bool:
        """True if a command that a call had left running has ended."""
        self.busy, self.live_commands = beat.busy, beat.live_commands
        if beat.progress != self.progress:
            self.progress = beat.progress
            self.note_progress(now)
        ended = self.has_detached_command and not beat.live_commands
        self.has_detached_command &= not ended
        return ended

    def begin_turn(self, turn_id: str) -> None:
        self.turn = turn_id
        self.open_calls.clear()
        self.unstarted_calls.clear()

    def end_turn(self) -> None:
        self.turn, self.responding = None, False
        self.open_calls.clear()

    def add_item(self, item: AnyItem, *, from_model: bool) -> None:
        """An item joined its history: note a call that will begin, or the output of one."""
        self.responding |= from_model
        match item:
            case FunctionCall(call_id=call_id) | CustomToolCall(call_id=call_id):
                self.unstarted_calls.add(call_id)
            case FunctionCallOutput(call_id=call_id) | CustomToolCallOutput(call_id=call_id):
                self.unstarted_calls.discard(call_id)
            case _:
                pass

    def end_response(self) -> None:
        self.responding = False

    def begin_call(self, call_id: str, tool: str) -> None:
        self.open_calls[call_id] = tool
        self.unstarted_calls.discard(call_id)

    def end_call(self, call_id: str, *, detached: bool) -> None:
        """`detached`: its command runs on."""
        self.open_calls.pop(call_id, None)
        self.has_detached_command |= detached


class SuspendedTurn:
    """A turn suspended in the middle of one call, to continue in another process."""

    def __init__(self, *, turn_id: str, call_id: str, tool: str) -> None:
        self.turn_id, self.call_id, self.tool = turn_id, call_id, tool
        self.output: str | None = None  # the call's output, once known
        self.success = True


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

        self.pending_inputs: set[str] = set()  # inputs sent that no turn has taken up yet
        self.continue_inputs: set[str] = set()  # those of them that only mean "continue"
        self.undelivered_inputs: dict[str, InputPosted] = {}  # journaled while it had no process
        self.unread_mail: dict[str, Mail] = {}  # sent, and not yet in its history
        self.unwritten_mail: set[str] = set()  # not in the journal yet: nobody may get it
        self.outbox: deque[Mail] = deque()  # journaled, and not yet delivered

        self.order = 0  # its place in the order in which agents were added
        self.children: dict[str, str] = {}  # those not closed: path → nickname
        self.forgotten = False  # it reports elsewhere, or it never started

    @property
    def path(self) -> str:
        return self.plan.path

    def note_process(self) -> None:
        """A process of it has started."""
        self.has_started = self.has_begun_here = True

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
    def can_be_archived(self) -> bool:
        """It has had a process, nothing of it is in progress, and nothing waits for it."""
        return self.has_started and not (
            self.is_active
            or self.phase.has_process
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

    def end_turn(self) -> None:
        """Its turn has ended; `turn_ends_pending` counts it until its end is written."""
        self.process.end_turn()
        self.turn_ends_pending += 1

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

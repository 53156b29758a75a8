"""What the supervisor knows of one agent: its plan (fixed) and its present process (changing)."""

from collections.abc import Callable

import msgspec
import trio

from swarm.mailbox.protocol.base import Value
from swarm.mailbox.protocol.events import TurnAborted, TurnCompleted, TurnFailed
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
from swarm.mailbox.protocol.settings import Summary, Verbosity
from swarm.mailbox.protocol.spec import RoleBrief

from ..processes.process_types import Child

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
    nickname: str = ""
    add_dirs: tuple[str, ...] = ()
    job: str = ""  # the batch job whose row it works on
    reports: bool = True  # to its parent, by mail; False: to its starter, for example the fan-out
    # A reviewer: no slot, no team, no restart, no guidance of the project.
    slotless: bool = False
    summary: Summary = "auto"
    verbosity: Verbosity | None = None
    paused: bool = False  # a person paused this agent


class Spending:
    """What an agent has paid over all its processes; None: no price is known so far."""

    def __init__(self, usd: float | None = None) -> None:
        self.usd = usd

    def add(self, usd: float | None) -> None:
        if usd is not None:
            self.usd = (self.usd or 0.0) + usd


class LiveAgent:
    """One agent and its present process. Owned by the agent manager."""

    def __init__(self, plan: AgentPlan, *, epoch: int) -> None:
        self.plan = plan
        self.epoch = epoch
        self.child: Child | None = None
        self.hello = trio.Event()  # this process sent its Hello
        self.gone = trio.Event()  # its process ended and no other will be started
        self.done = trio.Event()  # its work reached an end state
        self.outcome: AgentEnded | None = None
        self.last_heartbeat = trio.current_time()
        self.progress = 0
        self.progress_at = trio.current_time()
        self.busy = False
        self.reported_stuck = False
        self.turn: str | None = None
        self.turn_ends_pending = 0  # turns that ended but whose end is not yet written
        self.pending_inputs: set[str] = set()  # inputs sent that no turn has taken up yet
        self.continue_inputs: set[str] = set()  # those of them that only mean "continue"
        # Journaled while no process could receive them.
        self.undelivered_inputs: dict[str, InputPosted] = {}
        self.is_redelivered = False  # this process has its pending inputs; mail may be sent now
        self.said_goodbye = False  # it sent Goodbye
        self.wanted_end: EndState | None = None  # the supervisor is ending it, with this state
        self.kill_reason = ""  # why the supervisor killed it, for the journal
        self.deaths: list[float] = []
        self.spending = Spending()
        self.last_turn_end: TurnEnd | None = None
        self.unread_mail: dict[str, Mail] = {}  # sent, and not yet in its history
        # Path → nickname of its children.
        self.list_children: Callable[[], dict[str, str]] = dict[str, str]
        self.open_questions = 0  # its questions that wait for an answer
        self.open_calls: dict[str, str] = {}  # call id → tool, of the running turn
        self.unstarted_calls: set[str] = set()  # calls of its last response that have not begun
        self.responding = False  # a model response is still incomplete
        self.live_commands = 0
        self.has_detached_command = False  # a call ended in this process, its command runs on
        self.rules_sent = 0  # how many of the rules saved in this run this process knows
        self.gateway_endpoint = ""  # the gateway address that this process knows
        self.suspending = False  # only this process is ended: another one continues its work
        self.paused = False  # a person paused it: it makes no requests
        # Its process ends with its work; else its starter ends it.
        self.ends_with_work = plan.reports

    @property
    def path(self) -> str:
        return self.plan.path

    @property
    def identity(self) -> bytes:
        """The socket identity of this process."""
        return agent_identity(self.plan.agent_id, self.epoch)

    def reset_for_process(self, epoch: int) -> None:
        """Forget what belonged to the previous process."""
        self.epoch = epoch
        self.child = None
        self.hello = trio.Event()
        self.last_heartbeat = self.progress_at = trio.current_time()
        self.said_goodbye, self.busy, self.reported_stuck = False, False, False
        self.turn, self.kill_reason = None, ""
        self.open_calls.clear()
        self.unstarted_calls.clear()
        self.responding, self.has_detached_command, self.suspending = False, False, False
        self.live_commands, self.is_redelivered = 0, False

    def begin_turn(self, turn_id: str) -> None:
        """A turn has started. Whatever started it, it satisfies every pending "continue"."""
        self.turn = turn_id
        self.pending_inputs -= self.continue_inputs | {turn_id}
        self.continue_inputs.clear()
        self.open_calls.clear()
        self.unstarted_calls.clear()

    def track_calls(self, item: AnyItem) -> None:
        """An item joined its history: note a call that will begin, or the output of one."""
        match item:
            case FunctionCall(call_id=call_id) | CustomToolCall(call_id=call_id):
                self.unstarted_calls.add(call_id)
            case FunctionCallOutput(call_id=call_id) | CustomToolCallOutput(call_id=call_id):
                self.unstarted_calls.discard(call_id)
            case _:
                pass

    def expect_turn(self, input_id: str, *, is_wish: bool) -> None:
        """An input was sent; while a turn runs, the process ignores a mere "continue"."""
        if is_wish and self.turn is not None:
            return
        self.pending_inputs.add(input_id)
        if is_wish:
            self.continue_inputs.add(input_id)

    def reset_after_end(self, epoch: int) -> None:
        """Like `reset_for_process`, but also forget an end that was requested."""
        self.reset_for_process(epoch)
        self.gone = trio.Event()
        self.wanted_end = None


def agent_identity(agent_id: str, epoch: int) -> bytes:
    """The identity of one process: `a/<agent id>/<epoch>`; the gateway reads the epoch from it."""
    return f"a/{agent_id}/{epoch}".encode()


class GatewayAddress(msgspec.Struct):
    """The present address of the gateway."""

    endpoint: str = ""
    epoch: int = 0

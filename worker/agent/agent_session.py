"""One agent's session: applies the supervisor's ops and runs one turn at a time.

No op waits for a turn. An op is acknowledged when it is applied, and applying it does not block:
input and mail go to the inbox, the other ops set state or signal.
"""

from typing import assert_never

import msgspec
import trio

from swarm.mailbox.base.errors import MessageTooLarge
from swarm.mailbox.delivery.interfaces import Mailbox, ReceivedMessage
from swarm.mailbox.parts.part_messages import PartOp
from swarm.mailbox.protocol.events import Warned
from swarm.mailbox.protocol.items import decode_item
from swarm.mailbox.protocol.ops import (
    Answer,
    AnyOp,
    ApplySettings,
    AskModel,
    AskPermissionHooks,
    Compact,
    Continue,
    Deliver,
    GatewayMoved,
    Interrupt,
    LearnRule,
    ListSkills,
    Mail,
    Notice,
    Pause,
    RollBackTurns,
    Shutdown,
    UndoCompaction,
    UserInput,
    WithdrawModelQuestion,
    decode_op,
)

from ..base.token_meter import measure_item
from .context.history_repair import repair_history
from .context.prompt_context import find_known_context
from .loop.history_compaction import HistoryCompactor
from .loop.turn_loop import run_turn
from .state.agent_state import AgentState
from .state.permission_answers import PermissionQuestions
from .state.server_answers import QueuedQuestions
from .turn.turn_state import AbortReason

IDLE_AFTER_S = 60.0  # for Notification hooks
_REASONS: dict[str, AbortReason] = {
    "budget": "budget",
    "deadline": "deadline",
    "replaced": "replaced",
}


class AgentSession:
    """Runs an agent's turns and applies ops to its state."""

    def __init__(self, state: AgentState) -> None:
        self.state, self._compactor = state, HistoryCompactor(state)
        self.server_questions, self.permission_questions = QueuedQuestions(), PermissionQuestions()
        self._closing = False
        self._work_arrived = trio.Event()
        self._idle = trio.Event()

    async def run_turns(self) -> None:
        """Run turns one after another, as the inbox requires; loops for ever."""
        while True:
            opening = self.state.inbox.next_opening()
            if opening is not None and not self._closing:
                self._idle = trio.Event()
                await run_turn(self.state, self._compactor, opening)
                continue
            if self._compactor.is_requested and not self._closing:
                self._idle = trio.Event()
                await self._compactor.run_while_idle()
                continue
            self._idle.set()
            self._work_arrived = trio.Event()
            await self._wait_work()

    async def _wait_work(self) -> None:
        """Wait for input or mail; hooks are told once when the root has waited for long."""
        if self.state.hooks.announces_idle:
            with trio.move_on_after(IDLE_AFTER_S):
                await self._work_arrived.wait()
                return
            self.state.hooks.on_idle()
        await self._work_arrived.wait()

    async def serve_ops(self, post: Mailbox) -> Shutdown:
        """Apply each op as soon as it is received; return at Shutdown."""
        last: list[Shutdown] = []

        def take(message: ReceivedMessage) -> bool:
            try:
                op = decode_op(message.body)
            except msgspec.DecodeError as error:
                self.state.reporter.emit(Warned(message=f"an order could not be read: {error}"))
                post.acknowledge(message)
                return False
            self.apply(op)
            post.acknowledge(message, soon=False)
            if isinstance(op, Shutdown):
                last.append(op)
            return bool(last)

        await post.consume(take)
        return last[0]

    def apply(self, op: AnyOp) -> None:  # noqa: C901 - a case for each op
        """Apply one op, without waiting."""
        state = self.state
        if isinstance(op, PartOp):
            state.parts.take(op)
            return
        match op:
            case UserInput():
                self.admit_input(op)
            case Deliver(mail=mail):
                self.deliver_mail(mail)
            case Notice():
                state.inbox.add_notice(op)
            case Interrupt(reason=reason, keep_commands=keep):
                self.interrupt(_REASONS.get(reason, "interrupted"), keep_commands=keep)
            case Compact() | UndoCompaction():
                self.request_compaction(None if isinstance(op, Compact) else op)
            case RollBackTurns():
                self.roll_back(op)
            case ApplySettings(settings=settings):
                state.wanted_settings = settings
            case LearnRule() | ListSkills():
                state.learn(op)
            case Pause():
                state.pause.begin()
            case Continue():
                state.pause.end()
            case AskModel() | WithdrawModelQuestion() | AskPermissionHooks():
                self._take_question(op)
            case GatewayMoved(endpoint=endpoint, token=token):
                state.sampler.move(state.spec.gateway.door or endpoint, token)
            case Answer(request_id=request_id, reply=reply):
                state.reporter.receive_reply(request_id, reply)
            case Shutdown():
                pass
            case _:
                assert_never(op)

    def _take_question(self, op: AskModel | WithdrawModelQuestion | AskPermissionHooks) -> None:
        if isinstance(op, AskPermissionHooks):
            self.permission_questions.take(op)
        else:
            self.server_questions.take(op)

    def admit_input(self, user_input: UserInput) -> None:
        """Add a person's input: it joins the running turn or starts one."""
        running = self.state.turn is not None and self.state.turn.is_open
        if self.state.inbox.add_input(user_input, running=running):
            self._work_arrived.set()

    def deliver_mail(self, mail: Mail) -> None:
        """Add mail: it joins the running turn or the next one, or starts one."""
        if self.state.inbox.add_mail(mail):
            self._work_arrived.set()

    def interrupt(self, reason: AbortReason, *, keep_commands: bool = False) -> None:
        """Abort the running turn, as `AgentState.interrupt` does, or work between two turns."""
        self.state.interrupt(reason, keep_commands=keep_commands)
        self._compactor.interrupt()

    def request_compaction(self, undo: UndoCompaction | None) -> None:
        """Compact the history or undo a compaction, as a person asked, before the next request."""
        if undo is None:
            self._compactor.request()
        else:
            self._compactor.request_undo(undo)
        self._work_arrived.set()

    def roll_back(self, op: RollBackTurns) -> None:
        """Restore the items before the last turns, or emit a warning why not. Never waits.

        The history stays complete (each call has its output). The context already told is read
        again from the remaining items, so that the next turn repeats what was removed.
        """
        state = self.state
        if state.turn is not None or self._compactor.is_running:
            state.reporter.emit(
                Warned(
                    message="no turn was taken back: one has begun since; interrupt it, then again"
                )
            )
            return
        items = repair_history(tuple(decode_item(bytes(raw)) for raw in op.items)).items
        try:
            state.replace_history("", items, rolled_back=op.turns)
        except MessageTooLarge as error:
            state.reporter.emit(Warned(message=f"no turn was taken back: {error}"))
            return
        state.known_context = find_known_context(items, cwd=state.spec.cwd)
        state.meter.start_over(sum(map(measure_item, items)))

    async def close(self, reason: AbortReason) -> None:
        """Abort the turn, start no other and return when none runs; the caller sets the deadline.

        The caller ends the commands.
        """
        self._closing = True
        self.state.abort_turn(reason, commands_ended=True)
        self._compactor.interrupt()
        await self._idle.wait()

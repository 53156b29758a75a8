"""One attempt at one response: records items as they arrive and starts calls at once.

Calls run in their order: a call takes its place when it arrives, not when its task first runs (Trio
starts tasks in no fixed order), so no call overtakes another. The history holds all items of the
response in stream order, then all outputs in call order, and every call gets exactly one output
whatever happens to the stream.
"""

from collections import deque
from types import TracebackType
from typing import assert_never

import msgspec
import trio

from swarm.mailbox.protocol.context_sizes import HeadSizes
from swarm.mailbox.protocol.events import ReasoningArrived, TextArrived, Waiting
from swarm.mailbox.protocol.items import (
    AnyCall,
    AnyItem,
    Compaction,
    CustomToolCall,
    CustomToolCallOutput,
    FunctionCall,
    FunctionCallOutput,
    Message,
    ProviderItem,
    Reasoning,
    text_of,
)
from swarm.mailbox.protocol.sampling import (
    ReasoningDelta,
    SampleCompleted,
    SampleFailed,
    SampleItemDone,
    SampleItemStarted,
    SampleWaiting,
    TextDelta,
)

from ...tools.interface.tool_interface import ABORTED_CALL, ToolResult
from ..context.request_head import measure_head
from ..state.agent_state import AgentState
from ..state.sampler import SampleParameters, SampleStreamEvent, SamplingError
from ..turn.next_step import ResponseSummary
from ..turn.turn_state import PendingCall, Turn

NO_BUDGET_TEXT = "not run: the budget is used up, and this was the last request"


class LockTicket:
    """One place in the queue, to be used once with `async with`."""

    def __init__(self, lock: "CallLock", *, shared: bool) -> None:
        self._lock, self.shared = lock, shared
        self.granted = trio.Event()

    async def __aenter__(self) -> None:
        try:
            await self.granted.wait()
        except BaseException:
            self._lock.release(self)
            raise

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._lock.release(self)


class CallLock:
    """Shared places run together, any other place runs alone, all in order of arrival."""

    def __init__(self) -> None:
        self._waiting: deque[LockTicket] = deque()
        self._running: set[LockTicket] = set()

    def reserve(self, *, shared: bool) -> LockTicket:
        """Join the queue. The place must be entered once, or it blocks those behind it."""
        place = LockTicket(self, shared=shared)
        self._waiting.append(place)
        self._grant_waiting()
        return place

    def release(self, place: LockTicket) -> None:
        """Release the place, whether it was granted or still waits."""
        self._running.discard(place)
        if place in self._waiting:
            self._waiting.remove(place)
        self._grant_waiting()

    def _grant_waiting(self) -> None:
        while self._waiting:
            first = self._waiting[0]
            alone = not self._running
            if not alone and not (first.shared and all(one.shared for one in self._running)):
                return
            self._waiting.popleft()
            self._running.add(first)
            first.granted.set()


class SampleAttempt:
    """Samples once, runs the calls, records the outputs. Use it once."""

    def __init__(self, state: AgentState, turn: Turn) -> None:
        self._state, self._turn = state, turn
        self._call_lock = CallLock()
        self._item_ids: dict[str, str] = {}  # the gateway's item ids → this run's item ids
        self._calls: trio.Nursery | None = None
        self._needs_token_count = False  # an item was emitted, and no token count after it
        self.response = ResponseSummary()

    async def run(self, question: SampleParameters) -> SampleFailed | None:
        """Return why the stream failed, None if it did not; its calls have ended in both cases.

        A token count follows every response of which an item was emitted, also a failed one: while
        its calls run, the supervisor must know that no more calls will come.
        """
        failed: SampleFailed | None = None
        async with trio.open_nursery() as self._calls:
            self._state.meter.note_request(self._measure(question))
            try:
                completed = await self._state.sampler.sample(question, self._on_event)
            except SamplingError as trouble:
                failed = trouble.failed
            else:
                if completed is None:
                    self.response = msgspec.structs.replace(self.response, cut_for_mail=True)
                else:
                    self._complete(completed)
            if self._needs_token_count:
                self._emit_token_count()
        self._state.record_outputs(self._turn)
        return failed

    def _measure(self, question: SampleParameters) -> HeadSizes:
        return measure_head(
            question.instructions,
            question.tools,
            schema=question.output_schema,
            role=self._state.spec.role,
            guidance_files=self._state.guidance_files,
        )

    def _complete(self, completed: SampleCompleted) -> None:
        state, turn = self._state, self._turn
        self.response = msgspec.structs.replace(
            self.response, end_turn=completed.end_turn, truncated=completed.truncated
        )
        state.meter.add_response(completed.usage)
        if completed.usage is not None:
            turn.usage = turn.usage.plus(completed.usage)
        self._emit_token_count()

    def _emit_token_count(self) -> None:
        """Emit the count that ends the response, with its known cost."""
        self._needs_token_count = False
        state, turn = self._state, self._turn
        state.reporter.emit(state.meter.take_count(turn.turn_id, turn.model))

    # --- events of the gateway -----------------------------------------------------------------

    def _on_event(self, event: SampleStreamEvent) -> bool:
        """Apply one event; True ends the response early because mail is pending."""
        reporter, turn_id = self._state.reporter, self._turn.turn_id
        match event:
            case TextDelta(item_id=item_id, delta=delta):
                reporter.emit_delta(TextArrived, turn_id, self._item_id(item_id), delta)
            case ReasoningDelta(item_id=item_id, delta=delta):
                reporter.emit_delta(ReasoningArrived, turn_id, self._item_id(item_id), delta)
            case SampleItemStarted():
                reporter.progress += 1
            case SampleItemDone(item=item):
                return self._record_item(item)
            case SampleWaiting(reason=reason):
                reporter.emit_transient(
                    Waiting(
                        reason=reason,
                        delay_s=event.delay_s,
                        attempt=event.attempt,
                        max_attempts=event.max_attempts,
                    )
                )
            case _:
                assert_never(event)
        return False

    def _item_id(self, item_id: str) -> str:
        name = self._item_ids.get(item_id)
        if name is None:
            name = self._item_ids[item_id] = self._state.new_item_id()
        return name

    def _record_item(self, item: AnyItem) -> bool:
        """Record a complete item; start it if it is a call."""
        state, turn = self._state, self._turn
        match item:
            case FunctionCallOutput() | CustomToolCallOutput() | Compaction():
                return False  # the model may not send outputs or compactions
            case FunctionCall() | CustomToolCall():
                item = self._with_unique_id(item)
                name = self._item_id(item.id) if item.id else state.new_item_id()
            case _:
                name = self._item_id(item.id) if item.id else state.new_item_id()
        state.reporter.discard_deltas(TextArrived, name)
        state.reporter.discard_deltas(ReasoningArrived, name)
        state.record(turn.turn_id, item, source="model", item_id=name)
        self._needs_token_count = True
        match item:
            case FunctionCall() | CustomToolCall():
                self._start(item)
                return False
            case Message():
                return self._note_message(item)
            case Reasoning():
                return state.inbox.mail_joins_now
            case ProviderItem():
                return False

    def _note_message(self, message: Message) -> bool:
        text = text_of(message.content)
        if text.strip():
            commentary = message.phase == "commentary"
            answer = self.response.answer if commentary else text
            self.response = msgspec.structs.replace(self.response, remark=text, answer=answer)
            if not commentary:
                self._state.inbox.note_answer_shown()
        return message.phase == "commentary" and self._state.inbox.mail_joins_now

    # --- calls --------------------------------------------------------------------------------

    def _with_unique_id(self, call: AnyCall) -> AnyCall:
        """Return the call with an unused id if it has none or a repeated one: its output must match
        it, and no call of a session runs twice. Some servers restart ids in each response.
        """
        taken = self._state.history.call_ids
        if call.call_id and call.call_id not in taken:
            return call
        numbers = range(2, len(taken) + 3)
        base = call.call_id or "call"
        free = next(name for number in numbers if (name := f"{base}-{number}") not in taken)
        return msgspec.structs.replace(call, call_id=free)

    def _start(self, call: AnyCall) -> None:
        state = self._state
        self.response = msgspec.structs.replace(self.response, called_tools=True)
        state.inbox.note_tool_called()
        tool = state.orchestrator.registry.find(call.name)
        shared = tool is None or tool.parallel
        pending = PendingCall(
            call,
            aborted_text=ABORTED_CALL if tool is None else tool.aborted_text,
            started=trio.current_time(),
        )
        self._turn.pending.append(pending)
        if self._turn.is_last_request:
            pending.outcome = ToolResult(content=NO_BUDGET_TEXT, status="failed")
            return
        place = self._call_lock.reserve(shared=shared)
        if self._calls is None:
            raise RuntimeError("a call came while no attempt runs")
        self._calls.start_soon(self._perform, pending, place)

    async def _perform(self, pending: PendingCall, place: LockTicket) -> None:
        async with place:
            outcome = await self._state.orchestrator.perform(
                pending.call, turn_id=self._turn.turn_id
            )
            pending.settle(outcome)
            if outcome.ends_turn:  # a person decided so, like an interrupt
                self._state.interrupt("interrupted")

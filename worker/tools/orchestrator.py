"""Performs one call: prepare, judge, journal its begin, request approval, run, emit its end.

A call runs only after its begin is journaled, unless it only sends a request to the supervisor. An
approval request follows the begin in the same message stream. A call that needs approval and gets
none is refused with an output that the model reads; the run continues.
"""

from collections.abc import Awaitable, Callable, Iterator
from typing import Literal

import msgspec
import trio

from swarm.mailbox.protocol.events import (
    AnyCallDetail,
    CallBegan,
    CallEnded,
    OtherCall,
    OutputArrived,
)
from swarm.mailbox.protocol.items import AnyCall, CustomToolCall, FunctionCall
from swarm.mailbox.protocol.sampling import ModelInfo, ToolSpec
from swarm.mailbox.protocol.settings import ToolChoice
from swarm.roles.parts.hooks.hook_combination import HookVerdict

from ..base.reporter import Reporter
from ..base.truncate import truncate_middle
from ..parts.hooks.tool_hooks import HookedCall, RewriteRefused, ToolHooks, rewritten_call
from ..policy.command_decision import Ask, PolicyDecision, Run
from .approval_requester import ApprovalRequester
from .interface.tool_context import ToolContext
from .interface.tool_interface import (
    FileChangingInvocation,
    Invocation,
    RetriableInvocation,
    SupervisorRequestOnly,
    Tool,
    ToolFailed,
    ToolResult,
    TurnTakingInvocation,
)
from .small_tools import ALL_TOOLS, fitting_tools, shorten
from .trained_calls import meant_call, tool_behind

EndStatus = Literal["completed", "failed", "declined", "interrupted"]
SHOWN_BYTES = 10_000  # of an output, to people and the journal
FIRST_TRY_BYTES = 8_000  # of a command's output in the sandbox, when it was run again outside
_REASON_BYTES = 2_000  # of the same output, for the approver
_ARGUMENT_CHARS = 200
_NAMED_TOOLS = 40  # in the answer to a call of an unknown one


class ToolRegistry:
    """The tools of one agent, in the order in which they are described to models.

    Order and bytes of the list change in a conversation only where another process offers other
    tools than before, or limits change, between two turns (prompt caches). `load_again` returns
    None where nothing changed; `version` counts the changes. `choice`: the role's; a tool that it
    takes away cannot be called. `context`: says what can be used at all, is told of turns and
    offers, and holds what a small model may call now.
    """

    def __init__(
        self,
        tools: tuple[Tool, ...],
        *,
        load_more: Callable[[], Awaitable[tuple[Tool, ...]]] | None = None,
        load_again: Callable[[], Awaitable[tuple[Tool, ...] | None]] | None = None,
        choice: ToolChoice = ALL_TOOLS,
        context: ToolContext | None = None,
    ) -> None:
        self._tools = {tool.name: tool for tool in tools if choice.allows(tool.name)}
        self._context, self._choice = context, choice
        self._gate = context.gate if context is not None else None
        self._load_more, self._load_again = load_more, load_again
        self._own, self.version = frozenset(self._tools), 0
        self._described: tuple[str, ...] = ()  # what the model was told of last

    def __iter__(self) -> Iterator[Tool]:
        """All of them, whether they are offered or not."""
        return iter(self._tools.values())

    async def complete(self) -> None:
        """Add the tools that other processes offer, before the first request; once.

        None of them replaces a tool of this agent's own.
        """
        load_more, self._load_more = self._load_more, None
        if load_more is not None:
            self._add(await load_more())

    async def refresh(self) -> None:
        """Offer what other processes offer now; called between two turns."""
        if self._load_again is None or self._load_more is not None:
            return
        tools = await self._load_again()
        if tools is not None:
            self._tools = {name: one for name, one in self._tools.items() if name in self._own}
            self._add(tools)
            self.version += 1

    def _add(self, tools: tuple[Tool, ...]) -> None:
        for tool in tools:
            self._tools.setdefault(tool.name, tool)

    def enter_turn(self, turn_id: str) -> None:
        """Note that a call of this turn is about to be prepared."""
        if self._context is not None:
            self._context.enter_turn(turn_id)

    def note_model(self, turn_id: str, model: ModelInfo) -> None:
        """Note which model a turn is about to ask: a small one starts each turn read-only."""
        if self._gate is not None:
            self._gate.begin_turn(turn_id, model)

    def note_task(self, text: str) -> None:
        """Note words of the person, or of the agent that gave the task."""
        if self._gate is not None:
            self._gate.note_task(text)

    def find(self, name: str) -> Tool | None:
        """Return the tool that this name means, even if it was not offered to this model."""
        return self._tools.get(name) or self._tools.get(tool_behind(name))

    def meant_call(self, call: AnyCall) -> AnyCall:
        """Return the call of the tool that a name from a model's training means, else the call.

        Raises ToolFailed: its arguments cannot be read.
        """
        return call if call.name in self._tools else meant_call(call)

    def tool_for(self, call: AnyCall) -> Tool:
        """Return the tool for this call. Raises ToolFailed: unknown name, or wrong kind of call."""
        tool = self._tools.get(call.name)
        if tool is None:
            kind = "unsupported custom tool call" if isinstance(call, CustomToolCall) else None
            known = ", ".join((self._described or tuple(self._tools))[:_NAMED_TOOLS])
            raise ToolFailed(f"{kind or 'unsupported call'}: {call.name}; the tools are {known}")
        if not tool.accepts(call):
            raise ToolFailed(f"tool {call.name} invoked with incompatible payload")
        if self._gate is not None and (why := self._gate.refusal(tool.name)):
            raise ToolFailed(why)
        return tool

    def specs(self, model: ModelInfo) -> tuple[ToolSpec, ...]:
        """Return the specs for this model; none if it cannot call tools."""
        if not model.can_call_tools:
            return ()
        fitting = fitting_tools(self._tools, model, self._choice)
        if self._context is not None:
            fitting = list(filter(self._context.can_use, fitting))
        found = (self._tools[name].describe(model) for name in fitting)
        specs = tuple(shorten(spec, model) for spec in found if spec is not None)
        self._described = tuple(spec.name for spec in specs)
        if self._context is not None:
            self._context.note_offered(frozenset(self._described))
        return specs


class _Call(msgspec.Struct, frozen=True):
    """A call that has begun."""

    item: AnyCall
    turn_id: str
    prepared: Invocation
    begun: CallBegan
    verdict: PolicyDecision

    @property
    def hooked(self) -> HookedCall:
        """The call as hooks are told of it."""
        return HookedCall(item=self.item, detail=self.begun.detail, turn_id=self.turn_id)


class Orchestrator:
    """Performs calls; of a turn it knows only the id."""

    def __init__(
        self,
        registry: ToolRegistry,
        reporter: Reporter,
        approval_requester: ApprovalRequester,
        hooks: ToolHooks,
    ) -> None:
        self.registry, self._reporter = registry, reporter
        self._approval_requester, self._hooks = approval_requester, hooks
        self._details: list[AnyCallDetail] = []

    def drain_details(self) -> list[AnyCallDetail]:
        """Return the details of the calls since the last drain."""
        taken, self._details = self._details, []
        return taken

    async def perform(self, call: AnyCall, *, turn_id: str) -> ToolResult:
        """Perform the call, or return why not. Its end is emitted even when it is cancelled."""
        started = trio.current_time()
        self.registry.enter_turn(turn_id)
        try:
            ready = await self._prepare(self.registry.meant_call(call), turn_id)
            ready, gate = await self._ask_hooks(ready)
            call, prepared = ready.item, ready.prepared
            self._details.append(prepared.detail)
        except ToolFailed as error:
            self._reporter.emit(self._begin(call, turn_id, OtherCall(argument=_one_line(call))))
            outcome = ToolResult(content=str(error), status="failed")
            self._end(call, turn_id, started, outcome)
            return outcome
        done: ToolResult | None = None
        try:
            if gate.denied is not None:
                self._reporter.emit(ready.begun)
                ends = gate.stopped is not None
                done = ToolResult(content=gate.denied, status="declined", ends_turn=ends)
            else:
                done = await self._begin_and_run(ready, gate)
                done = await self._after(ready, done)
            return done
        finally:
            if (turn := _turn_of(ready)) is not None:
                turn.drop_turn()
            self._end(call, turn_id, started, done)

    async def _prepare(self, call: AnyCall, turn_id: str) -> _Call:
        """Prepare and judge a call. Raises ToolFailed."""
        prepared = await self.registry.tool_for(call).prepare(call)
        verdict = prepared.judge()
        begun = self._begin(call, turn_id, prepared.detail)
        return _Call(call, turn_id, prepared, begun, verdict)

    async def _ask_hooks(self, call: _Call) -> tuple[_Call, HookVerdict]:
        """The call as PreToolUse hooks let it run, and what they decided. Raises ToolFailed."""
        gate = await self._hooks.before(call.hooked)
        if gate.updated_input is None:
            return call, gate
        try:
            changed = rewritten_call(call.hooked, gate.updated_input)
        except RewriteRefused as error:
            return call, msgspec.structs.replace(gate, denied=str(error))
        call = await self._prepare(changed, call.turn_id)
        others = await self._hooks.before(call.hooked, without=gate.updated_by)
        if others.updated_input is not None and others.denied is None:
            denied = "two hooks want to change this call; only one may"
            return call, msgspec.structs.replace(others, denied=denied)
        asks = others.asks if others.asks is not None else gate.asks
        allowed = "" if asks is not None else others.allowed_by or gate.allowed_by
        return call, msgspec.structs.replace(others, asks=asks, allowed_by=allowed)

    async def _after(self, call: _Call, done: ToolResult) -> ToolResult:
        """Tell hooks how the call succeeded or failed; add what they say for the model."""
        if done.status not in ("completed", "failed"):
            return done
        if done.status == "completed" and done.exit_code in (None, 0):
            said = await self._hooks.after(call.hooked, done.text)
        else:
            said = await self._hooks.after_failure(call.hooked, done.text)
        notes = [*said.feedback]
        if said.denied is not None:  # a hook failed that closes
            notes.append(said.denied)
        if said.stopped is not None:
            notes.append(said.stopped or "a hook ended the turn")
        if notes:
            done = done.framed(tail="".join(f"\n\nA hook says: {note}" for note in notes))
        return msgspec.structs.replace(done, ends_turn=True) if said.stopped is not None else done

    async def _begin_and_run(self, call: _Call, gate: HookVerdict) -> ToolResult:
        verdict = call.verdict
        if gate.asks is not None and isinstance(verdict, Run):
            reason = gate.asks or "a hook wants this to be asked about"
            verdict = Ask(subject=call.item.name, cause="hook", reason=reason, then=verdict)
        turn = _turn_of(call)
        paths = _files_to_watch(call, verdict) if isinstance(verdict, Run) else None
        if turn is None and isinstance(verdict, Run) and paths is not None:
            await self._reporter.begin_watched(call.begun, paths)
            return await self._run_begun(call, verdict)
        ticket = self._reporter.emit_tracked(call.begun)
        if not isinstance(verdict, Run):
            resolved = await self._approval_requester.resolve(
                verdict, call.prepared, call.hooked, allowed_by=gate.allowed_by
            )
            if isinstance(resolved, ToolResult):
                return resolved
            verdict = resolved
        if turn is not None:
            await turn.wait_turn()
        if turn is not None or call.verdict is not verdict:
            await self._watch(call, verdict)
        if not isinstance(call.prepared, SupervisorRequestOnly):
            await self._reporter.wait_journaled(ticket)
        return await self._run_begun(call, verdict)

    async def _watch(self, call: _Call, run: Run) -> None:
        if (paths := _files_to_watch(call, run)) is not None:
            await self._reporter.watch_files(call.begun, paths)

    async def _run_begun(self, call: _Call, verdict: Run) -> ToolResult:
        done = await self._run(call, verdict)
        if done.denied:
            done = await self._retry_outside_sandbox(call, verdict, done)
        if not isinstance(call.prepared, SupervisorRequestOnly):
            await self._reporter.save_files()
        return done

    async def _run(self, call: _Call, verdict: Run) -> ToolResult:
        def listen(text: str) -> None:
            self._reporter.emit_delta(OutputArrived, call.turn_id, call.item.call_id, text)

        try:
            return await call.prepared.run(verdict, listen)
        except ToolFailed as error:
            return ToolResult(content=str(error), status="failed")

    async def _retry_outside_sandbox(self, call: _Call, ran: Run, first: ToolResult) -> ToolResult:
        """Run a call that the sandbox seems to have stopped again outside of it, if allowed."""
        prepared = call.prepared
        again = prepared.reconsider(ran) if isinstance(prepared, RetriableInvocation) else None
        if again is None or not self._approval_requester.can_ask:
            return first
        if isinstance(again, Ask):
            said = truncate_middle(_shown(first), budget_bytes=_REASON_BYTES, unit="chars")
            asking = msgspec.structs.replace(again, retry_reason=said)
            resolved = await self._approval_requester.resolve(asking, prepared, call.hooked)
            if isinstance(resolved, ToolResult):
                return _with_refusal(first, resolved)
            again = resolved
        if (turn := _turn_of(call)) is not None:
            await turn.wait_turn()
        await self._watch(call, again)
        return _with_first_try(first, await self._run(call, again))

    def _begin(self, call: AnyCall, turn_id: str, detail: AnyCallDetail) -> CallBegan:
        return CallBegan(turn_id=turn_id, call_id=call.call_id, tool=call.name, detail=detail)

    def _end(self, call: AnyCall, turn_id: str, started: float, outcome: ToolResult | None) -> None:
        self._reporter.discard_deltas(OutputArrived, call.call_id)
        duration_s = trio.current_time() - started
        status: EndStatus = "interrupted" if outcome is None else outcome.status
        outcome = outcome or ToolResult(content="")
        self._reporter.emit(
            CallEnded(
                turn_id=turn_id,
                call_id=call.call_id,
                tool=call.name,
                status=status,
                duration_s=duration_s,
                exit_code=outcome.exit_code,
                output=truncate_middle(_shown(outcome), budget_bytes=SHOWN_BYTES, unit="chars"),
                session_id=outcome.session_id,
                changes=outcome.changes,
                untrusted=outcome.untrusted,
            )
        )


def _files_to_watch(call: _Call, run: Run) -> tuple[str, ...] | None:
    prepared = call.prepared
    return prepared.files_to_watch(run) if isinstance(prepared, FileChangingInvocation) else None


def _turn_of(call: _Call) -> TurnTakingInvocation | None:
    """The invocation if it is heavy, so that it waits for its turn."""
    prepared = call.prepared
    if isinstance(prepared, TurnTakingInvocation) and prepared.takes_turns:
        return prepared
    return None


def _with_refusal(first: ToolResult, refusal: ToolResult) -> ToolResult:
    """Return the first result with the reason why there is no second attempt."""
    text = f"\nIt was not run again outside of the sandbox: {refusal.text}"
    return msgspec.structs.replace(first.framed(tail=text), ends_turn=refusal.ends_turn)


def _with_first_try(first: ToolResult, second: ToolResult) -> ToolResult:
    """Return both outputs, in order, with the status of the second."""
    before = truncate_middle(_shown(first), budget_bytes=FIRST_TRY_BYTES, unit="chars")
    return second.framed(
        head=f"In the sandbox it failed (exit code {first.exit_code}):\n{before}\n"
        "With approval it was run again outside of the sandbox:\n"
    )


def _shown(outcome: ToolResult) -> str:
    return outcome.shown or outcome.text


def _one_line(call: AnyCall) -> str:
    text = call.arguments if isinstance(call, FunctionCall) else call.input
    return " ".join(text[: 4 * _ARGUMENT_CHARS].split())[:_ARGUMENT_CHARS]

"""State of one running turn."""

from typing import Literal

import trio

from swarm.mailbox.protocol.items import (
    AnyCall,
    AnyOutput,
    CustomToolCall,
    CustomToolCallOutput,
    FunctionCall,
    FunctionCallOutput,
    TokenUsage,
)
from swarm.mailbox.protocol.ops import CommandInput, UserInput
from swarm.mailbox.protocol.sampling import ModelInfo

from ...base.truncate import truncate_output
from ...tools.interface.tool_interface import ToolResult
from .repetition import CallRecord, RepetitionDetector, RepetitionVerdict
from .unreadable_calls import UnreadableCall

StartedBy = Literal["user", "mail", "resume"]
AbortReason = Literal["interrupted", "replaced", "budget", "deadline", "run_ended"]


class PendingCall:
    """A call whose output is not yet recorded."""

    def __init__(self, call: AnyCall, *, aborted_text: str, started: float) -> None:
        self.call = call
        self.aborted_text = aborted_text  # with `{seconds}`: what the model reads if it is aborted
        self.started = started
        self.outcome: ToolResult | None = None
        self.seconds = 0.0  # once it has an outcome

    def settle(self, outcome: ToolResult) -> None:
        """Set the call's result and duration."""
        self.outcome = outcome
        self.seconds = trio.current_time() - self.started

    def output_item(self, *, limit_tokens: int) -> AnyOutput:
        """Return what the model reads of the call, cut; without an outcome, that it was aborted."""
        is_custom = isinstance(self.call, CustomToolCall)
        kind = CustomToolCallOutput if is_custom else FunctionCallOutput
        if self.outcome is None:
            elapsed_s = max(0.1, trio.current_time() - self.started)
            text = self.aborted_text.replace("{seconds}", f"{elapsed_s:.1f}")
            return kind(call_id=self.call.call_id, output=text, success=False)
        content = truncate_output(self.outcome.content, limit_tokens=limit_tokens)
        done = self.outcome.status == "completed"
        return kind(call_id=self.call.call_id, output=content, success=done)


class Turn:
    """One turn. `is_open` becomes False in the same step in which its end is decided."""

    def __init__(self, turn_id: str, started_by: StartedBy) -> None:
        self.turn_id = turn_id
        self.started_by: StartedBy = started_by
        self.started = trio.current_time()
        self.scope = trio.CancelScope()
        self.is_open = True
        self.announced = False
        self.abort_reason: AbortReason = "interrupted"
        self.model: ModelInfo | None = None
        self.output_schema: bytes | None = None
        self.usage = TokenUsage()
        self.nudges = 0  # responses in a row with neither an answer nor a call
        self.corrections = 0  # texts in a row that were sent back as calls that cannot be read
        self.unmade_call: UnreadableCall | None = None  # the last of them; None after any call
        self.is_last_request = False  # the budget is used up: one request is left, for the answer
        self.declined = False  # some call was refused
        self.pending: list[PendingCall] = []  # calls of the current response, in call order
        self.unread_inputs: list[UserInput] = []  # input that came before it was aborted
        self.commands_ended = False  # when it was aborted
        self.continuations = 0  # how often Stop hooks have continued it
        self.schema_repairs = 0  # how often an answer that does not fit its schema was sent back
        self.commands: list[CommandInput] = []  # called by its input; their lines are not run yet
        self.repetition = RepetitionDetector()
        self.repetition_verdict = RepetitionVerdict.FINE  # of its latest response's calls

    def abort(self, reason: AbortReason, *, unread: list[UserInput]) -> None:
        """End an open turn now. `unread` input is recorded after its outputs."""
        self.is_open = False
        self.abort_reason, self.unread_inputs = reason, unread
        self.scope.cancel()

    def note_calls(self) -> None:
        """The model has called tools: what it wrote before in their place no longer counts."""
        self.nudges = self.corrections = 0
        self.unmade_call = None

    def note_commands(self, given: UserInput) -> None:
        """Remember the command files that recorded input has called."""
        self.commands += [part for part in given.parts if isinstance(part, CommandInput)]

    def add_usage(self, usage: TokenUsage) -> None:
        """Count the tokens of a request that was made beside its responses."""
        self.usage = self.usage.plus(usage)

    def check_repetition(self) -> None:
        """The present response's calls have ended: check whether they only repeat earlier ones."""
        done = [_call_record(pending) for pending in self.pending if pending.outcome is not None]
        if done:
            self.repetition_verdict = self.repetition.add(done)

    @property
    def elapsed_s(self) -> float:
        return trio.current_time() - self.started


def _call_record(pending: PendingCall) -> CallRecord:
    call, outcome = pending.call, pending.outcome
    assert outcome is not None
    is_command = outcome.exit_code is not None or outcome.session_id is not None
    shown = outcome.shown if is_command else outcome.shown or outcome.text
    return CallRecord(
        name=call.name,
        arguments=call.arguments if isinstance(call, FunctionCall) else call.input,
        status=outcome.status,
        end=f"{outcome.exit_code} {shown}",  # the content that the model reads contains the time
        seconds=pending.seconds,
    )

"""Turn loop: record pending input, sample, run calls, repeat until one terminal event.

Exactly one of TurnCompleted, TurnFailed, TurnAborted ends a turn, after all its other events.
Nothing is awaited between the decision to end and the end.
"""

from typing import assert_never

import msgspec
import trio

from swarm.mailbox.base.bounded_formats import decode_json_as
from swarm.mailbox.base.ids import is_reviewer
from swarm.mailbox.protocol.events import (
    TurnAborted,
    TurnCompleted,
    TurnEnd,
    TurnFailed,
    TurnStarted,
    Waiting,
)
from swarm.mailbox.protocol.items import text_message
from swarm.mailbox.protocol.sampling import ModelInfo, SampleFailed
from swarm.mailbox.protocol.spec import AgentSpec

from ...base.inbox import TurnOpening
from ..context import context_blocks
from ..context.prompt_context import instructions_for
from ..state.agent_state import AgentState
from ..state.provider_fallback import retries_here, with_fallbacks_tried
from ..state.sampler import SampleParameters, SamplingError, plan_retry
from ..turn.next_step import FinishTurn, ResponseSummary, SampleAgain, next_step
from ..turn.repetition import RepetitionVerdict
from ..turn.turn_state import Turn
from ..turn.unreadable_calls import MAX_CORRECTIONS, UnreadableCall, find_unreadable_call
from .command_lines import run_command_lines
from .history_compaction import HistoryCompactor
from .history_summary import is_overflow
from .sample_attempt import SampleAttempt
from .turn_hooks import begin_by_hooks, check_inputs, goes_on_by_hooks

MAX_REPAIRS = 1
_SCHEMA_CHARS = 8_000  # sent again: not every provider has passed it on
_VIOLATION_CHARS = 1_000

_GO_ON = (
    "Your last response had neither a tool call nor an answer. Go on with the task: call a tool, "
    "or give your final answer as text."
)


async def run_turn(state: AgentState, compactor: HistoryCompactor, opening: TurnOpening) -> None:
    """Run one turn to its terminal event. Interrupts come through `state.interrupt`."""
    state.apply_wanted_settings()
    turn = Turn(opening.turn_id or state.new_id(), opening.started_by)
    kept = None if opening.started_by == "user" else state.output_schema
    turn.output_schema = opening.output_schema or kept
    state.turn = turn
    state.inbox.begin_turn()
    state.parts.begin_turn()
    ending: TurnEnd | None = None
    with turn.scope:
        ending = await _run_turn(state, compactor, turn)
    if ending is None:
        ending = _abort(state, turn)
    state.turn, state.output_schema = None, turn.output_schema
    state.reporter.emit(ending)
    if isinstance(ending, TurnAborted) and ending.reason in {"interrupted", "run_ended"}:
        state.hooks.on_interrupt(turn.turn_id)


async def _run_turn(state: AgentState, compactor: HistoryCompactor, turn: Turn) -> TurnEnd:
    await state.orchestrator.registry.refresh()
    while True:
        try:
            turn.model = await state.wait_model()
            if not turn.announced:
                _announce(state, turn, turn.model)
            state.begin_sampling(turn.model)
            return await _run_responses(state, compactor, turn, turn.model)
        except SamplingError as trouble:
            failed = trouble.failed
        if state.use_fallback(turn, failed):
            continue
        stands = await state.parts.outlast(state.reporter, state.sampler.model, failed)
        if stands is not None:
            return _fail(state, turn, stands)


async def _run_responses(
    state: AgentState, compactor: HistoryCompactor, turn: Turn, model: ModelInfo
) -> TurnEnd:
    await state.pause.wait_ended()  # a compaction sends requests too
    await compactor.compact_if_needed(turn, model)
    state.record_context(turn, model)
    if (refused := await begin_by_hooks(state, turn)) is not None:
        return _fail(state, turn, refused)
    while True:
        response = await _sample_response(state, compactor, turn, model)
        if isinstance(response, SampleFailed):
            raise SamplingError(response)
        if turn.is_last_request:
            return _end_out_of_budget(state, turn, response)
        if (stuck := _check_repetition(state, turn)) is not None:
            return _fail(state, turn, stuck)
        if response.called_tools:
            turn.note_calls()
        step = next_step(response, pending_input=state.inbox.pending, nudges=turn.nudges)
        match step:
            case SampleAgain(nudge=nudge):
                if nudge:
                    _ask_to_go_on(state, turn)
            case FinishTurn(last_message=text):
                if (fault := _missing_answer(state, turn, response)) is not None:
                    return _fail(state, turn, fault)
                if (fault := _call_fault(state, turn, model, text)) is not None:
                    return _fail(state, turn, fault)
                is_sent_back = _correct_call(state, turn, model, text)
                if is_sent_back or _request_schema_repair(state, turn, text):
                    pass
                elif not await goes_on_by_hooks(state, turn, text):
                    return _complete(turn, text, response)
            case _:
                assert_never(step)
        await state.pause.wait_ended()
        await compactor.compact_if_needed(turn, model)


async def _sample_response(
    state: AgentState, compactor: HistoryCompactor, turn: Turn, model: ModelInfo
) -> ResponseSummary | SampleFailed:
    """Sample one response, with retries. Each attempt is built from the current history."""
    retries = 0
    while True:
        await state.pause.wait_ended()
        await check_inputs(state, turn)
        state.record_pending(turn)
        await run_command_lines(state, turn)
        attempt = SampleAttempt(state, turn)
        failed = await attempt.run(
            SampleParameters(
                turn_id=turn.turn_id,
                instructions=instructions_for(state.spec, model),
                tools=() if turn.is_last_request else state.tool_specs(model),
                effort=state.spec.model_settings.effort,
                output_schema=turn.output_schema,
                summary=state.spec.model_settings.summary,
                verbosity=state.spec.model_settings.verbosity,
                sampling=state.spec.role.sampling,
            )
        )
        if failed is None:
            compactor.note_response()
            return attempt.response
        if failed.kind == "invalid_image" and state.remove_latest_images(turn):
            continue
        if is_overflow(failed) and await compactor.handle_overflow(turn, model, failed):
            continue
        if failed.kind == "incomplete" and attempt.response.remark is not None:
            return msgspec.structs.replace(attempt.response, truncated=True)
        if failed.kind == "refused_budget":
            if turn.is_last_request or not failed.retryable:
                return failed
            turn.is_last_request = True
            state.record(turn.turn_id, context_blocks.last_request_message(), source="note")
            continue
        retries += 1
        most = retries_here(state.spec, model, failed)
        delay_s = plan_retry(failed, attempt=retries, most=most, noise=state.noise())
        if delay_s is None:
            return failed
        state.reporter.emit_transient(
            Waiting(
                reason=f"Reconnecting: {failed.message}",
                delay_s=delay_s,
                attempt=retries,
                max_attempts=model.stream_max_retries,
            )
        )
        await trio.sleep(delay_s)


def _check_repetition(state: AgentState, turn: Turn) -> SampleFailed | None:
    """Warn a model that repeats its calls; if that did not help, return why the turn ends."""
    doing, turn.repetition_verdict = turn.repetition_verdict, RepetitionVerdict.FINE
    match doing:
        case RepetitionVerdict.FINE:
            return None
        case RepetitionVerdict.WARN:
            warning = context_blocks.repetition_message(
                turn.repetition.times, waits=turn.repetition.is_wait
            )
            state.record(turn.turn_id, warning, source="note")
            return None
        case RepetitionVerdict.STOP:
            what = "made the same calls {} times in a row and learned nothing new"
            if turn.repetition.is_wait:
                what = "waited {} times in a row in the same way, and nothing changed"
            message = (
                f"the model {what.format(turn.repetition.times)}, also after it was told "
                "so. Tell it "
                "what to do differently, or use another model"
            )
            return SampleFailed(request_id=0, kind="repeating", message=message)


def _ask_to_go_on(state: AgentState, turn: Turn) -> None:
    """A response with neither an answer nor a call: say so, instead of asking again unchanged."""
    turn.nudges += 1
    state.record(turn.turn_id, text_message("developer", _GO_ON), source="note")


def _missing_answer(
    state: AgentState, turn: Turn, response: ResponseSummary
) -> SampleFailed | None:
    """Why the turn ends without a word. None: it has an answer, or may do without one."""
    if (response.answer or response.remark or "").strip() or turn.declined or state.spec.job:
        return None
    why = "the model gave no answer"
    if response.truncated:
        why += ": it was stopped at its output limit before it wrote one"
    elif turn.nudges:
        why += f", also after it was asked {turn.nudges} times in a row to go on"
    return SampleFailed(request_id=0, kind="no_answer", message=why)


def _call_fault(
    state: AgentState, turn: Turn, model: ModelInfo, text: str | None
) -> SampleFailed | None:
    """Why what the model wrote is no answer, after all corrections; None: it may be one."""
    if turn.corrections < MAX_CORRECTIONS:
        return None
    if (call := _unreadable_call(state, turn, model, text)) is not None:
        why = f"wrote a tool call that cannot be read, also after {turn.corrections} corrections"
        why = f"{why}: {call.reason}"
    elif (call := _unmade_call(turn, model)) is not None:
        why = f"answered without the call of {call.tool} that it wrote and that could not be read"
    else:
        return None
    message = (
        f"the model {why}. Use a model that calls tools better, or set "
        "constrained_calls = true for it in models.toml if its server takes JSON schemas"
    )
    return SampleFailed(request_id=0, kind="unreadable_call", message=message)


def _correct_call(state: AgentState, turn: Turn, model: ModelInfo, text: str | None) -> bool:
    """Send back a text that is meant as a tool call, or stands in its place. False: an answer."""
    if (call := _unreadable_call(state, turn, model, text)) is not None:
        turn.unmade_call, told = call, call.correction()
    elif (call := _unmade_call(turn, model)) is not None:
        told = call.insistence()
    else:
        return False
    turn.corrections += 1
    state.record(turn.turn_id, text_message("developer", told), source="note")
    return True


def _unmade_call(turn: Turn, model: ModelInfo) -> UnreadableCall | None:
    """The call in whose place a small model answers. A large one may have meant no call at all."""
    call = turn.unmade_call
    return call if model.is_small and call is not None and call.is_known else None


def _unreadable_call(
    state: AgentState, turn: Turn, model: ModelInfo, text: str | None
) -> UnreadableCall | None:
    if turn.output_schema is not None:
        return None  # its answer is JSON
    tools = state.tool_specs(model)
    if state.spec.role.locked:  # it may write a patch as its proposal
        tools = tuple(tool for tool in tools if tool.name != "apply_patch")
    return find_unreadable_call(text or "", tools)


def _request_schema_repair(state: AgentState, turn: Turn, text: str | None) -> bool:
    """Send back an answer that does not fit its schema, once. False: the answer stands."""
    schema = turn.output_schema
    if schema is None or text is None or turn.schema_repairs >= MAX_REPAIRS:
        return False
    if is_reviewer(state.spec.path):
        return False  # the requester judges the answer and starts over
    repair = schema_repair_text(text, schema)
    if repair is None:
        return False
    turn.schema_repairs += 1
    state.record(turn.turn_id, text_message("developer", repair), source="note")
    return True


def _announce(state: AgentState, turn: Turn, model: ModelInfo) -> None:
    turn.announced = True
    effort = state.spec.model_settings.effort or model.default_effort
    state.reporter.emit(
        TurnStarted(turn_id=turn.turn_id, model=model, effort=effort, started_by=turn.started_by)
    )


def _complete(turn: Turn, text: str | None, response: ResponseSummary) -> TurnCompleted:
    turn.is_open = False
    return TurnCompleted(
        turn_id=turn.turn_id,
        last_message=text,
        duration_s=turn.elapsed_s,
        usage=turn.usage,
        truncated=response.truncated,
        refused=turn.declined and text is None,
    )


def _end_out_of_budget(state: AgentState, turn: Turn, response: ResponseSummary) -> TurnEnd:
    """Answer to the last request within the budget: any text in it is the result."""
    text = response.answer if response.answer is not None else response.remark
    if text is None:
        message = "the budget was used up, and the last request brought no answer"
        return _fail(
            state, turn, SampleFailed(request_id=0, kind="refused_budget", message=message)
        )
    return msgspec.structs.replace(_complete(turn, text, response), out_of_budget=True)


def _fail(state: AgentState, turn: Turn, failed: SampleFailed) -> TurnFailed:
    turn.is_open = False
    _record_open_calls(state, turn)
    state.record_pending(turn)
    return TurnFailed(
        turn_id=turn.turn_id,
        kind=failed.kind,
        message=_explain(state.spec, failed),
        duration_s=turn.elapsed_s,
        usage=turn.usage,
    )


def _abort(state: AgentState, turn: Turn) -> TurnAborted:
    """Record outputs, unread input and the abort note; return the event. Never waits."""
    _record_open_calls(state, turn)
    for unread in turn.unread_inputs:
        state.record_input(turn, unread)
    mark = context_blocks.turn_aborted_message(commands_ended=turn.commands_ended)
    state.record(turn.turn_id, mark, source="note")
    return TurnAborted(
        turn_id=turn.turn_id,
        reason=turn.abort_reason,
        duration_s=turn.elapsed_s,
        usage=turn.usage,
    )


def _record_open_calls(state: AgentState, turn: Turn) -> None:
    if not turn.announced:
        unknown = ModelInfo(
            slug=state.spec.model_settings.model or "", provider="", wire="chat", known=False
        )
        _announce(state, turn, unknown)
    state.record_outputs(turn)


def _explain(spec: AgentSpec, failed: SampleFailed) -> str:
    if failed.kind != "context_window_exceeded":
        return with_fallbacks_tried(spec, failed)
    return (
        f"the conversation no longer fits the model's context window ({failed.message}). Start a "
        "new run with a shorter task, or use a model with a larger window"
    )


def schema_repair_text(text: str, schema: bytes) -> str | None:
    """Return what to tell the model, once, about an answer that does not fit; None if it fits."""
    from swarm.mailbox.base.schema_check import (
        find_schema_violation,  # imported late: it takes 6 MB
    )

    try:
        known = decode_json_as(schema, dict[str, object])
    except (msgspec.DecodeError, UnicodeError):
        return None  # checked where it was received; the requester reports the fault
    fault = find_schema_violation(text, known)
    if fault is None:
        return None
    shown = schema.decode("utf-8", "replace")
    if len(shown) > _SCHEMA_CHARS:
        shown = shown[:_SCHEMA_CHARS] + " …"
    return (
        f"Your answer was not accepted: {fault[:_VIOLATION_CHARS]}. Give it again: one "
        "JSON value that "
        f"fits this JSON schema, with no other text and no code fence around it.\n{shown}"
    )

"""Turn loop: record pending input, sample, run calls, repeat until one terminal event.

Exactly one of TurnCompleted, TurnFailed, TurnAborted ends a turn, after all its other events.
Nothing is awaited between the decision to end and the end.
"""

from typing import TYPE_CHECKING, assert_never

import msgspec
import trio

from swarm.mailbox.ids import is_reviewer
from swarm.mailbox.protocol.events import (
    TurnAborted,
    TurnCompleted,
    TurnFailed,
    TurnStarted,
    Waiting,
)
from swarm.mailbox.protocol.items import text_message
from swarm.mailbox.protocol.sampling import ModelInfo, SampleFailed

from ..context import context_blocks
from ..context.prompt_context import instructions_for
from ..sampler import SampleParameters, SamplingError
from .inbox import TurnOpening
from .next_step import FinishTurn, ResponseSummary, SampleAgain, next_step
from .output_schema import MAX_REPAIRS, schema_repair_text
from .repetition import RepetitionVerdict
from .sample_attempt import SampleAttempt
from .sample_retry import plan_retry
from .turn_state import Turn

if TYPE_CHECKING:
    from ..agent_session import AgentSession

TurnEnd = TurnCompleted | TurnFailed | TurnAborted


async def run_turn(session: "AgentSession", opening: TurnOpening) -> None:
    """Run one turn to its terminal event. Interrupts come through `session.interrupt`."""
    session.apply_wanted_settings()
    turn = Turn(opening.turn_id or session.new_id(), opening.started_by)
    kept = None if opening.started_by == "user" else session.output_schema
    turn.output_schema = opening.output_schema or kept
    session.turn = turn
    session.inbox.begin_turn()
    ending: TurnEnd | None = None
    with turn.scope:
        ending = await _run_turn(session, turn)
    if ending is None:
        ending = _abort(session, turn)
    session.turn, session.output_schema = None, turn.output_schema
    session.reporter.emit(ending)


async def _run_turn(session: "AgentSession", turn: Turn) -> TurnEnd:
    try:
        turn.model = await session.wait_model()
    except SamplingError as trouble:
        return _fail(session, turn, trouble.failed)
    _announce(session, turn, turn.model)
    session.begin_sampling(turn.model)
    try:
        return await _run_responses(session, turn, turn.model)
    except SamplingError as trouble:  # raised by a compaction; a failed sample is returned instead
        return _fail(session, turn, trouble.failed)


async def _run_responses(session: "AgentSession", turn: Turn, model: ModelInfo) -> TurnEnd:
    await session.pause.wait_ended()  # a compaction sends requests too
    await session.compactor.compact_if_needed(turn, model)
    session.record_context(turn, model)
    while True:
        heard = await _sample_response(session, turn, model)
        if isinstance(heard, SampleFailed):
            return _fail(session, turn, heard)
        if turn.is_last_request:
            return _end_out_of_budget(session, turn, heard)
        if (stuck := _check_repetition(session, turn)) is not None:
            return _fail(session, turn, stuck)
        if heard.called_tools:
            turn.nudges = 0
        step = next_step(heard, pending_input=session.inbox.pending, nudges=turn.nudges)
        match step:
            case SampleAgain(nudge=nudge):
                turn.nudges += nudge
            case FinishTurn(last_message=text):
                if not _request_schema_repair(session, turn, text):
                    return _complete(turn, text, heard)
            case _:
                assert_never(step)
        await session.pause.wait_ended()
        await session.compactor.compact_if_needed(turn, model)


async def _sample_response(
    session: "AgentSession", turn: Turn, model: ModelInfo
) -> ResponseSummary | SampleFailed:
    """Sample one response, with retries. Each attempt is built from the current history."""
    retries = 0
    while True:
        await session.pause.wait_ended()
        session.record_pending(turn)
        attempt = SampleAttempt(session, turn)
        failed = await attempt.run(
            SampleParameters(
                turn_id=turn.turn_id,
                instructions=instructions_for(session.spec, model),
                tools=() if turn.is_last_request else session.tool_specs(model),
                effort=session.spec.effort,
                output_schema=turn.output_schema,
                summary=session.spec.summary,
                verbosity=session.spec.verbosity,
            )
        )
        if failed is None:
            return attempt.response
        if failed.kind == "invalid_image" and session.remove_latest_images(turn):
            continue
        if failed.kind == "context_window_exceeded" and await session.compactor.handle_overflow(
            turn, model, named_tokens=failed.window_tokens
        ):
            continue
        if failed.kind == "incomplete" and attempt.response.remark is not None:
            return msgspec.structs.replace(attempt.response, truncated=True)
        if failed.kind == "refused_budget":
            if turn.is_last_request or not failed.retryable:
                return failed
            turn.is_last_request = True
            session.record(turn.turn_id, context_blocks.last_request_message(), source="note")
            continue
        retries += 1
        delay_s = plan_retry(
            failed, attempt=retries, most=model.stream_max_retries, noise=session.noise()
        )
        if delay_s is None:
            return failed
        session.reporter.emit_transient(
            Waiting(
                reason=f"Reconnecting: {failed.message}",
                delay_s=delay_s,
                attempt=retries,
                max_attempts=model.stream_max_retries,
            )
        )
        await trio.sleep(delay_s)


def _check_repetition(session: "AgentSession", turn: Turn) -> SampleFailed | None:
    """Warn a model that repeats its calls; if that did not help, return why the turn ends."""
    doing, turn.repetition_verdict = turn.repetition_verdict, RepetitionVerdict.FINE
    match doing:
        case RepetitionVerdict.FINE:
            return None
        case RepetitionVerdict.WARN:
            words = context_blocks.repetition_message(
                turn.repetition.times, waits=turn.repetition.is_wait
            )
            session.record(turn.turn_id, words, source="note")
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


def _request_schema_repair(session: "AgentSession", turn: Turn, text: str | None) -> bool:
    """Send back an answer that does not fit its schema, once. False: the answer stands."""
    schema = turn.output_schema
    if schema is None or text is None or turn.schema_repairs >= MAX_REPAIRS:
        return False
    if is_reviewer(session.spec.path):
        return False  # the requester judges the answer and starts over
    words = schema_repair_text(text, schema)
    if words is None:
        return False
    turn.schema_repairs += 1
    session.record(turn.turn_id, text_message("developer", words), source="note")
    return True


def _announce(session: "AgentSession", turn: Turn, model: ModelInfo) -> None:
    turn.announced = True
    effort = session.spec.effort or model.default_effort
    session.reporter.emit(
        TurnStarted(turn_id=turn.turn_id, model=model, effort=effort, started_by=turn.started_by)
    )


def _complete(turn: Turn, text: str | None, heard: ResponseSummary) -> TurnCompleted:
    turn.is_open = False
    return TurnCompleted(
        turn_id=turn.turn_id,
        last_message=text,
        duration_s=turn.elapsed_s,
        usage=turn.usage,
        truncated=heard.truncated,
        refused=turn.declined and text is None,
    )


def _end_out_of_budget(session: "AgentSession", turn: Turn, heard: ResponseSummary) -> TurnEnd:
    """Answer to the last request within the budget: any text in it is the result."""
    text = heard.answer if heard.answer is not None else heard.remark
    if text is None:
        message = "the budget was used up, and the last request brought no answer"
        return _fail(
            session, turn, SampleFailed(request_id=0, kind="refused_budget", message=message)
        )
    return msgspec.structs.replace(_complete(turn, text, heard), out_of_budget=True)


def _fail(session: "AgentSession", turn: Turn, failed: SampleFailed) -> TurnFailed:
    turn.is_open = False
    _record_open_calls(session, turn)
    session.record_pending(turn)
    return TurnFailed(
        turn_id=turn.turn_id,
        kind=failed.kind,
        message=_explain(failed),
        duration_s=turn.elapsed_s,
        usage=turn.usage,
    )


def _abort(session: "AgentSession", turn: Turn) -> TurnAborted:
    """Record outputs, unread input and the abort note; return the event. Never waits."""
    _record_open_calls(session, turn)
    for words in turn.unread_inputs:
        session.record_input(turn, words)
    mark = context_blocks.turn_aborted_message(commands_ended=turn.commands_ended)
    session.record(turn.turn_id, mark, source="note")
    return TurnAborted(
        turn_id=turn.turn_id,
        reason=turn.abort_reason,
        duration_s=turn.elapsed_s,
        usage=turn.usage,
    )


def _record_open_calls(session: "AgentSession", turn: Turn) -> None:
    if not turn.announced:
        unknown = ModelInfo(slug=session.spec.model or "", provider="", wire="chat", known=False)
        _announce(session, turn, unknown)
    session.record_outputs(turn)


def _explain(failed: SampleFailed) -> str:
    if failed.kind != "context_window_exceeded":
        return failed.message
    return (
        f"the conversation no longer fits the model's context window ({failed.message}). Start a "
        "new run with a shorter task, or use a model with a larger window"
    )

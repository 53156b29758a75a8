"""A turn from its opening to its one terminal event: read what waits, sample, run calls, repeat.

Rule guarded: exactly one of TurnCompleted, TurnFailed, TurnAborted ends a turn, after everything
else of it was said; and between the decision to end and the end nothing is awaited.
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

from ..context import fragments
from ..context.prompt import instructions_for
from ..sampler import Question, SampleTrouble
from .answering import MOST_REPAIRS, repair_words
from .inbox import Opening
from .next import Finish, Heard, Sample, next_step
from .repeats import Verdict
from .retry import plan_retry
from .state import Turn
from .stream import Attempt

if TYPE_CHECKING:
    from ..session import Session

Ending = TurnCompleted | TurnFailed | TurnAborted


async def run_turn(session: "Session", opening: Opening) -> None:
    """Run one turn to its terminal event. Interrupts come through `session.interrupt`."""
    session.adopt_settings()
    turn = Turn(opening.turn_id or session.new_id(), opening.started_by)
    kept = None if opening.started_by == "user" else session.output_schema
    turn.output_schema = opening.output_schema or kept
    session.turn = turn
    session.inbox.begin_turn()
    ending: Ending | None = None
    with turn.scope:
        ending = await _pursue(session, turn)
    if ending is None:
        ending = _abort(session, turn)
    session.turn, session.output_schema = None, turn.output_schema
    session.reporter.say(ending)


async def _pursue(session: "Session", turn: Turn) -> Ending:
    try:
        turn.model = await session.wait_model()
    except SampleTrouble as trouble:
        return _fail(session, turn, trouble.failed)
    _announce(session, turn, turn.model)
    session.begin(turn.model)
    try:
        return await _go_on(session, turn, turn.model)
    except SampleTrouble as trouble:  # of a compaction; what a sample says is an answer of it
        return _fail(session, turn, trouble.failed)


async def _go_on(session: "Session", turn: Turn, model: ModelInfo) -> Ending:
    await session.pausing.wait_open()  # what shortens the history is a request too
    await session.upkeep.look(turn, model)
    session.record_context(turn, model)
    while True:
        heard = await _respond(session, turn, model)
        if isinstance(heard, SampleFailed):
            return _fail(session, turn, heard)
        if turn.last_call:
            return _close_account(session, turn, heard)
        if (stuck := _look_at_repeats(session, turn)) is not None:
            return _fail(session, turn, stuck)
        if heard.called_tools:
            turn.nudges = 0
        step = next_step(heard, pending_input=session.inbox.pending, nudges=turn.nudges)
        match step:
            case Sample(nudge=nudge):
                turn.nudges += nudge
            case Finish(last_message=text):
                if not _send_back(session, turn, text):
                    return _complete(turn, text, heard)
            case _:
                assert_never(step)
        await session.pausing.wait_open()
        await session.upkeep.look(turn, model)


async def _respond(session: "Session", turn: Turn, model: ModelInfo) -> Heard | SampleFailed:
    """One response, over as many attempts as it takes. Each is built from the history anew."""
    retries = 0
    while True:
        await session.pausing.wait_open()
        session.record_pending(turn)
        attempt = Attempt(session, turn)
        failed = await attempt.run(
            Question(
                turn_id=turn.turn_id,
                instructions=instructions_for(session.spec, model),
                tools=() if turn.last_call else session.tool_specs(model),
                effort=session.spec.effort,
                output_schema=turn.output_schema,
                summary=session.spec.summary,
                verbosity=session.spec.verbosity,
            )
        )
        if failed is None:
            return attempt.heard
        if failed.kind == "invalid_image" and session.take_back_image(turn):
            continue
        if failed.kind == "context_window_exceeded" and await session.upkeep.overflowed(
            turn, model
        ):
            continue
        if failed.kind == "incomplete" and attempt.heard.remark is not None:
            return msgspec.structs.replace(attempt.heard, truncated=True)
        if failed.kind == "refused_budget":
            if turn.last_call or not failed.retryable:
                return failed
            turn.last_call = True
            session.record(turn.turn_id, fragments.last_call(), source="note")
            continue
        retries += 1
        delay_s = plan_retry(
            failed, attempt=retries, most=model.stream_max_retries, noise=session.noise()
        )
        if delay_s is None:
            return failed
        session.reporter.pass_on(
            Waiting(
                reason=f"Reconnecting: {failed.message}",
                delay_s=delay_s,
                attempt=retries,
                max_attempts=model.stream_max_retries,
            )
        )
        await trio.sleep(delay_s)


def _look_at_repeats(session: "Session", turn: Turn) -> SampleFailed | None:
    """Tell a model that does the same again and again; if that did not help, why the turn ends."""
    doing, turn.doing = turn.doing, Verdict.FINE
    match doing:
        case Verdict.FINE:
            return None
        case Verdict.TELL:
            words = fragments.repeating(turn.streak.times, waits=turn.streak.is_wait)
            session.record(turn.turn_id, words, source="note")
            return None
        case Verdict.STOP:
            what = "made the same calls {} times in a row and learned nothing new"
            if turn.streak.is_wait:
                what = "waited {} times in a row in the same way, and nothing changed"
            message = (
                f"the model {what.format(turn.streak.times)}, also after it was told so. Tell it "
                "what to do differently, or use another model"
            )
            return SampleFailed(request_id=0, kind="repeating", message=message)


def _send_back(session: "Session", turn: Turn, text: str | None) -> bool:
    """Ask once more for an answer that does not fit its schema. False: the answer stands."""
    schema = turn.output_schema
    if schema is None or text is None or turn.repairs >= MOST_REPAIRS:
        return False
    if is_reviewer(session.spec.path):
        return False  # who asked it judges it, and begins anew
    words = repair_words(text, schema)
    if words is None:
        return False
    turn.repairs += 1
    session.record(turn.turn_id, text_message("developer", words), source="note")
    return True


def _announce(session: "Session", turn: Turn, model: ModelInfo) -> None:
    turn.announced = True
    effort = session.spec.effort or model.default_effort
    session.reporter.say(
        TurnStarted(turn_id=turn.turn_id, model=model, effort=effort, started_by=turn.started_by)
    )


def _complete(turn: Turn, text: str | None, heard: Heard) -> TurnCompleted:
    turn.open = False
    return TurnCompleted(
        turn_id=turn.turn_id,
        last_message=text,
        duration_s=turn.elapsed_s,
        usage=turn.usage,
        truncated=heard.truncated,
        refused=turn.declined and text is None,
    )


def _close_account(session: "Session", turn: Turn, heard: Heard) -> Ending:
    """The last request that the budget allowed was answered: whatever was said is the result."""
    text = heard.answer if heard.answer is not None else heard.remark
    if text is None:
        message = "the budget was used up, and the last request brought no answer"
        return _fail(
            session, turn, SampleFailed(request_id=0, kind="refused_budget", message=message)
        )
    return msgspec.structs.replace(_complete(turn, text, heard), out_of_budget=True)


def _fail(session: "Session", turn: Turn, failed: SampleFailed) -> TurnFailed:
    turn.open = False
    _close_books(session, turn)
    session.record_pending(turn)
    return TurnFailed(
        turn_id=turn.turn_id,
        kind=failed.kind,
        message=_explain(failed),
        duration_s=turn.elapsed_s,
        usage=turn.usage,
    )


def _abort(session: "Session", turn: Turn) -> TurnAborted:
    """What 7.1 of the sheet asks for: outputs, unread words, the mark, the event. Never waits."""
    _close_books(session, turn)
    for words in turn.unread:
        session.record_words(turn, words)
    mark = fragments.turn_aborted(commands_ended=turn.commands_ended)
    session.record(turn.turn_id, mark, source="note")
    return TurnAborted(
        turn_id=turn.turn_id,
        reason=turn.abort_reason,
        duration_s=turn.elapsed_s,
        usage=turn.usage,
    )


def _close_books(session: "Session", turn: Turn) -> None:
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

"""One call from its item to its outcome: prepare, judge, journal its begin, run, tell its end.

Rule guarded: law 3 (nothing runs before its begin is journaled) and law 5 (what needs approval and
cannot be asked is refused, as an output that the model reads; the run goes on).
"""

from typing import Literal

import trio

from swarm.mailbox.protocol.events import (
    AnyCallDetail,
    CallBegan,
    CallEnded,
    OtherCall,
    OutputArrived,
)
from swarm.mailbox.protocol.items import AnyCall, FunctionCall, text_of

from ..context.truncate import truncate_middle
from ..policy.decide import Ask, Refuse, Run, refusal_without_reviewer
from ..reporter import Reporter
from .errors import ToolFailed
from .registry import Registry
from .router import route
from .spec import Outcome, Prepared

EndStatus = Literal["completed", "failed", "declined", "interrupted"]
SHOWN_BYTES = 10_000  # of an output, to people and the journal
_ARGUMENT_CHARS = 200


class Orchestrator:
    """Performs calls; knows no turn but its id."""

    def __init__(self, registry: Registry, reporter: Reporter) -> None:
        self.registry, self._reporter = registry, reporter

    async def perform(self, call: AnyCall, *, turn_id: str) -> Outcome:
        """Do what the call asks, or say why not. When cancelled, its end is told all the same."""
        started = trio.current_time()
        try:
            prepared = await route(call, self.registry).prepare(call)
            verdict = prepared.judge()
            detail = prepared.detail
        except ToolFailed as error:
            self._reporter.say(self._begin(call, turn_id, OtherCall(argument=_one_line(call))))
            outcome = Outcome(content=str(error), status="failed")
            self._end(call, turn_id, started, outcome)
            return outcome
        ticket = self._reporter.say_tracked(self._begin(call, turn_id, detail))
        done: Outcome | None = None
        try:
            if isinstance(verdict, Run):
                await self._reporter.wait_journaled(ticket)
                done = await self._run(prepared, verdict, call, turn_id)
            else:
                done = _decline(verdict)
            return done
        finally:
            self._end(call, turn_id, started, done)

    async def _run(self, prepared: Prepared, verdict: Run, call: AnyCall, turn_id: str) -> Outcome:
        def listen(text: str) -> None:
            self._reporter.arrived(OutputArrived, turn_id, call.call_id, text)

        try:
            return await prepared.run(verdict, listen)
        except ToolFailed as error:
            return Outcome(content=str(error), status="failed")

    def _begin(self, call: AnyCall, turn_id: str, detail: AnyCallDetail) -> CallBegan:
        return CallBegan(turn_id=turn_id, call_id=call.call_id, tool=call.name, detail=detail)

    def _end(self, call: AnyCall, turn_id: str, started: float, outcome: Outcome | None) -> None:
        self._reporter.settle(OutputArrived, call.call_id)
        duration_s = trio.current_time() - started
        status: EndStatus = "interrupted" if outcome is None else outcome.status
        outcome = outcome or Outcome(content="")
        shown = outcome.shown or text_of(outcome.content)
        self._reporter.say(
            CallEnded(
                turn_id=turn_id,
                call_id=call.call_id,
                tool=call.name,
                status=status,
                duration_s=duration_s,
                exit_code=outcome.exit_code,
                output=truncate_middle(shown, budget_bytes=SHOWN_BYTES, unit="chars"),
                session_id=outcome.session_id,
                changes=outcome.changes,
            )
        )


def _decline(verdict: Ask | Refuse) -> Outcome:
    refusal = refusal_without_reviewer(verdict) if isinstance(verdict, Ask) else verdict
    return Outcome(content=refusal.reason, status="declined")


def _one_line(call: AnyCall) -> str:
    text = call.arguments if isinstance(call, FunctionCall) else call.input
    return " ".join(text[: 4 * _ARGUMENT_CHARS].split())[:_ARGUMENT_CHARS]

"""Questions of MCP servers to a person or a model, for the agent whose call asks.

A person is asked through the approval queue; what nobody can answer is declined at once, with a
warning that says why. A question ends with its call, with its agent, and with the hub.
"""

import msgspec
import trio

from swarm.mailbox.contents.form_values import FormAnswerRefused, form_content
from swarm.mailbox.protocol.approvals import ApprovalRequest
from swarm.mailbox.protocol.elicitation import ElicitationAction
from swarm.mailbox.protocol.events import Warned
from swarm.mailbox.protocol.hub import (
    ModelAnswered,
    ModelAsked,
    PersonAnswered,
    PersonAsked,
    QuestionWithdrawn,
)
from swarm.mailbox.protocol.requests import Decided
from swarm.mailbox.protocol.server_sampling import SamplingAnswer
from swarm.mailbox.protocol.values.limits import DangerFullAccess, Limits

from ...approvals.approval_route import NoReviewer, choose_route
from ...approvals.approval_types import Decider
from ...context.run_context import RunContext
from .hub_manager import HubManager, OpenCall
from .model_questions import ModelQuestions

_CALL_OVER = "the call is over"


class HubQuestions:
    """Serves the hub's questions concurrently; `models` are those to models, of all hubs."""

    def __init__(
        self, running: RunContext, hub: HubManager, models: ModelQuestions, decider: Decider
    ) -> None:
        self._run, self._hub, self._models, self._decider = running, hub, models, decider
        self._scopes: dict[int, trio.CancelScope] = {}  # by question
        self._told: set[tuple[str, str]] = set()  # refusals that were warned of

    async def run(self) -> None:
        """Loops for ever."""
        async with trio.open_nursery() as nursery:
            async for event in self._hub.questions:
                match event:
                    case PersonAsked() | ModelAsked():
                        scope = self._scopes[event.question] = trio.CancelScope()
                        nursery.start_soon(self._serve, event, scope)
                    case QuestionWithdrawn(question=question):
                        if (found := self._scopes.get(question)) is not None:
                            found.cancel()
                    case None:  # the hub died
                        for one in self._scopes.values():
                            one.cancel()

    async def _serve(self, event: PersonAsked | ModelAsked, scope: trio.CancelScope) -> None:
        try:
            with scope:
                await self._hub.send_answer(await self._ask(event))
        finally:
            if self._scopes.get(event.question) is scope:
                del self._scopes[event.question]

    async def _ask(self, event: PersonAsked | ModelAsked) -> PersonAnswered | ModelAnswered:
        """Ask for the calls that still run; the question ends with the first of them."""
        calls = self._hub.open_calls(event.requests)
        answer: PersonAnswered | ModelAnswered
        match event:
            case PersonAsked(question=question):
                answer = PersonAnswered(question=question, answer="decline")
            case ModelAsked(question=question):
                answer = ModelAnswered(question=question, answer=SamplingAnswer(fault=_CALL_OVER))
        if not calls or calls[0].server != event.action.server:
            return answer
        with self._hub.resting(calls):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(_cancel_after, calls[0], nursery.cancel_scope)
                if isinstance(event, ModelAsked):
                    text = await self._models.answer(event, calls)
                    answer = ModelAnswered(question=event.question, answer=text)
                else:
                    answer = await self._decide(event, calls)
                nursery.cancel_scope.cancel()
        return answer

    async def _decide(self, event: PersonAsked, calls: tuple[OpenCall, ...]) -> PersonAnswered:
        first = calls[0]
        source = self._hub.servers[first.server].source
        action = msgspec.structs.replace(event.action, source=source)
        request = ApprovalRequest(action=action, cause="elicitation", call_id=first.call_id)
        if may_accept_unseen(action, first.agent.plan.limits):
            return PersonAnswered(question=event.question, answer="accept")
        for one in calls[1:]:  # it may be meant for any of them: all must be askable
            route = choose_route(request, one.agent.plan.limits)
            if isinstance(route, NoReviewer):
                self._warn(action, route.why)
                return PersonAnswered(question=event.question, answer="decline")
        first.agent.begin_question()
        try:
            decided = await self._decider.decide(first.agent.path, request)
        finally:
            first.agent.end_question()
        if decided.outcome == "unavailable":
            self._warn(action, decided.text)
        return as_answer(event.question, action, decided)

    def _warn(self, action: ElicitationAction, why: str) -> None:
        if (action.server, why) not in self._told and len(self._told) < 100:
            self._told.add((action.server, why))
            text = f"MCP server `{action.server}` asked a person something: declined: {why}"
            self._run.note(Warned(message=text))


async def _cancel_after(call: OpenCall, scope: trio.CancelScope) -> None:
    await call.ended.wait()
    scope.cancel()


def may_accept_unseen(action: ElicitationAction, limits: Limits) -> bool:
    """An empty form where nothing is ever asked: it could only be agreed to."""
    is_empty = not action.fields and not action.url
    unconfined = isinstance(limits.sandbox, DangerFullAccess)
    return is_empty and limits.approval == "never" and unconfined


def as_answer(question: int, action: ElicitationAction, decided: Decided) -> PersonAnswered:
    """What a decision means for the server: only a person's yes accepts."""
    match decided.outcome:
        case "approved" if decided.by == "person":
            try:
                content = msgspec.json.encode(form_content(action.fields, decided.answers))
            except FormAnswerRefused:
                return PersonAnswered(question=question, answer="cancel")
            return PersonAnswered(question=question, answer="accept", content=content)
        case "aborted" | "timed_out":
            return PersonAnswered(question=question, answer="cancel")
        case _:
            return PersonAnswered(question=question, answer="decline")

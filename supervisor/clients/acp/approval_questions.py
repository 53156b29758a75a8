"""Asks the editor about a run's pending approvals, and gives its answers to the run."""

import asyncio
from contextlib import suppress
from typing import Protocol

from acp.schema import (
    AcceptElicitationResponse,
    CancelElicitationResponse,
    DeclineElicitationResponse,
    PermissionOption,
    RequestPermissionResponse,
    ToolCallUpdate,
)
from msgspec.structs import replace

from swarm.mailbox.base.errors import SwarmError
from swarm.mailbox.contents.form_values import form_schema
from swarm.mailbox.protocol.approvals import ApprovalRequest, QuestionsAction
from swarm.mailbox.protocol.control import ResolveApproval
from swarm.mailbox.protocol.elicitation import ElicitationAction
from swarm.mailbox.protocol.records import ApprovalRequested, ApprovalResolved, Record

from ...views.elicitation_description import elicitation_lines, may_skip, questions_of
from ..client import ControlRequestRefused, LiveRun, RunNotAlive
from .permission_requests import (
    SKIPPED,
    approval_answer,
    chosen_label,
    field_options,
    filled_form,
    page_options,
    permission_call,
    permission_options,
    question_call,
    question_options,
)

_TRIES, _TRY_AGAIN_S = 30, 1.0  # of ten seconds each


class AsksPermission(Protocol):
    """The part of an editor that this needs; `ask` raises SwarmError without an answer."""

    async def ask(
        self, session_id: str, call: ToolCallUpdate, options: list[PermissionOption]
    ) -> RequestPermissionResponse: ...

    @property
    def shows_forms(self) -> bool: ...

    async def fill_in(
        self, session_id: str, message: str, schema: dict[str, object]
    ) -> AcceptElicitationResponse | DeclineElicitationResponse | CancelElicitationResponse: ...


class ApprovalQuestions:
    """One task for each question that is open. `cancel` it in the end."""

    def __init__(self, run: LiveRun, editor: AsksPermission) -> None:
        self._run, self._editor = run, editor
        self._asking: dict[str, asyncio.Task[None]] = {}  # by approval

    def watch(self, record: Record) -> None:
        """Ask what this record requests; end the question that it answers."""
        match record.body:
            case ApprovalRequested(reviewer="person") as body:
                self._begin(record.agent, body.approval_id, body.request)
            case ApprovalResolved(approval_id=approval_id):
                if (asking := self._asking.pop(approval_id, None)) is not None:
                    asking.cancel()  # somebody else answered
            case _:
                pass

    async def ask_pending(self) -> None:
        """Ask what waits for a person already. Raises SwarmError if the run does not say."""
        for entry in await self._run.approvals():
            if entry.reviewer == "person" and not entry.denied:
                self._begin(entry.agent, entry.approval_id, entry.request)

    def cancel(self) -> None:
        """Withdraw every question without an answer."""
        for asking in self._asking.values():
            asking.cancel()
        self._asking.clear()

    def _begin(self, agent: str, approval_id: str, request: ApprovalRequest) -> None:
        if approval_id not in self._asking:
            asking = self._ask(agent, approval_id, request)
            self._asking[approval_id] = asyncio.create_task(asking)

    async def _ask(self, agent: str, approval_id: str, request: ApprovalRequest) -> None:
        """Ask the editor and pass its answer on. No answer at all, and a fault, are a no."""
        answer = ResolveApproval(approval_id=approval_id, approve=False)
        try:
            with suppress(SwarmError):
                answer = await self._asked(agent, approval_id, request)
        except Exception:
            await self._give(answer)
            raise
        await self._give(answer)

    async def _asked(
        self, agent: str, approval_id: str, request: ApprovalRequest
    ) -> ResolveApproval:
        if isinstance(request.action, QuestionsAction):
            return await self._ask_questions(approval_id, request.action)
        if isinstance(request.action, ElicitationAction):
            return await self._ask_form(approval_id, agent, request)
        call = permission_call(agent, request, approval_id)
        return approval_answer(approval_id, await self._choose(call, permission_options(request)))

    async def _give(self, answer: ResolveApproval) -> None:
        """Pass an answer on. Again if the run is too busy to take it: its agent waits for it."""
        for _ in range(_TRIES):
            try:
                await self._run.request(answer)
            except (ControlRequestRefused, RunNotAlive):
                return  # answered by somebody else, or its agent has ended
            except SwarmError:
                await asyncio.sleep(_TRY_AGAIN_S)
            else:
                return

    async def _ask_questions(self, approval_id: str, action: QuestionsAction) -> ResolveApproval:
        answers: dict[str, tuple[str, ...]] = {}
        for question in action.questions:
            call = question_call(question, approval_id)
            label = chosen_label(question, await self._choose(call, question_options(question)))
            if label is None:
                return ResolveApproval(approval_id=approval_id, approve=False)
            answers[question.id] = (label,)
        return ResolveApproval(approval_id=approval_id, approve=True, answers=answers)

    async def _ask_form(
        self, approval_id: str, agent: str, request: ApprovalRequest
    ) -> ResolveApproval:
        """A server's form, as one where the editor shows forms, else field by field."""
        action = request.action
        assert isinstance(action, ElicitationAction)
        if not action.fields:
            call = permission_call(agent, request, approval_id)
            return approval_answer(approval_id, await self._choose(call, page_options(action)))
        if self._editor.shows_forms:
            message = "\n".join(elicitation_lines(replace(action, fields=())))
            schema = form_schema(action.fields)
            filled = await self._editor.fill_in(self._run.run_id, message, schema)
            return filled_form(approval_id, action, filled)
        answers: dict[str, tuple[str, ...]] = {}
        for question in questions_of(action):
            call = question_call(question, approval_id)
            options = field_options(question, can_skip=may_skip(action, question.id))
            chosen = await self._choose(call, options) if options else None
            if chosen == SKIPPED:
                continue
            label = chosen_label(question, chosen)
            if label is None:
                return ResolveApproval(approval_id=approval_id, approve=False)
            answers[question.id] = (label,)
        return ResolveApproval(approval_id=approval_id, approve=True, answers=answers)

    async def _choose(self, call: ToolCallUpdate, options: list[PermissionOption]) -> str | None:
        """The id of the option that was chosen; None for none, or for one that was not offered."""
        response = await self._editor.ask(self._run.run_id, call, options)
        outcome = response.outcome
        if outcome.outcome != "selected":
            return None
        offered = {option.option_id for option in options}
        return outcome.option_id if outcome.option_id in offered else None

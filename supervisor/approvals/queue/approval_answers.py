"""A person's answers to approvals: find the approval, check the answer, carry it out once.

An answer that cannot be carried out as given is refused with a message that says what is possible;
the approval then stays open.
"""

from typing import Protocol

import msgspec
from msgspec.structs import replace

from swarm.mailbox.base.errors import SwarmError
from swarm.mailbox.contents.form_values import FormAnswerRefused, form_content
from swarm.mailbox.protocol.approvals import (
    ApprovalGrant,
    ApprovalRequest,
    PendingApproval,
    QuestionsAction,
)
from swarm.mailbox.protocol.control import AnyControlReply, Done, Refused, ResolveApproval
from swarm.mailbox.protocol.elicitation import ElicitationAction
from swarm.mailbox.protocol.requests import Decided

from ...views.reduce_run import shrink_pending, without_grant_keys
from ..approval_grants import granted_permissions, make_exact_grant, make_grant
from ..approval_limits import cut_text
from ..approval_types import ClosedApproval, OpenApproval
from ..broker import Broker
from ..refusal_texts import aborted_text, denied_text

_MAX_REASON = 2_000
_LISTED_BYTES = 512 << 10  # of whole requests in one list
_MAX_ANSWER = 8_000
_MAX_CHOSEN = 100


class AnswerEffects(Protocol):
    """Side effects that carrying out an answer needs."""

    async def save_rule(self, request: ApprovalRequest) -> str:
        """Save what "always" stands for; returns what was saved, in words. Raises SwarmError."""
        ...

    async def spread_rules(self) -> None:
        """Send the saved rules to every live agent."""
        ...

    def notify_overruled(self, path: str, approval_id: str) -> None:
        """Tell the agent that it may try again. Never waits; one that is gone gets no notice."""
        ...


class ApprovalAnswers:
    """Carries out people's answers; used by the control server."""

    def __init__(self, broker: Broker, effects: AnswerEffects) -> None:
        self._broker, self._effects = broker, effects

    def entries(self, wanted: str = "") -> tuple[PendingApproval, ...]:
        """The open approvals, oldest first; then what a reviewer denied recently.

        Whole while they fit a message, shortened after that; `wanted` is the id of a single one.
        """
        found = [entry.pending for entry in self._broker.open]
        found += [_denied_entry(one) for one in self._broker.denied]
        found = [one for one in found if wanted in ("", one.approval_id)]
        room, kept = _LISTED_BYTES, list[PendingApproval]()
        for one in found:
            bare = replace(one, request=without_grant_keys(one.request))
            room -= len(msgspec.msgpack.encode(bare))
            kept.append(bare if room >= 0 or one.approval_id == wanted else shrink_pending(one))
        return tuple(kept)

    async def resolve(self, answer: ResolveApproval) -> AnyControlReply:
        """Carry out one answer. Returns when it is journaled."""
        found = self._find(answer.approval_id)
        match found:
            case Refused():
                return found
            case ClosedApproval():
                return await self._overrule(found, answer)
            case OpenApproval():
                # Who reads the journal's file may know of it before this process knows that it is
                # written.
                await found.written.wait()
                return await (
                    self._answer(found, answer) if found.is_open else self.resolve(answer)
                )

    def _find(self, wanted: str) -> OpenApproval | ClosedApproval | Refused:
        """Find an approval by its id or by a prefix of the id that fits only one approval."""
        wanted = wanted.strip().lower()
        known: dict[str, OpenApproval | ClosedApproval] = {
            one.approval_id: one for one in self._broker.unanswered
        }
        for denied in self._broker.denied:
            known.setdefault(denied.pending.approval_id, denied)
        if wanted in known:
            return known[wanted]
        for ended in self._broker.ended:
            if ended.pending.approval_id == wanted:
                return Refused(message=f"{wanted} is over: {ended.outcome} by {ended.by}")
        fits = [name for name in known if wanted and name.startswith(wanted)]
        if len(fits) == 1:
            return known[fits[0]]
        there = ", ".join(list(fits or known)[:12]) or "nothing"
        if fits:
            return Refused(message=f"{wanted!r} fits several: {there}; say more of it", exit_code=2)
        return Refused(message=f"no approval {wanted!r}; what waits: {there}", exit_code=2)

    async def _answer(self, entry: OpenApproval, answer: ResolveApproval) -> AnyControlReply:
        if entry.is_being_answered:
            return Refused(message=f"{entry.approval_id} is being answered by somebody else")
        if not answer.approve:
            return await self._deny(entry, answer)
        if isinstance(entry.request.action, QuestionsAction):
            return await self._reply(entry, entry.request.action, answer)
        if isinstance(entry.request.action, ElicitationAction):
            return await self._fill_in(entry, entry.request.action, answer)
        grant_id = self._broker.next_grant_id()
        grant = make_grant(grant_id, entry.agent, entry.request, answer.scope)
        if isinstance(grant, str):
            return Refused(message=f"{entry.approval_id}: {grant}", exit_code=2)
        saved = ""
        try:
            with entry.being_answered():
                if answer.scope == "always":
                    saved = await self._effects.save_rule(entry.request)
                if grant is not None:
                    await self._broker.add_grant(grant)
                    if grant.prefix:
                        await self._effects.spread_rules()
        except SwarmError as error:
            return Refused(message=f"nothing was approved: {error}")
        if not entry.is_open:
            self._broker.settle_covered()
            return Refused(
                message=f"{entry.approval_id} ended meanwhile; {_what_stays(grant, saved)}"
            )
        given = granted_permissions(entry.request)
        decided = Decided(outcome="approved", by="person", scope=answer.scope, permissions=given)
        self._broker.resolve(entry, decided)
        self._broker.settle_covered()
        await entry.done.wait()
        return Done(
            message=f"approved {entry.approval_id} of {entry.agent}{_scope_text(answer, saved)}"
        )

    async def _deny(self, entry: OpenApproval, answer: ResolveApproval) -> AnyControlReply:
        reason = cut_text(answer.reason.strip(), _MAX_REASON)
        is_form = isinstance(entry.request.action, ElicitationAction)
        if answer.abort and is_form:
            decided = Decided(outcome="aborted", by="person", text=reason or "dismissed")
        elif answer.abort:
            text = aborted_text(entry.request, reason)
            decided = Decided(outcome="aborted", by="person", text=text)
        else:
            text = denied_text(entry.request, reason)
            decided = Decided(outcome="denied", by="person", text=text)
        await self._resolve_and_wait(entry, decided)
        ended = "; its turn ends" if answer.abort and not is_form else ""
        return Done(message=f"denied {entry.approval_id} of {entry.agent}{ended}")

    async def _reply(
        self, entry: OpenApproval, action: QuestionsAction, answer: ResolveApproval
    ) -> AnyControlReply:
        """Answer a model's questions; every question needs an answer."""
        if answer.scope != "once":
            why = "an answer to a question is for that question alone"
            return Refused(message=f"{entry.approval_id}: {why}", exit_code=2)
        known = {one.id for one in action.questions}
        strange = sorted(set(answer.answers) - known)
        missing = [one for one in action.questions if not answer.answers.get(one.id)]
        if strange or missing:
            names = ", ".join(one.id for one in action.questions)
            what = f"no question {strange[0]!r}" if strange else f"{missing[0].id} has no answer"
            return Refused(
                message=f"{entry.approval_id}: {what}; answer each of {names} with "
                "--answer QUESTION=TEXT",
                exit_code=2,
            )
        answers = {
            name: tuple(cut_text(text, _MAX_ANSWER) for text in texts[:12])
            for name, texts in answer.answers.items()
        }
        await self._resolve_and_wait(
            entry, Decided(outcome="approved", by="person", answers=answers)
        )
        return Done(message=f"answered {entry.approval_id} of {entry.agent}")

    async def _fill_in(
        self, entry: OpenApproval, action: ElicitationAction, answer: ResolveApproval
    ) -> AnyControlReply:
        """Answer an MCP server's form, or agree to open its page."""
        name = entry.approval_id
        if answer.scope != "once":
            why = "an answer to a server's question is for that question alone"
            return Refused(message=f"{name}: {why}", exit_code=2)
        answers = {
            field: tuple(cut_text(text, _MAX_ANSWER) for text in texts[:_MAX_CHOSEN])
            for field, texts in answer.answers.items()
        }
        try:
            form_content(action.fields, answers)
        except FormAnswerRefused as error:
            return Refused(message=f"{name}: {error}; --answer FIELD=TEXT", exit_code=2)
        decided = Decided(outcome="approved", by="person", answers=answers)
        await self._resolve_and_wait(entry, decided)
        return Done(message=f"answered {name} of {entry.agent}: sent to {action.server}")

    async def _resolve_and_wait(self, entry: OpenApproval, decided: Decided) -> None:
        self._broker.resolve(entry, decided)
        await entry.done.wait()

    async def _overrule(self, closed: ClosedApproval, answer: ResolveApproval) -> AnyControlReply:
        """A person allows an action that a reviewer denied: exactly that action, once."""
        name, agent = closed.pending.approval_id, closed.pending.agent
        if not answer.approve:
            return Done(message=f"{name} of {agent} was denied already")
        if answer.scope != "once":
            return Refused(
                message=f"{name} was denied by the reviewer; it can be approved once", exit_code=2
            )
        self._broker.denied.remove(closed)
        grant = make_exact_grant(self._broker.next_grant_id(), agent, closed.request)
        await self._broker.add_grant(grant)
        self._effects.notify_overruled(agent, name)
        return Done(message=f"{agent} may do exactly that once; it is told to try again")


def _denied_entry(closed: ClosedApproval) -> PendingApproval:
    return replace(closed.pending, denied=closed.outcome or "the reviewer denied it")


def _scope_text(answer: ResolveApproval, saved: str) -> str:
    match answer.scope:
        case "once":
            return ""
        case "session":
            return " for the rest of the run"
        case "subtree":
            return " for the rest of the run, for it and all below it"
        case "always":
            return f"; {saved}"


def _what_stays(grant: ApprovalGrant | None, saved: str) -> str:
    if saved:
        return f"{saved}, and stays"
    return "the grant stays for the rest of the run" if grant is not None else "nothing was done"

"""Approval requests to the supervisor, and what the reply means for the call.

Only `approved` lets a call run; every other outcome, and every reply that is no decision, becomes a
refusal that the model reads. There is no deadline here: the supervisor knows the deadline and
withdraws the request when the requesting turn ends.
"""

from collections.abc import Callable

import msgspec
import trio

from swarm.mailbox.protocol.approvals import ApprovalRequest
from swarm.mailbox.protocol.requests import Decided, RequestApproval, RequestRefused

from ..base.current_spec import CurrentSpec
from ..base.reporter import Reporter
from ..parts.hooks.tool_hooks import HookedCall, ToolHooks
from ..policy.approval_offers import refusal_without_reviewer
from ..policy.command_decision import Ask, Refuse, Run
from ..policy.shell_parser import Words
from .interface.tool_interface import ApprovableInvocation, Invocation, Proposal, ToolResult

SHOW_AFTER_S = 0.2  # an immediate answer is not shown as a wait
NOTIFY_AFTER_S = 0.5
WAITING_TEXT = "waiting for approval"
PREFIX_SAVED = "Approved command prefix saved:\n- "
NO_DECISION = "not approved: the supervisor gave no decision that can be read"


class ApprovalRequester:
    """Requests approvals for one agent. `note` receives text that the model is told later."""

    def __init__(
        self,
        current: CurrentSpec,
        reporter: Reporter,
        hooks: ToolHooks | None = None,
        note: Callable[[str], None] | None = None,
    ) -> None:
        self._current, self._reporter = current, reporter
        self._hooks, self._note = hooks, note

    @property
    def can_ask(self) -> bool:
        """False: every request is refused."""
        return self._current.spec.limits.reviewer != "nobody"

    async def resolve(
        self, verdict: Ask | Refuse, prepared: Invocation, call: HookedCall, *, allowed_by: str = ""
    ) -> Run | ToolResult:
        """Return how the call runs, or its result if it does not run.

        `allowed_by`: the hook that has already allowed it. The supervisor decides whether that
        counts.
        """
        if isinstance(verdict, Refuse):
            return ToolResult(content=verdict.reason, status="declined")
        if not self.can_ask or not isinstance(prepared, ApprovableInvocation):
            reason = refusal_without_reviewer(verdict).reason
            return ToolResult(content=reason, status="declined")
        if self._hooks is not None and not allowed_by:
            said = await self._hooks.on_permission(call, verdict.reason or "")
            if said.denied is not None:
                ends = said.stopped is not None
                return ToolResult(content=said.denied, status="declined", ends_turn=ends)
            allowed_by = said.allowed_by
        if self._hooks is not None:
            self._hooks.on_request(call, verdict.reason or "")
        proposal = prepared.propose(verdict)
        asked = _request(verdict, proposal, call, allowed_by)
        decided = await self._request_approval(asked, call)
        if decided.outcome == "approved":
            if decided.scope == "always" and proposal.prefix and self._note is not None:
                self._note(PREFIX_SAVED + _as_list(proposal.prefix))
            return msgspec.structs.replace(verdict.then, answer=decided)
        return ToolResult(
            content=decided.text or f"not approved: {decided.outcome}",
            status="declined",
            ends_turn=decided.outcome == "aborted",
        )

    async def _request_approval(self, request: ApprovalRequest, call: HookedCall) -> Decided:
        reply: object = None
        async with (
            self._reporter.shown_wait(WAITING_TEXT, after_s=SHOW_AFTER_S),
            trio.open_nursery() as nursery,
        ):
            nursery.start_soon(self._notify_later, call, request.reason)
            reply = await self._reporter.request(RequestApproval(approval=request))
            nursery.cancel_scope.cancel()
        if isinstance(reply, Decided):
            return reply
        text = reply.message if isinstance(reply, RequestRefused) else NO_DECISION
        return Decided(outcome="unavailable", text=text)

    async def _notify_later(self, call: HookedCall, reason: str) -> None:
        """Tell hooks that a person is waited for, unless the answer comes at once."""
        if self._hooks is not None and self._current.spec.limits.reviewer == "person":
            await trio.sleep(NOTIFY_AFTER_S)
            self._hooks.on_waiting(call, reason)


def _as_list(words: Words) -> str:
    """Return the words as a rule file writes them."""
    return f"[{', '.join(msgspec.json.encode(word).decode() for word in words)}]"


def _request(
    verdict: Ask, proposal: Proposal, call: HookedCall, allowed_by: str
) -> ApprovalRequest:
    return ApprovalRequest(
        action=proposal.action,
        cause=verdict.cause,
        turn_id=call.turn_id,
        call_id=call.item.call_id,
        reason=verdict.reason or "",
        retry_reason=verdict.retry_reason,
        keys=proposal.keys,
        proposed_prefix=proposal.prefix,
        proposed_exact=proposal.exact,
        preview=verdict.preview,
        allowed_by_hook=allowed_by,
    )

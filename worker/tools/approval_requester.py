"""Putting a question to whoever decides, and what its answer makes of the call.

Rule guarded: only `approved` lets a call run; every other end, and every reply that is no decision,
is a refusal that the model reads. The question waits as long as the supervisor does: it knows the
deadline, and takes the question back when the asking turn ends.
"""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import msgspec
import trio

from swarm.mailbox.protocol.approvals import ApprovalRequest
from swarm.mailbox.protocol.events import Waiting
from swarm.mailbox.protocol.items import AnyCall
from swarm.mailbox.protocol.limits import Limits
from swarm.mailbox.protocol.requests import Decided, RequestApproval, RequestRefused

from ..agent.reporter import Reporter
from ..policy.approval_offers import refusal_without_reviewer
from ..policy.command_decision import Ask, Refuse, Run
from ..policy.shell_parser import Words
from .tool_interface import ApprovableInvocation, Invocation, ToolResult

SHOW_AFTER_S = 0.2  # what a grant answers is no wait
PROGRESS_INTERVAL_S = 20.0  # between two signs of a wait that goes on
WAITING_TEXT = "waiting for approval"
PREFIX_SAVED = "Approved command prefix saved:\n- "
NO_DECISION = "not approved: the supervisor gave no decision that can be read"


class ApprovalRequester:
    """Asks for one agent. `note` takes what its model should know from now on."""

    def __init__(
        self, limits: Limits, reporter: Reporter, note: Callable[[str], None] | None = None
    ) -> None:
        self._limits, self._reporter, self._note = limits, reporter, note

    def set_limits(self, limits: Limits) -> None:
        """The agent's limits have changed."""
        self._limits = limits

    @property
    def can_ask(self) -> bool:
        """False: every question is a refusal."""
        return self._limits.reviewer != "nobody"

    async def resolve(
        self, verdict: Ask | Refuse, prepared: Invocation, call: AnyCall, *, turn_id: str
    ) -> Run | ToolResult:
        """How the call runs, or what it came to without running."""
        if isinstance(verdict, Refuse):
            return ToolResult(content=verdict.reason, status="declined")
        if not self.can_ask or not isinstance(prepared, ApprovableInvocation):
            reason = refusal_without_reviewer(verdict).reason
            return ToolResult(content=reason, status="declined")
        proposal = prepared.propose(verdict)
        decided = await self._request_approval(
            ApprovalRequest(
                action=proposal.action,
                cause=verdict.cause,
                turn_id=turn_id,
                call_id=call.call_id,
                reason=verdict.reason or "",
                retry_reason=verdict.retry_reason,
                keys=proposal.keys,
                proposed_prefix=proposal.prefix,
                preview=verdict.preview,
            )
        )
        if decided.outcome == "approved":
            if decided.scope == "always" and proposal.prefix and self._note is not None:
                self._note(PREFIX_SAVED + _as_list(proposal.prefix))
            return msgspec.structs.replace(verdict.then, answer=decided)
        return ToolResult(
            content=decided.text or f"not approved: {decided.outcome}",
            status="declined",
            ends_turn=decided.outcome == "aborted",
        )

    async def _request_approval(self, request: ApprovalRequest) -> Decided:
        reply: object = None
        async with self._shown_as_waiting():
            reply = await self._reporter.request(RequestApproval(approval=request))
        if isinstance(reply, Decided):
            return reply
        text = reply.message if isinstance(reply, RequestRefused) else NO_DECISION
        return Decided(outcome="unavailable", text=text)

    @asynccontextmanager
    async def _shown_as_waiting(self) -> AsyncIterator[None]:
        """While the block runs, watchers see the wait; it counts as progress."""

        async def give_signs() -> None:
            await trio.sleep(SHOW_AFTER_S)
            while True:
                self._reporter.progress += 1
                self._reporter.emit_transient(Waiting(reason=WAITING_TEXT))
                await trio.sleep(PROGRESS_INTERVAL_S)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(give_signs)
            yield
            nursery.cancel_scope.cancel()


def _as_list(words: Words) -> str:
    """The words as a rule file writes them."""
    return f"[{', '.join(msgspec.json.encode(word).decode() for word in words)}]"

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
from swarm.mailbox.protocol.requests import Decided, RequestRefused, Review

from ..policy.asking import refusal_without_reviewer
from ..policy.decide import Ask, Refuse, Run
from ..policy.words import Words
from ..reporter import Reporter
from .spec import Askable, Outcome, Prepared

SHOW_AFTER_S = 0.2  # what a grant answers is no wait
SIGN_S = 20.0  # between two signs of a wait that goes on
WAITS = "waiting for approval"
PREFIX_SAVED = "Approved command prefix saved:\n- "
NO_DECISION = "not approved: the supervisor gave no decision that can be read"


class Asker:
    """Asks for one agent. `note` takes what its model should know from now on."""

    def __init__(
        self, limits: Limits, reporter: Reporter, note: Callable[[str], None] | None = None
    ) -> None:
        self._limits, self._reporter, self._note = limits, reporter, note

    def adopt(self, limits: Limits) -> None:
        """The agent's limits have changed."""
        self._limits = limits

    @property
    def can_ask(self) -> bool:
        """False: every question is a refusal."""
        return self._limits.reviewer != "nobody"

    async def settle(
        self, verdict: Ask | Refuse, prepared: Prepared, call: AnyCall, *, turn_id: str
    ) -> Run | Outcome:
        """How the call runs, or what it came to without running."""
        if isinstance(verdict, Refuse):
            return Outcome(content=verdict.reason, status="declined")
        if not self.can_ask or not isinstance(prepared, Askable):
            reason = refusal_without_reviewer(verdict).reason
            return Outcome(content=reason, status="declined")
        proposal = prepared.propose(verdict)
        decided = await self._ask(
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
        return Outcome(
            content=decided.text or f"not approved: {decided.outcome}",
            status="declined",
            ends_turn=decided.outcome == "aborted",
        )

    async def _ask(self, request: ApprovalRequest) -> Decided:
        reply: object = None
        async with self._shown_as_waiting():
            reply = await self._reporter.ask(Review(approval=request))
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
                self._reporter.pass_on(Waiting(reason=WAITS))
                await trio.sleep(SIGN_S)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(give_signs)
            yield
            nursery.cancel_scope.cancel()


def _as_list(words: Words) -> str:
    """The words as a rule file writes them."""
    return f"[{', '.join(msgspec.json.encode(word).decode() for word in words)}]"

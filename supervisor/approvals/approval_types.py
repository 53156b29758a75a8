"""Types shared by the parts that decide about approvals.

The broker owns the queue and asks the reviewer, which never changes the queue itself. A review
without a verdict by its deadline never approves.
"""

from collections.abc import Callable
from typing import Literal, Protocol

from swarm.mailbox.protocol.approvals import ApprovalRequest, PendingApproval
from swarm.mailbox.protocol.base import Value
from swarm.mailbox.protocol.requests import Decided


class ReviewVerdict(Value):
    """An automatic reviewer's verdict. `text` is the full text for the model; empty if approved."""

    outcome: Literal["approved", "denied", "failed", "timed_out", "aborted"]
    text: str = ""
    rationale: str = ""
    abort_turn: bool = False  # the circuit breaker has tripped: the requesting agent's turn ends


class AutoReviewer(Protocol):
    """Decides in place of a person (the guardian)."""

    async def review(self, pending: PendingApproval) -> ReviewVerdict:
        """Judge one action by its deadline; raises nothing but Cancelled.

        It is cancelled when the requesting agent is gone or a person has answered.
        """
        ...


class LazyReviewer:
    """An `AutoReviewer` that is created at the first review; most runs never need one."""

    def __init__(self, make: Callable[[], AutoReviewer]) -> None:
        self._make = make
        self._reviewer: AutoReviewer | None = None

    async def review(self, pending: PendingApproval) -> ReviewVerdict:
        """Create the reviewer if needed and let it judge."""
        if self._reviewer is None:
            self._reviewer = self._make()
        return await self._reviewer.review(pending)


class Decider(Protocol):
    """The broker's interface for everything that needs an approval."""

    async def decide(self, agent: str, request: ApprovalRequest) -> Decided:
        """Decide one request of the agent at this path, by a grant that covers it or by asking.

        Returns when the decision is journaled. Raises nothing but Cancelled, which withdraws the
        request.
        """
        ...

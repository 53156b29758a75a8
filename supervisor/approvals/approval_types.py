"""What the parts that decide about approvals say to each other.

The broker owns the queue. A reviewer is asked by it and never writes the queue itself; whatever a
reviewer cannot say in time is no yes.
"""

from collections.abc import Callable
from typing import Literal, Protocol

from swarm.mailbox.protocol.approvals import ApprovalRequest, PendingApproval
from swarm.mailbox.protocol.base import Value
from swarm.mailbox.protocol.requests import Decided


class ReviewVerdict(Value):
    """What an automatic reviewer came to. `text` is whole, for the model; empty for a yes."""

    outcome: Literal["approved", "denied", "failed", "timed_out", "aborted"]
    text: str = ""
    rationale: str = ""
    abort_turn: bool = False  # the breaker has tripped: the asking agent's turn ends


class AutoReviewer(Protocol):
    """Judges in a person's place (the guardian)."""

    async def review(self, pending: PendingApproval) -> ReviewVerdict:
        """Judge one action by its deadline; raises nothing but Cancelled.

        Cancelled when the asker is gone or somebody else has answered.
        """
        ...


class LazyReviewer:
    """An `AutoReviewer` that is made for the first review: most runs never need one."""

    def __init__(self, make: Callable[[], AutoReviewer]) -> None:
        self._make = make
        self._reviewer: AutoReviewer | None = None

    async def review(self, pending: PendingApproval) -> ReviewVerdict:
        """As the one that is made."""
        if self._reviewer is None:
            self._reviewer = self._make()
        return await self._reviewer.review(pending)


class Decider(Protocol):
    """The broker, as everyone who needs a yes sees it."""

    async def decide(self, agent: str, request: ApprovalRequest) -> Decided:
        """Put one question for the agent at this path: grants first, then whoever answers.

        Returns when it is decided and journaled. Raises nothing but Cancelled: then the question
        is withdrawn.
        """
        ...

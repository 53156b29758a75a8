"""Types shared by the parts that decide about approvals: an entry of the queue, the reviewer.

The broker owns the queue and asks the reviewer, which never changes the queue itself. A review
without a verdict by its deadline never approves.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Literal, Protocol

import trio
from msgspec.structs import replace

from swarm.mailbox.protocol.approvals import (
    ApprovalRequest,
    DecidedBy,
    NetworkAction,
    PendingApproval,
)
from swarm.mailbox.protocol.records import ApprovalRequested, Record
from swarm.mailbox.protocol.requests import Decided
from swarm.mailbox.protocol.values.base import Value


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


class OpenApproval:
    """Owned by the broker. The first answer sets `decided`; `done` is set when it is journaled.

    A withdrawn request is `done` without `decided`.
    """

    def __init__(self, pending: PendingApproval, request: ApprovalRequest) -> None:
        self.pending = pending  # as shown to people: cut, and redacted once journaled
        self.request = request  # uncut
        self.written = trio.Event()
        self.answered = trio.Event()
        self.done = trio.Event()
        self.decided: Decided | None = None
        self.is_being_answered = False  # a person's answer is being carried out

    @property
    def is_open(self) -> bool:
        return self.decided is None and not self.done.is_set()

    @property
    def agent(self) -> str:
        return self.pending.agent

    @property
    def approval_id(self) -> str:
        return self.pending.approval_id

    def decide(self, decided: Decided) -> None:
        """It has its answer."""
        self.decided = decided
        self.answered.set()

    @contextmanager
    def being_answered(self) -> Iterator[None]:
        """Inside, a person's answer is being carried out."""
        self.is_being_answered = True
        try:
            yield
        finally:
            self.is_being_answered = False

    def on_written(self, record: Record) -> None:
        """The record is journaled: from now on it may be shown, as it was written."""
        if isinstance(record.body, ApprovalRequested):
            self.pending = replace(self.pending, request=record.body.request, asked_at=record.ts)
        self.written.set()


class ClosedApproval:
    """What is remembered of a closed request."""

    def __init__(self, entry: OpenApproval, by: DecidedBy, outcome: str) -> None:
        self.pending, self.request = entry.pending, entry.request
        self.by, self.outcome = by, outcome


def is_same_request(one: ApprovalRequest, other: ApprovalRequest) -> bool:
    """True if both ask for the same network target: one request then serves both agents."""
    match one.action, other.action:
        case NetworkAction() as first, NetworkAction() as second:
            mine = (first.host.lower(), first.protocol, first.port)
            return mine == (second.host.lower(), second.protocol, second.port)
        case _:
            return False

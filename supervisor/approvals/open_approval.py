"""One question of the queue while it is open: who asks, what was written, and what came of it."""

import trio

from swarm.mailbox.protocol.approvals import (
    ApprovalRequest,
    DecidedBy,
    NetworkAction,
    PendingApproval,
)
from swarm.mailbox.protocol.records import ApprovalRequested, Record
from swarm.mailbox.protocol.requests import Decided


class OpenApproval:
    """Owned by the broker. `decided` is set once, by the first answer; `done` when it is written.

    A question that was withdrawn is `done` without `decided`.
    """

    def __init__(self, pending: PendingApproval, request: ApprovalRequest) -> None:
        self.pending = pending  # as people may see it: cut, and redacted once it is written
        self.request = request  # whole
        self.written = trio.Event()
        self.answered = trio.Event()
        self.done = trio.Event()
        self.decided: Decided | None = None
        self.is_being_answered = False  # a person's answer is being carried out: it is the first

    @property
    def is_open(self) -> bool:
        return self.decided is None and not self.done.is_set()

    @property
    def agent(self) -> str:
        return self.pending.agent

    @property
    def approval_id(self) -> str:
        return self.pending.approval_id

    def on_written(self, record: Record) -> None:
        """The journal has it: from now on it may be shown, as it was written."""
        if isinstance(record.body, ApprovalRequested):
            self.pending = PendingApproval(
                approval_id=self.pending.approval_id,
                agent=self.pending.agent,
                request=record.body.request,
                reviewer=self.pending.reviewer,
                asked_at=record.ts,
            )
        self.written.set()


class ClosedApproval:
    """What is remembered of a question that is over."""

    def __init__(self, entry: OpenApproval, by: DecidedBy, outcome: str) -> None:
        self.pending, self.request = entry.pending, entry.request
        self.by, self.outcome = by, outcome


def is_same_request(one: ApprovalRequest, other: ApprovalRequest) -> bool:
    """Two agents want to reach the same host: one question serves both."""
    match one.action, other.action:
        case NetworkAction() as first, NetworkAction() as second:
            mine = (first.host.lower(), first.protocol, first.port)
            return mine == (second.host.lower(), second.protocol, second.port)
        case _:
            return False

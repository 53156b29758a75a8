"""The approval queue of a run: grants first, then a person or the reviewer; first answer counts.

A request is journaled before anybody sees it, and its answer before the agent receives it. A
request that ends without an answer (timeout, lost reviewer, dead agent) is never approved.
"""

import time
from collections import deque
from collections.abc import Callable
from typing import NamedTuple, Protocol

import trio
from msgspec.structs import replace

from swarm.mailbox.protocol.approvals import (
    ApprovalGrant,
    ApprovalRequest,
    DecidedBy,
    PendingApproval,
    PermissionsAction,
    QuestionsAction,
    Scope,
)
from swarm.mailbox.protocol.elicitation import ElicitationAction
from swarm.mailbox.protocol.records import (
    AnyRecordBody,
    ApprovalRequested,
    ApprovalResolved,
    GrantGiven,
    Record,
)
from swarm.mailbox.protocol.requests import Decided
from swarm.mailbox.protocol.values.limits import Limits

from .approval_grants import ApprovalGrants, ApprovalsPast, granted_permissions
from .approval_limits import MAX_OPEN, MAX_OPEN_IN_RUN, cut_request, cut_text, why_not_shown
from .approval_route import ApprovalRoute, NoReviewer, ReviewerKind, choose_route
from .approval_types import (
    AutoReviewer,
    ClosedApproval,
    OpenApproval,
    ReviewVerdict,
    is_same_request,
)
from .refusal_texts import reviewer_failed_text, timed_out_text, unavailable_text, withdrawn_text
from .tool_approvals import McpToolQuestions

KEPT_DENIALS = 10
_KEPT_ENDS = 256  # closed requests that are remembered, to explain a late answer
_REVIEW_LIMIT_S = 600.0  # backstop behind the reviewer's own deadline
_MAX_REASON = 4_000


class WriteRecord(Protocol):
    """Journals a record and shows it; `then` is called with it once it is on disk, in order."""

    def __call__(
        self, body: AnyRecordBody, *, agent: str, then: Callable[[Record], None] | None = None
    ) -> None: ...


class AskSettings(NamedTuple):
    """Who is asked in this run, and for how long."""

    timeout_s: float | None = None  # for a person; None: until the run's deadline
    reviewer: AutoReviewer | None = None
    unix_s: Callable[[], float] = time.time
    tools: McpToolQuestions | None = None  # None: questions about MCP tools stay as they are
    # ids of hooks that may approve for the agent at a path
    hooks_for: Callable[[str], frozenset[str]] = lambda _path: frozenset()


class Broker:
    """The `Decider` of a run. People's answers reach it through `ApprovalAnswers`.

    Args:
        write: Journals a record.
        limits_of: The limits of the agent at a path; None if there is no such agent.
        grants: The grants that already hold, shared with the code that starts agents.
        past: What a resumed run left open; its unanswered requests are recorded as aborted.
        settings: Who is asked, and for how long.
    """

    def __init__(
        self,
        write: WriteRecord,
        limits_of: Callable[[str], Limits | None],
        grants: ApprovalGrants,
        past: ApprovalsPast,
        settings: AskSettings,
    ) -> None:
        self._write, self.grants = write, grants
        for held in past.grants:
            grants.add(held)
        self._limits_of, self._settings = limits_of, settings
        self._number = past.last_number
        self._open: dict[str, OpenApproval] = {}
        self.denied: deque[ClosedApproval] = deque(maxlen=KEPT_DENIALS)
        self.ended: deque[ClosedApproval] = deque(maxlen=_KEPT_ENDS)
        for approval_id, agent in past.unanswered:
            reason = "the run ended before it was answered"
            gone = ApprovalResolved(
                approval_id=approval_id, outcome="aborted", by="nobody", reason=reason
            )
            write(gone, agent=agent)

    @property
    def open(self) -> tuple[OpenApproval, ...]:
        """The open requests that are journaled, oldest first."""
        return tuple(one for one in self._open.values() if one.written.is_set() and one.is_open)

    @property
    def unanswered(self) -> tuple[OpenApproval, ...]:
        """Those, and the ones whose record is on its way to the journal."""
        return tuple(one for one in self._open.values() if one.is_open)

    async def decide(self, agent: str, request: ApprovalRequest) -> Decided:
        """Decide one request of the agent at this path; see `approval_types.Decider`."""
        while True:
            if (grant := self.grants.find(agent, request)) is not None:
                return await self._decide_by_grant(agent, request, grant)
            route = self._choose_route(agent, request)
            if isinstance(route, NoReviewer):
                return Decided(outcome="unavailable", text=unavailable_text(request, route.why))
            same = self._find_same_request(request)
            if same is None:
                break
            await same.done.wait()
            if same.decided is not None:
                return same.decided
        entry = self._open_approval(agent, request, route)
        try:
            if self._is_allowed_by_hook(agent, request):
                return await self._approve_by_hook(entry)
            return await self._wait(entry)
        finally:
            if entry.is_open:
                self._withdraw(entry)

    def _choose_route(self, agent: str, request: ApprovalRequest) -> ApprovalRoute:
        limits = self._limits_of(agent)
        if limits is None:
            return NoReviewer(why="this agent is not known")
        if why := why_not_shown(request):
            return NoReviewer(why=why)
        if sum(one.agent == agent for one in self._open.values()) >= MAX_OPEN:
            return NoReviewer(why=f"{MAX_OPEN} questions of this agent wait already")
        if len(self._open) >= MAX_OPEN_IN_RUN:
            return NoReviewer(why=f"{MAX_OPEN_IN_RUN} questions of this run wait already")
        route = choose_route(request, limits)
        if route == "guardian" and self._settings.reviewer is None:
            return NoReviewer(why="this run has no reviewer")
        return route

    def _is_allowed_by_hook(self, agent: str, request: ApprovalRequest) -> bool:
        """A hook of this run approves a single action; no question of a model, no lasting right."""
        is_action = not isinstance(
            request.action, QuestionsAction | PermissionsAction | ElicitationAction
        )
        return is_action and request.allowed_by_hook in self._settings.hooks_for(agent)

    async def _approve_by_hook(self, entry: OpenApproval) -> Decided:
        await entry.written.wait()
        request = entry.request
        decided = Decided(
            outcome="approved",
            by="hook",
            text=f"allowed once by hook {request.allowed_by_hook}",
            permissions=granted_permissions(request),
        )
        if entry.is_open:
            self.resolve(entry, decided)
        await entry.done.wait()
        assert entry.decided is not None
        return entry.decided

    def _find_same_request(self, request: ApprovalRequest) -> OpenApproval | None:
        for one in self._open.values():
            if one.is_open and is_same_request(one.request, request):
                return one
        return None

    def _open_approval(
        self, agent: str, request: ApprovalRequest, route: ReviewerKind
    ) -> OpenApproval:
        self._number += 1
        if self._settings.tools is not None:
            request = self._settings.tools.complete(request)
        shown = cut_request(request)
        request = replace(request, proposed_prefix=shown.proposed_prefix)
        pending = PendingApproval(
            approval_id=f"a{self._number}", agent=agent, request=shown, reviewer=route
        )
        entry = OpenApproval(pending, request)
        self._open[entry.approval_id] = entry
        asked = ApprovalRequested(
            approval_id=entry.approval_id, request=shown, reviewer=pending.reviewer
        )
        self._write(asked, agent=agent, then=entry.on_written)
        return entry

    async def _wait(self, entry: OpenApproval) -> Decided:
        await entry.written.wait()
        if entry.pending.reviewer == "person":
            limit_s = self._settings.timeout_s
            with trio.move_on_after(float("inf") if limit_s is None else limit_s):
                await entry.answered.wait()
            if entry.is_open:
                text = timed_out_text(entry.request, limit_s or 0.0)
                self.resolve(entry, Decided(outcome="timed_out", text=text))
        else:
            await self._wait_review(entry)
        await entry.done.wait()
        assert entry.decided is not None
        return entry.decided

    async def _wait_review(self, entry: OpenApproval) -> None:
        """Run the review; an answer from a person that comes first ends it."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._review, entry)
            await entry.answered.wait()
            nursery.cancel_scope.cancel()

    async def _review(self, entry: OpenApproval) -> None:
        reviewer = self._settings.reviewer
        assert reviewer is not None
        verdict = ReviewVerdict(
            outcome="failed", text=reviewer_failed_text(entry.request, "it never answered")
        )
        with trio.move_on_after(_REVIEW_LIMIT_S):
            verdict = await reviewer.review(entry.pending)
        if not entry.is_open:
            return
        decided = Decided(
            outcome="aborted" if verdict.abort_turn else verdict.outcome,
            by="guardian",
            text=verdict.text,
            permissions=granted_permissions(entry.request)
            if verdict.outcome == "approved"
            else None,
        )
        self.resolve(entry, decided)
        if decided.outcome in ("denied", "aborted"):
            self.denied.append(ClosedApproval(entry, "guardian", verdict.rationale or verdict.text))

    def resolve(self, entry: OpenApproval, decided: Decided) -> None:
        """Record the first answer. Never waits; `entry.done` is set when it is journaled."""
        if decided.outcome == "approved" and self._settings.tools is not None:
            self._settings.tools.remember(entry.request)
        entry.decide(decided)
        self._close(entry, decided.by, decided.outcome)
        resolved = ApprovalResolved(
            approval_id=entry.approval_id,
            outcome=decided.outcome,
            by=decided.by,
            scope=decided.scope,
            reason=cut_text(decided.text, _MAX_REASON),
        )
        self._write(resolved, agent=entry.agent, then=lambda _: entry.done.set())

    def _withdraw(self, entry: OpenApproval) -> None:
        """The agent is gone or has stopped waiting: close the request; later answers are void."""
        entry.answered.set()
        entry.done.set()
        self._close(entry, "nobody", "aborted")
        resolved = ApprovalResolved(
            approval_id=entry.approval_id,
            outcome="aborted",
            by="nobody",
            reason=withdrawn_text(entry.request),
        )
        self._write(resolved, agent=entry.agent)

    def _close(self, entry: OpenApproval, by: DecidedBy, outcome: str) -> None:
        self._open.pop(entry.approval_id, None)
        self.ended.append(ClosedApproval(entry, by, outcome))

    async def _decide_by_grant(
        self, agent: str, request: ApprovalRequest, grant: ApprovalGrant
    ) -> Decided:
        """Approve by an earlier answer of a person. A used-up grant is journaled as such first."""
        if (taken := self.grants.use(grant)) is not None:
            await self._commit(taken, agent)
        scope: Scope = "once" if grant.uses is not None else "session"
        given = granted_permissions(request)
        return Decided(outcome="approved", by="grant", scope=scope, permissions=given)

    async def add_grant(self, grant: ApprovalGrant) -> None:
        """The grant holds at once; returns when it is journaled."""
        self.grants.add(grant)
        await self._commit(GrantGiven(grant=grant), grant.path)

    async def _commit(self, body: AnyRecordBody, agent: str) -> None:
        written = trio.Event()
        self._write(body, agent=agent, then=lambda _: written.set())
        await written.wait()

    def settle_covered(self) -> None:
        """Approve open requests that a lasting grant now covers, so nobody is asked twice."""
        for entry in self.open:
            if entry.is_being_answered:
                continue  # a person's answer is being carried out
            grant = self.grants.find(entry.agent, entry.request)
            if grant is not None and grant.uses is None:
                given = granted_permissions(entry.request)
                self.resolve(
                    entry,
                    Decided(outcome="approved", by="grant", scope="session", permissions=given),
                )

    def next_grant_id(self) -> str:
        """A new grant id, unique in the run and across its resumes."""
        self._number += 1
        return f"g{self._number}-{int(self._settings.unix_s() * 1000):x}"

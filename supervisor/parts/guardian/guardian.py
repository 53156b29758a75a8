"""The guardian, the broker's automatic reviewer: one action in, one verdict out, by a deadline.

An error never approves. A failed review is distinguished from a denial. Every attempt is journaled.
A lost reviewer process affects only the action that it was judging.
"""

from collections.abc import Awaitable, Callable
from typing import Literal

import msgspec
import trio

from swarm.mailbox.base.errors import SwarmError
from swarm.mailbox.base.ids import ROOT_PATH
from swarm.mailbox.protocol.approvals import PendingApproval
from swarm.mailbox.protocol.events import Warned
from swarm.mailbox.protocol.records import Reviewed

from ...agents.agent_record import AgentPlan
from ...agents.life.agent_manager import AgentManager
from ...approvals.approval_types import ReviewVerdict
from ...context.run_context import RunContext
from ...request.run_request import ReviewSettings
from .assessment import (
    Assessment,
    AssessmentUnreadable,
    CircuitBreaker,
    assess,
    failure_text,
    rejection_text,
    retry_text,
    timeout_text,
)
from .review_patience import ReviewPatience, not_asked_text
from .review_prompt import LATER_REVIEWS, NotReviewable, ReviewCase, ReviewPrompt, build_prompt
from .review_transcript import TranscriptEntry, person_entries_for_child
from .reviewed_history import ReviewedHistories
from .reviewer_pool import ReviewerLease, ReviewerPool
from .reviewer_session import NoReviewAnswer, ReviewerSession, ReviewUsage, profile_for

ATTEMPTS = 3
_PAUSE_S = 0.2  # before the second attempt; doubled for each further one
_USAGE_TIMEOUT_S = 2.0
_MAX_BREAKERS = 1_000

PlanOf = Callable[[str], AgentPlan | None]
Outcome = Literal["approved", "denied", "failed", "timed_out", "aborted"]


class ReviewFailed(Exception):
    """There is no verdict; the text says why."""


class _Review:
    """One review: the request, its deadline, and the number of attempts journaled so far."""

    def __init__(self, pending: PendingApproval, review_id: str, *, deadline: float) -> None:
        self.pending, self.deadline = pending, deadline
        self.review_id, self.attempts = review_id, 0
        self.began = trio.current_time()


class _Attempt:
    """One attempt, as it will be journaled."""

    def __init__(self, number: int, session: ReviewerSession, *, delta: bool) -> None:
        self.number, self.session, self.delta = number, session, delta
        self.began = trio.current_time()
        self.outcome: Outcome = "aborted"
        self.assessment: Assessment | None = None
        self.why = ""


class Guardian:
    """An `AutoReviewer`. Made by `make_guardian`; its processes start with the first review.

    Args:
        running: The run.
        pool: The reviewer processes.
        plan_of: The plan of an agent by its path, whether it has a process now or not.
        settings: Model, policy and deadline.
    """

    def __init__(
        self,
        running: RunContext,
        pool: ReviewerPool,
        plan_of: PlanOf,
        *,
        settings: ReviewSettings,
    ) -> None:
        self._run, self._pool, self._plan_of = running, pool, plan_of
        self._settings, self._jitter = settings, running.entropy.noise
        self._patience = ReviewPatience(settings.deadline_s)
        self._histories = ReviewedHistories(running)
        self._breakers: dict[str, CircuitBreaker] = {}  # by agent path

    async def review(self, pending: PendingApproval) -> ReviewVerdict:
        """Judge one action by the deadline; raises nothing but Cancelled."""
        verdict = await self.review_case(pending, self._gather)
        return self._count_denials(pending, verdict)

    async def review_case(
        self, pending: PendingApproval, gather: Callable[[PendingApproval], Awaitable[ReviewCase]]
    ) -> ReviewVerdict:
        """Like `review`, with the case from `gather`; does not count for the circuit breaker."""
        verdict: ReviewVerdict | None = None
        allowed_s = self._patience.allowed_s(trio.current_time(), left_s=self._left_s())
        deadline = trio.current_time() + allowed_s
        review = _Review(pending, self._run.entropy.new_id(), deadline=deadline)
        if not allowed_s:
            verdict = ReviewVerdict(
                outcome="timed_out", text=not_asked_text(), rationale="the reviewer is too slow"
            )
            self._note_unasked(review, verdict)
            return verdict
        with trio.CancelScope(deadline=deadline):
            try:
                case = await gather(pending)
                assessment = await self._judge(case, review)
                verdict = _verdict(assessment)
            except (ReviewFailed, NotReviewable) as error:
                verdict = ReviewVerdict(
                    outcome="failed", text=failure_text(str(error)), rationale=str(error)
                )
        if verdict is None:
            text = timeout_text(round(allowed_s, 1))
            verdict = ReviewVerdict(outcome="timed_out", text=text, rationale="no verdict in time")
        self._patience.note(trio.current_time(), timed_out=verdict.outcome == "timed_out")
        if not review.attempts:
            self._note_unasked(review, verdict)
        return verdict

    def _left_s(self) -> float | None:
        """The seconds until the run's deadline; None if it has none."""
        deadline = self._run.deadline_unix_s
        return None if deadline is None else deadline - self._run.entropy.unix_s()

    def _note_unasked(self, review: _Review, verdict: ReviewVerdict) -> None:
        """Journal a review for which no reviewer was asked."""
        reviewed = Reviewed(
            review_id=review.review_id,
            approval_id=review.pending.approval_id,
            outcome=verdict.outcome,
            rationale=verdict.rationale,
            duration_s=round(trio.current_time() - review.began, 3),
        )
        self._run.note(reviewed, agent=review.pending.agent)

    def _count_denials(self, pending: PendingApproval, verdict: ReviewVerdict) -> ReviewVerdict:
        """Apply the circuit breaker: too many denials end the requesting agent's turn."""
        breaker = self._breakers.pop(pending.agent, None) or CircuitBreaker()
        self._breakers[pending.agent] = breaker
        while len(self._breakers) > _MAX_BREAKERS:
            del self._breakers[next(iter(self._breakers))]
        denied = verdict.outcome == "denied"
        warning = breaker.count(pending.request.turn_id, denied=denied)
        if not warning:
            return verdict
        plan = self._plan_of(pending.agent)
        if plan is not None:
            self._run.note(Warned(message=warning), agent=plan.path, file=plan.agent_id)
        text = f"{verdict.text}\n{warning}"
        return msgspec.structs.replace(verdict, text=text, abort_turn=True)

    # --- what is judged -----------------------------------------------------------------------

    async def _gather(self, pending: PendingApproval) -> ReviewCase:
        plan = self._plan_of(pending.agent)
        if plan is None:
            raise ReviewFailed("the agent that asks is gone")
        try:
            history = await self._histories.read(plan)
            root = None if plan.path == ROOT_PATH else self._plan_of(ROOT_PATH)
            handed: tuple[TranscriptEntry, ...] = ()
            if root is not None:
                handed = person_entries_for_child((await self._histories.read(root)).person_entries)
        except (OSError, msgspec.DecodeError) as error:
            raise ReviewFailed(f"the history of {plan.path} could not be read: {error}") from error
        return ReviewCase(
            agent=plan.path,
            cwd=plan.cwd,
            request=pending.request,
            entries=tuple(history.entries),
            version=history.version,
            handed=handed,
            model=plan.model_reference,
            fallback=plan.model_settings.fallback[plan.fallbacks_taken :],
        )

    # --- judging ------------------------------------------------------------------------------

    async def _judge(self, case: ReviewCase, review: _Review) -> Assessment:
        """Have a process judge the case. Raises ReviewFailed, NotReviewable, Cancelled."""
        profile = profile_for(
            self._settings, model=case.model, cwd=case.cwd, fallback=case.fallback
        )
        async with self._pool.limiter:
            try:
                lease = await self._pool.lease(profile)
            except SwarmError as error:
                raise ReviewFailed(f"no reviewer could be started: {error}") from error
            try:
                assessment = await self._ask(case, review, lease)
            except (ReviewFailed, NotReviewable):
                self._pool.release_failed(lease)
                raise
            except BaseException:
                self._pool.release_interrupted(lease)
                raise
            self._pool.release(lease)
            return assessment

    async def _ask(self, case: ReviewCase, review: _Review, lease: ReviewerLease) -> Assessment:
        """Ask up to three times in one session, after transient errors or unreadable answers."""
        session = lease.session
        prompt = build_prompt(case, session.cursors.get(case.agent))
        parts = prompt.parts
        note = LATER_REVIEWS if session.reviews == 1 else ""
        why = ""
        for number in range(1, ATTEMPTS + 1):
            attempt = _Attempt(number, session, delta=prompt.delta)
            try:
                assessment = await self._run_attempt(attempt, parts, note, case, prompt)
            except AssessmentUnreadable as error:
                attempt.outcome, attempt.why = "failed", (why := str(error))
                parts, note = (retry_text(str(error)),), ""
            except NoReviewAnswer as trouble:
                attempt.outcome, attempt.why = "failed", (why := str(trouble))
                if not trouble.is_retryable:
                    raise ReviewFailed(why) from trouble
                parts, note = (), ""
            except trio.Cancelled:
                is_late = trio.current_time() >= review.deadline
                attempt.outcome = "timed_out" if is_late else "aborted"
                raise
            else:
                return assessment
            finally:
                await self._journal_attempt(attempt, review)
            if number < ATTEMPTS:
                await trio.sleep(_PAUSE_S * 2 ** (number - 1) * (0.9 + 0.2 * self._jitter()))
        raise ReviewFailed(why)

    async def _run_attempt(
        self,
        attempt: _Attempt,
        parts: tuple[str, ...],
        note: str,
        case: ReviewCase,
        prompt: ReviewPrompt,
    ) -> Assessment:
        """Make one attempt. Raises AssessmentUnreadable, NoReviewAnswer, Cancelled."""
        session = attempt.session
        assessment = assess(await session.ask(parts, note=note))
        session.commit(case.agent, prompt.cursor)
        attempt.assessment = assessment
        attempt.outcome = "approved" if assessment.outcome == "allow" else "denied"
        return assessment

    async def _journal_attempt(self, attempt: _Attempt, review: _Review) -> None:
        """Journal one attempt, also a cancelled one; its usage is read first."""
        review.attempts += 1
        duration_s = round(trio.current_time() - attempt.began, 3)
        bill = ReviewUsage()
        with trio.move_on_after(_USAGE_TIMEOUT_S, shield=True):
            bill = await attempt.session.read_usage()
        assessment = attempt.assessment
        why = attempt.why if assessment is None else assessment.rationale
        reviewed = Reviewed(
            review_id=review.review_id,
            approval_id=review.pending.approval_id,
            outcome=attempt.outcome,
            rationale=why,
            duration_s=duration_s,
            risk="" if assessment is None else assessment.risk,
            authorization="" if assessment is None else assessment.authorization,
            attempt=attempt.number,
            session=attempt.session.path,
            delta=attempt.delta,
            usage=bill.usage,
            usd=bill.usd,
        )
        self._run.note(reviewed, agent=review.pending.agent)


def _verdict(assessment: Assessment) -> ReviewVerdict:
    if assessment.outcome == "allow":
        return ReviewVerdict(outcome="approved", rationale=assessment.rationale)
    return ReviewVerdict(
        outcome="denied", text=rejection_text(assessment), rationale=assessment.rationale
    )


def make_guardian(
    running: RunContext, agents: AgentManager, nursery: trio.Nursery, plan_of: PlanOf
) -> Guardian:
    """The guardian of a run; no process of it starts before the first review.

    Its processes end with the run (`agents.end_all`), its background tasks with the nursery.
    """
    pool = ReviewerPool(running, agents, nursery)
    return Guardian(running, pool, plan_of, settings=running.request.approvals.auto_review)

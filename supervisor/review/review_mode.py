"""Records when a run enters and leaves review mode, and makes the result.

A run that entered review mode leaves it, with or without findings, before its own end is recorded.
"""

import msgspec

from swarm.mailbox.ids import ROOT_PATH
from swarm.mailbox.protocol.records import RunCompleted
from swarm.mailbox.protocol.review import EnteredReviewMode, ExitedReviewMode

from ..run_context import RunContext
from .review_output import NO_ANSWER, parse_review, render_review


def enter_review(running: RunContext) -> None:
    """Record that the root is about to receive its review task."""
    review = running.request.review
    if review is not None:
        entered = EnteredReviewMode(target=review.target, hint=review.hint)
        running.note(entered, agent=ROOT_PATH)


def exit_review(running: RunContext, completed: RunCompleted) -> RunCompleted:
    """Record the findings and use their rendered text as the run's result."""
    if running.request.review is None:
        return completed
    if completed.status != "completed":
        running.note(ExitedReviewMode(), agent=ROOT_PATH)
        return completed
    if not (completed.result or "").strip():
        running.note(ExitedReviewMode(), agent=ROOT_PATH)
        return msgspec.structs.replace(completed, status="failed", message=NO_ANSWER)
    output = parse_review(completed.result or "")
    running.note(ExitedReviewMode(output=output), agent=ROOT_PATH)
    return msgspec.structs.replace(completed, result=render_review(output))

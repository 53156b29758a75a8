"""Review mode: a whole run that reviews, or a child that reviews its parent's changes.

What entered review mode leaves it, with or without findings, before the run's end is recorded. A
child that reviews is an ordinary child within its parent's limits, and its parent receives its
answer as any child's; its review-mode records are only for people.
"""

from functools import partial

import msgspec
import trio

from swarm.mailbox.base.ids import ROOT_PATH
from swarm.mailbox.protocol.control import AnyControlReply, Done, Refused, ReviewWork
from swarm.mailbox.protocol.records import RunCompleted
from swarm.mailbox.protocol.requests import RequestRefused, Spawn, Spawned
from swarm.mailbox.protocol.review import EnteredReviewMode, ExitedReviewMode
from swarm.roles.role_loader import REVIEW_ROLE

from ...agents.agent_record import Agent
from ...agents.child_plan import AgentRequestError
from ...agents.end_states import GOOD_ENDS
from ...context.run_context import RunContext
from ...team.team_service import TeamService
from .review_output import (
    NO_ANSWER,
    ReviewDoubts,
    checked_review,
    parse_review,
    render_review,
)

_MAX_AT_ONCE = 100  # names to try
_SLOT_TIMEOUT_S = 3.0  # how long to wait for a slot; the requester waits for the reply


def enter_review(running: RunContext) -> None:
    """Record that the root is about to receive its review task."""
    review = running.request.review
    if review is not None:
        entered = EnteredReviewMode(target=review.target, hint=review.hint, broken=review.broken)
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
    caution = running.broadcast.current_view().caution
    doubts = ReviewDoubts(broken=running.request.review.broken, caution=caution)
    output = checked_review(parse_review(completed.result or ""), doubts)
    running.note(ExitedReviewMode(output=output), agent=ROOT_PATH)
    return msgspec.structs.replace(completed, result=render_review(output))


async def start_child_review(
    running: RunContext,
    team: TeamService,
    nursery: trio.Nursery,
    asker: Agent,
    work: ReviewWork,
) -> AnyControlReply:
    """Start the review; a background task records its end."""
    numbers = range(1, _MAX_AT_ONCE)
    names = (f"review_{number}" for number in numbers)
    name = next((one for one in names if team.team.find(f"{asker.path}/{one}") is None), None)
    if name is None:
        return Refused(message=f"{asker.path} has had too many reviews in this run")
    spawn = Spawn(
        task_name=name, message=work.prompt, agent_type=REVIEW_ROLE, deadline_s=_SLOT_TIMEOUT_S
    )
    try:
        show = partial(team.lifecycle.show_position, f"{asker.path}/{name}")
        reply = await team.spawner.spawn(asker, spawn, show)
    except AgentRequestError as error:
        return Refused(message=str(error))
    if not isinstance(reply, Spawned):
        why = reply.message if isinstance(reply, RequestRefused) else "it was not started"
        return Refused(message=why)
    entered = EnteredReviewMode(
        target=work.target, hint=work.hint, reviewer=reply.path, broken=work.broken
    )
    running.note(entered, agent=asker.path)
    caution = running.broadcast.current_view().caution
    doubts = ReviewDoubts(broken=work.broken, caution=caution)
    nursery.start_soon(partial(_report_end, running, team, asker.path, reply.path, doubts))
    return Done(message=f"{reply.path} reviews: {work.hint}; {asker.path} gets its findings")


async def _report_end(
    running: RunContext, team: TeamService, asker: str, reviewer: str, doubts: ReviewDoubts
) -> None:
    """Wait until the reviewer ends for the first time and record its findings."""
    while True:
        member = team.team.find(reviewer)
        if member is None:
            output = None
            break
        if not member.is_active and member.outcome is not None:
            good = member.outcome.state in GOOD_ENDS and member.outcome.message.strip()
            message = member.outcome.message
            output = checked_review(parse_review(message), doubts) if good else None
            break
        await team.team.wait_change()
    running.note(ExitedReviewMode(output=output, reviewer=reviewer), agent=asker)

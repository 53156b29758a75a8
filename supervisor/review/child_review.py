"""A review within a live run: a child of an agent reviews the agent's changes.

The reviewer is an ordinary child within its parent's limits, and its parent receives its answer as
any child's; the review-mode records are only for people.
"""

from functools import partial

import trio

from swarm.mailbox.protocol.control import AnyControlReply, Done, Refused, ReviewWork
from swarm.mailbox.protocol.requests import AnyReply, RequestRefused, Spawn, Spawned
from swarm.mailbox.protocol.review import EnteredReviewMode, ExitedReviewMode
from swarm.roles.role_loader import REVIEW_ROLE

from ..agents.child_plan import AgentRequestError
from ..agents.end_states import GOOD_ENDS
from ..agents.team_agent import TeamAgent
from ..run_context import RunContext
from ..team.team_service import TeamService
from .review_output import parse_review

_MAX_AT_ONCE = 100  # names to try
_SLOT_TIMEOUT_S = 3.0  # how long to wait for a slot; the requester waits for the reply


async def start_child_review(
    running: RunContext,
    agency: TeamService,
    nursery: trio.Nursery,
    asker: TeamAgent,
    wish: ReviewWork,
) -> AnyControlReply:
    """Start the review; a background task records its end."""
    numbers = range(1, _MAX_AT_ONCE)
    names = (f"review_{number}" for number in numbers)
    name = next((one for one in names if agency.team.find(f"{asker.path}/{one}") is None), None)
    if name is None:
        return Refused(message=f"{asker.path} has had too many reviews in this run")
    spawn = Spawn(
        task_name=name, message=wish.prompt, agent_type=REVIEW_ROLE, deadline_s=_SLOT_TIMEOUT_S
    )
    try:
        reply = await _start(agency, asker, spawn)
    except AgentRequestError as error:
        return Refused(message=str(error))
    if not isinstance(reply, Spawned):
        words = reply.message if isinstance(reply, RequestRefused) else "it was not started"
        return Refused(message=words)
    entered = EnteredReviewMode(target=wish.target, hint=wish.hint, reviewer=reply.path)
    running.note(entered, agent=asker.path)
    nursery.start_soon(partial(_report_end, running, agency, asker.path, reply.path))
    return Done(message=f"{reply.path} reviews: {wish.hint}; {asker.path} gets its findings")


async def _start(agency: TeamService, asker: TeamAgent, wish: Spawn) -> AnyReply:
    """Start the reviewer like a child that the agent itself spawns. Raises AgentRequestError."""
    births, gate = agency.spawner, agency.spawn_limits
    gate.check(asker.plan, wish, births.roles, provider=births.provider())
    show = partial(agency.lifecycle.show_position, f"{asker.path}/{wish.task_name}")
    grant = partial(births.spawn_child, asker, wish, show)
    return await gate.count_spawn(f"{asker.path}/{wish.task_name}", grant)


async def _report_end(running: RunContext, agency: TeamService, asker: str, reviewer: str) -> None:
    """Wait until the reviewer ends for the first time and record its findings."""
    while True:
        member = agency.team.find(reviewer)
        if member is None:
            output = None
            break
        if not member.is_active and member.outcome is not None:
            good = member.outcome.state in GOOD_ENDS and member.outcome.message.strip()
            output = parse_review(member.outcome.message) if good else None
            break
        await agency.team.wait_change()
    running.note(ExitedReviewMode(output=output, reviewer=reviewer), agent=asker)

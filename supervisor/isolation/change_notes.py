"""What an answer of an agent in a copy says of its change: its size, and whether it fits.

It is read once a turn of the agent has ended, before its parent is told.
"""

from functools import partial

import trio

from swarm.mailbox.errors import SwarmError

from ..agents.agent_record import Agent
from ..run_context import RunContext
from .merge_plan import MergePlan, plan_merge
from .merge_service import CopiedWork
from .merge_summary import count_change

_LOOK_LIMIT_S = 5.0  # else the answer is not kept back


class ChangeNotes:
    """One per run. One change is read at a time: thirty agents may end at once."""

    def __init__(self, running: RunContext) -> None:
        self._run = running
        self._limiter = trio.CapacityLimiter(1)

    async def describe(self, agent: Agent) -> str:
        """One line in brackets; "" if it cannot be known."""
        work = CopiedWork(self._run.paths)
        look = partial(_describe, work, agent.plan.agent_id)
        try:
            with trio.fail_after(_LOOK_LIMIT_S):
                return await trio.to_thread.run_sync(
                    look, limiter=self._limiter, abandon_on_cancel=True
                )
        except (SwarmError, OSError, ValueError, trio.TooSlowError):
            return ""


def _describe(work: CopiedWork, agent_id: str) -> str:
    """Raises SwarmError, OSError, ValueError. Blocks."""
    change = work.change_of(agent_id)
    if change is None or change.unreadable:
        return ""
    if not change.edits:
        return "(It worked in a copy of the project, and changed nothing there.)"
    counted = count_change(change, work.store)
    return f"(In its copy of the project: {counted}; {_fit(plan_merge([change], work.store))}.)"


def _fit(plan: MergePlan) -> str:
    count = len(plan.conflicts)
    if count:
        return f"{count} file{'' if count == 1 else 's'} in conflict with the project now"
    if not plan.totals:
        return "all of it is in the project"
    return "it fits the project now; `merge_changes` brings it in"

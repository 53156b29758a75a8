"""Measures the change of an agent in a copy once a turn of it has ended: its size, and if it fits.

Its parent is told of it with the answer, and people see it in the tree.
"""

from functools import partial

import trio

from swarm.mailbox.base.errors import SwarmError
from swarm.mailbox.protocol.merge_records import ChangeMeasured

from ....agents.agent_record import Agent
from ....context.run_context import RunContext
from ..merge_plan import plan_merge
from ..merge_service import CopiedWork
from ..merge_summary import count_lines
from ..merge_target import PROJECT

_LOOK_LIMIT_S = 5.0  # else the answer is not kept back


class ChangeMeasures:
    """One per run. One change is read at a time: thirty agents may end at once."""

    def __init__(self, running: RunContext) -> None:
        self._run = running
        self._limiter = trio.CapacityLimiter(1)

    async def measure(self, agent: Agent) -> None:
        """Journal what is in the agent's copy, for its next report; nothing if it is not known."""
        await self._run.hosts.bring_layers(agent.plan.agent_id)
        look = partial(_measure, CopiedWork(self._run.paths), agent.plan.agent_id)
        measured = None
        try:
            with trio.fail_after(_LOOK_LIMIT_S):
                measured = await trio.to_thread.run_sync(
                    look, limiter=self._limiter, abandon_on_cancel=True
                )
        except (SwarmError, OSError, ValueError, trio.TooSlowError):
            pass
        agent.note_change("" if measured is None else describe_measured(measured))
        if measured is not None:
            self._run.note(measured, agent=agent.path)


def _measure(work: CopiedWork, agent_id: str) -> ChangeMeasured | None:
    """Raises SwarmError, OSError, ValueError. Blocks."""
    change = work.change_of(agent_id)
    if change is None or change.unreadable:
        return None
    if not change.edits:
        return ChangeMeasured(agent_id=agent_id)
    added, removed = count_lines(change, work.store)
    target = work.target_of([change])
    plan = plan_merge([change], work.store, target=target)
    return ChangeMeasured(
        agent_id=agent_id,
        into="" if target is PROJECT else target.name,
        added=added,
        removed=removed,
        files=change.files,
        conflicts=len(plan.conflicts),
        is_merged=not (plan.conflicts or plan.totals),
    )


def describe_measured(measured: ChangeMeasured) -> str:
    """One line for models, in brackets."""
    target = measured.into or PROJECT.name
    if not measured.files:
        return "(It worked in a copy of the project, and changed no file there.)"
    if measured.conflicts:
        files = "1 file" if measured.conflicts == 1 else f"{measured.conflicts} files"
        fit = f"{files} in conflict with {target} now"
    elif measured.is_merged:
        fit = f"all of it is in {target}"
    else:
        fit = f"it fits {target} now; `merge_changes` brings it in"
    return f"(In its copy of the project: {measured.size}; {fit}.)"

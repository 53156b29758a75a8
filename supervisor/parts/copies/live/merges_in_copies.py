"""Merges into a copy that is mounted: the process of the agent whose copy it is writes them.

The supervisor plans, journals the begin and hands out the program; the agent runs it in its mount
namespace and says what it printed; then the end is journaled. If the agent is gone in between, the
merge is one that was cut off: it is carried out before the agent's next one, or at the run's end.
"""

from functools import partial

import trio

from swarm.mailbox.base.errors import SwarmError
from swarm.mailbox.protocol.control import NOTHING_TO_MERGE, MergeChanges
from swarm.mailbox.protocol.merge_records import MergeBegan
from swarm.mailbox.protocol.requests import MergeReported, MergeWritten, RequestRefused

from ....agents.agent_record import Agent
from ....context.run_context import RunContext
from ...undo.live.file_history import FileHistory
from ..copy_merges import end_copy_merge, read_result
from ..merge_apply import begin_merge
from ..merge_service import CHANGED_SINCE, CopiedWork
from ..merge_summary import describe_left, describe_plan
from .live_merges import check_ended, count_ends, with_files, write_merge_record


def find_mounted(running: RunContext, agent: Agent) -> bool:
    """True if this agent's process has a copy mounted. Blocks."""
    if agent.plan.limits.isolation != "copy":
        return False
    copy = running.copies.folder.find(agent.plan.agent_id)
    return copy is not None and not copy.tree


async def begin_merge_in_copy(
    running: RunContext, history: FileHistory, agent: Agent, order: MergeChanges
) -> MergeReported | RequestRefused:
    """Plan, and journal the begin; the reply has the program that writes it."""
    work, write = CopiedWork(running.paths), partial(write_merge_record, running)
    ends = count_ends(running, order.agents)

    def act() -> MergeReported:
        if cut_off := work.cut_off_in(agent.plan.agent_id):
            program = work.copies.program(cut_off, finishes=True)
            return MergeReported(text="", merge_id=cut_off.merge_id, program=program)
        trio.from_thread.run_sync(check_ended, running, ends)
        report = work.check(order.agents, resolved=order.resolved)
        if report.plan.conflicts:
            raise SwarmError("\n".join(describe_plan(report.plan, report.changes)))
        if not report.changes:
            return MergeReported(text=NOTHING_TO_MERGE)
        if order.tested and report.plan.digest != order.tested:
            raise SwarmError(CHANGED_SINCE)
        began = begin_merge(report.plan, work.store, write, into=agent.plan.agent_id)
        return MergeReported(text="", merge_id=began.merge_id, program=work.copies.program(began))

    try:
        return await with_files(running, history, act)
    except (SwarmError, OSError, ValueError) as error:
        return RequestRefused(message=str(error))


async def end_merge_in_copy(
    running: RunContext, history: FileHistory, agent: Agent, written: MergeWritten
) -> MergeReported | RequestRefused:
    """Journal what became of the merge that the agent wrote."""
    work, write = CopiedWork(running.paths), partial(write_merge_record, running)

    def act() -> MergeReported:
        began = work.cut_off_in(agent.plan.agent_id)
        if began is None or began.merge_id != written.merge_id:
            raise SwarmError(f"no merge {written.merge_id[:64]} into your copy has begun")
        done = end_copy_merge(began, read_result(written.result), write)
        return MergeReported(text=_describe(began) + describe_left(done.left))

    try:
        return await with_files(running, history, act)
    except (SwarmError, OSError, ValueError) as error:
        return RequestRefused(message=str(error))


def _describe(began: MergeBegan) -> str:
    words = ", ".join(f"{one.agent} {one.files} files" for one in began.changes)
    return f"merged into your copy: {words}"

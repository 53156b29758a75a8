"""Merges of a live run: by a person's request, and what is left of earlier parts of the run.

Only agents whose work has ended are merged: the layer of one that works may be half written.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import TypeVar

import msgspec
import trio

from swarm.mailbox.base.errors import SwarmError
from swarm.mailbox.base.ids import short_id
from swarm.mailbox.protocol.control import NOTHING_TO_MERGE, Done, MergeChanges, Refused
from swarm.mailbox.protocol.events import Warned
from swarm.mailbox.protocol.merge_records import ChangeDiscarded, MergeBegan, MergeEnded
from swarm.mailbox.protocol.records import FilesChanged

from ....context.run_context import RunContext
from ...undo.live.file_history import FileHistory
from ..copy_folder import AgentCopy
from ..merge_apply import MergeStale
from ..merge_history import MergePast
from ..merge_service import AcceptPlan, CopiedWork, MergeReport
from ..merge_summary import describe_left, describe_report

_T = TypeVar("_T")


async def merge_in_live_run(
    running: RunContext,
    history: FileHistory,
    request: MergeChanges,
    accept: AcceptPlan = lambda _plan: None,
) -> Done | Refused:
    """Carry out a `swarm merge`, or give changes up. `accept`: see `CopiedWork.merge`."""
    work = open_work(running)
    busy = find_working(running, work)
    if named := sorted(set(busy) & set(request.agents)):
        return Refused(message=f"{', '.join(named)} still works; wait for it, or interrupt it")
    chosen = request.agents or tuple(
        one.path for one in work.agents() if one.path not in busy and not one.above
    )
    if not chosen:
        return Done(message=NOTHING_TO_MERGE + _still_working(busy))
    request = msgspec.structs.replace(request, agents=chosen)
    try:
        if request.discard:
            discard = partial(_discard, running, work, chosen)
            lines = await with_files(running, history, discard)
        else:
            report = await merge_ended_work(running, history, request, accept)
            lines = tuple(describe_report(report, short_id(running.run_id)))
            if report.plan.conflicts:
                raise SwarmError("\n".join(lines))
    except SwarmError as error:
        return Refused(message=str(error))
    return Done(message="\n".join(lines) + _still_working(busy))


async def merge_ended_work(
    running: RunContext,
    history: FileHistory,
    request: MergeChanges,
    accept: AcceptPlan = lambda _plan: None,
) -> MergeReport:
    """Merge the named agents' changes, or say what conflicts. `accept`: see `CopiedWork.merge`.

    The plan, which may take minutes, is made beside all other work; nobody waits for files while
    it is. Raises SwarmError: nothing is merged, also if a named agent works again meanwhile.
    """
    work, write = open_work(running), partial(write_merge_record, running)
    finish = partial(work.finish_cut_off, write)
    finished = await with_files(running, history, finish)
    ends = count_ends(running, request.agents)
    plan = partial(work.check, request.agents, resolved=request.resolved)
    report = msgspec.structs.replace(await trio.to_thread.run_sync(plan), finished=finished)
    if report.plan.conflicts or not report.changes:
        return report

    def act() -> MergeReport:
        trio.from_thread.run_sync(check_ended, running, ends)
        try:
            done = work.apply(report, write, tested=request.tested, accept=accept)
        except MergeStale:  # planned again, while nobody writes
            done = work.merge_again(
                report, write, tested=request.tested, resolved=request.resolved, accept=accept
            )
        history.change_watcher.tree.refresh(_touched(done))
        return done

    return await with_files(running, history, act)


def open_work(running: RunContext) -> CopiedWork:
    """The run's copies; a copy that is mounted is written by its agent's process alone."""

    def is_mounted(copy: AgentCopy) -> bool:
        agent = running.agents.find(copy.path)
        return not copy.tree and agent is not None and agent.phase.has_process

    return CopiedWork(running.paths, is_mounted)


def _discard(running: RunContext, work: CopiedWork, chosen: tuple[str, ...]) -> tuple[str, ...]:
    trio.from_thread.run_sync(check_ended, running, dict.fromkeys(chosen))
    given_up = work.discard(chosen, partial(write_merge_record, running))
    return tuple(f"given up: {change.agent}" for change in given_up)


async def finish_cut_off_merges(
    running: RunContext, history: FileHistory, past: MergePast | None = None
) -> None:
    """Carry out merges that a kill cut off. `past`: from a journal that was just read."""
    if not running.paths.copies.is_dir():
        return

    def act() -> tuple[str, ...]:
        found = open_work(running).finish_cut_off(partial(write_merge_record, running), past)
        return tuple(
            f"the merge {one.merge_id} was cut off before; it is done now{describe_left(one.left)}"
            for one in found
        )

    try:
        finished = await with_files(running, history, act)
    except SwarmError as error:
        running.note(Warned(message=str(error)))
        return
    for text in finished:
        running.note(Warned(message=text))


async def with_files(running: RunContext, history: FileHistory, act: Callable[[], _T]) -> _T:
    """Do the work in a thread while no scan runs; what agents changed before is known by then."""
    await history.change_watcher.request_scan()
    await running.journal.flush()
    async with history.lock, running.copies.held():
        return await trio.to_thread.run_sync(act)


def find_working(running: RunContext, work: CopiedWork) -> list[str]:
    """The agents in copies whose work has not ended."""
    found = {one.path: running.agents.find(one.path) for one in work.agents()}
    return [path for path, agent in found.items() if agent is not None and agent.is_active]


def count_ends(running: RunContext, paths: tuple[str, ...]) -> dict[str, int | None]:
    """How often the work of each of these agents has ended so far."""
    found = {path: running.agents.find(path) for path in paths}
    return {path: None if one is None else one.end_count for path, one in found.items()}


def check_ended(running: RunContext, ends: Mapping[str, int | None]) -> None:
    """Raises SwarmError if such an agent works, or has worked since its ends were counted."""
    for path, count in ends.items():
        agent = running.agents.find(path)
        if agent is not None and (agent.is_active or count not in (None, agent.end_count)):
            raise SwarmError(f"{path} works again; merge when that has ended")


def _touched(report: MergeReport) -> tuple[str, ...]:
    done = (*report.finished, *(() if report.done is None else (report.done,)))
    return tuple(path for one in done for path in one.touched)


def _still_working(busy: list[str]) -> str:
    return f"\nstill at work, and left out: {', '.join(busy)}" if busy else ""


def write_merge_record(
    running: RunContext,
    body: MergeBegan | MergeEnded | FilesChanged | ChangeDiscarded,
    agent: str,
) -> None:
    """From a thread; returns when the record is on disk."""
    trio.from_thread.run(partial(running.commit, body, agent=agent))

"""Merges of a live run: by a person's request, and what is left of earlier parts of the run.

Only agents whose work has ended are merged: the layer of one that works may be half written.
"""

from collections.abc import Callable
from functools import partial

import trio

from swarm.mailbox.errors import SwarmError
from swarm.mailbox.ids import short_id
from swarm.mailbox.protocol.control import Done, MergeChanges, Refused
from swarm.mailbox.protocol.events import Warned
from swarm.mailbox.protocol.merge_records import ChangeDiscarded, MergeBegan, MergeEnded
from swarm.mailbox.protocol.records import FilesChanged

from ..file_history.file_history import FileHistory
from ..run_context import RunContext
from .merge_service import AcceptPlan, CopiedWork, MergeReport
from .merge_summary import count_files, describe_left, describe_report

_MAX_NAMED = 8
_LOOK_LIMIT_S = 20.0  # at the run's end


async def merge_in_live_run(
    running: RunContext,
    history: FileHistory,
    request: MergeChanges,
    accept: AcceptPlan = lambda _plan: None,
) -> Done | Refused:
    """Carry out a `swarm merge`, or give changes up. `accept`: see `CopiedWork.merge`."""
    work = CopiedWork(running.paths)
    busy = find_working(running, work)
    if named := sorted(set(busy) & set(request.agents)):
        return Refused(message=f"{', '.join(named)} still works; wait for it, or interrupt it")
    chosen = request.agents or tuple(one.path for one in work.agents() if one.path not in busy)
    if not chosen:
        return Done(message="there is nothing to merge" + _still_working(busy))

    def act() -> tuple[str, ...]:
        begun = trio.from_thread.run_sync(find_working, running, work)
        if named := sorted({*begun}.intersection(chosen)):  # since the request came
            raise SwarmError(f"{', '.join(named)} works again; merge when that has ended")
        write = partial(_write, running)
        if request.discard:
            given_up = work.discard(chosen, write)
            return tuple(f"given up: {change.agent}" for change in given_up)
        report = work.merge(
            chosen, write, tested=request.tested, resolved=request.resolved, accept=accept
        )
        history.change_watcher.tree.refresh(_touched(report))
        lines = tuple(describe_report(report, short_id(running.run_id)))
        if report.plan.conflicts:
            raise SwarmError("\n".join(lines))
        return lines

    try:
        lines = await _with_files(running, history, act)
    except SwarmError as error:
        return Refused(message=str(error))
    return Done(message="\n".join(lines) + _still_working(busy))


async def finish_cut_off_merges(running: RunContext, history: FileHistory) -> None:
    """Carry out merges that the end of an earlier part of the run cut off."""
    if not running.paths.copies.is_dir():
        return

    def act() -> tuple[str, ...]:
        found = CopiedWork(running.paths).finish_cut_off(partial(_write, running))
        return tuple(
            f"the merge {one.merge_id} was cut off before; it is done now{describe_left(one.left)}"
            for one in found
        )

    try:
        finished = await _with_files(running, history, act)
    except SwarmError as error:
        running.note(Warned(message=str(error)))
        return
    for text in finished:
        running.note(Warned(message=text))


async def note_unmerged(running: RunContext) -> None:
    """At the run's end: say what is not in the project, and how to bring it there."""
    if not running.paths.copies.is_dir():
        return

    def look() -> str:
        work = CopiedWork(running.paths)
        found = work.unmerged()
        words = [f"{one.agent} {count_files(one)}" for one in found[:_MAX_NAMED]]
        more = [f"{len(found) - _MAX_NAMED} more"] if len(found) > _MAX_NAMED else []
        return ", ".join((*words, *more))

    text, run = "", short_id(running.run_id)
    try:
        with trio.fail_after(_LOOK_LIMIT_S):
            await running.journal.flush()
            text = await trio.to_thread.run_sync(look, abandon_on_cancel=True)
    except trio.TooSlowError:
        why = f"that took over {_LOOK_LIMIT_S:g} s; `swarm merge {run} --check` shows it"
        running.note(Warned(message=f"what agents changed in their copies is not known: {why}"))
    except (SwarmError, OSError, ValueError) as error:
        running.note(Warned(message=f"what agents changed in their copies is not known: {error}"))
    if text:
        how = f"`swarm merge {run} --check` shows what fits, `swarm merge {run}` merges it"
        running.note(Warned(message=f"not merged yet: {text}; {how}"))


async def _with_files(
    running: RunContext, history: FileHistory, act: Callable[[], tuple[str, ...]]
) -> tuple[str, ...]:
    """Do the work in a thread while no scan runs; what agents changed before is known by then."""
    await history.change_watcher.request_scan()
    await running.journal.flush()
    async with history.lock:
        return await trio.to_thread.run_sync(act)


def find_working(running: RunContext, work: CopiedWork) -> list[str]:
    """The agents in copies whose work has not ended."""
    found = {one.path: running.agents.find(one.path) for one in work.agents()}
    return [path for path, agent in found.items() if agent is not None and agent.is_active]


def _touched(report: MergeReport) -> tuple[str, ...]:
    done = (*report.finished, *(() if report.done is None else (report.done,)))
    return tuple(path for one in done for path in one.touched)


def _still_working(busy: list[str]) -> str:
    return f"\nstill at work, and left out: {', '.join(busy)}" if busy else ""


def _write(
    running: RunContext,
    body: MergeBegan | MergeEnded | FilesChanged | ChangeDiscarded,
    agent: str,
) -> None:
    trio.from_thread.run(partial(running.commit, body, agent=agent))

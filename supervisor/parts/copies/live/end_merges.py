"""At a run's end: merges what agents changed in copies, if that was chosen, and says what is left.

`merge = "auto"` merges what fits; else the work waits for `swarm merge`. A run that did not
complete merges nothing.
"""

from functools import partial

import trio

from swarm.mailbox.base.errors import SwarmError
from swarm.mailbox.base.ids import short_id
from swarm.mailbox.protocol.control import MergeChanges
from swarm.mailbox.protocol.events import Warned
from swarm.mailbox.protocol.records import RunCompleted

from ....context.run_context import RunContext
from ....runs.run_status import ANSWERED
from ...undo.live.file_history import FileHistory
from ..merge_service import CopiedWork
from ..merge_summary import describe_agents
from .live_merges import find_working, finish_cut_off_merges, merge_ended_work

_LOOK_LIMIT_S = 20.0


async def finish_files(running: RunContext, history: FileHistory, completed: RunCompleted) -> None:
    """The run's last work with files; no agent has a process any more."""
    await finish_cut_off_merges(running, history)
    await _merge_if_chosen(running, history, completed)
    await history.change_watcher.finish()
    await _note_unmerged(running)


async def _merge_if_chosen(
    running: RunContext, history: FileHistory, completed: RunCompleted
) -> None:
    """Merge the changes that fit together, in the order in which the agents ended.

    Copies of copies go up one level after the other, so that all of it comes in. What does not fit,
    or belongs to an agent that still works, is left, and named afterwards.
    """
    wanted = running.request.copies.merge == "auto" and completed.status in ANSWERED
    if not wanted or not running.paths.copies.is_dir():
        return
    work = CopiedWork(running.paths)
    try:
        for above in await trio.to_thread.run_sync(work.levels):
            await _merge_level(running, history, work, above)
    except (SwarmError, OSError, ValueError) as error:
        running.note(Warned(message=f"not all was merged at the end: {error}"))


async def _merge_level(
    running: RunContext, history: FileHistory, work: CopiedWork, above: str
) -> None:
    """`above`: the agent into whose copy it goes; "": into the project.

    Raises SwarmError, OSError, ValueError.
    """
    await running.journal.flush()
    busy = find_working(running, work)
    clean = await trio.to_thread.run_sync(partial(work.check_clean, above=above, without=busy))
    if not clean.changes:
        return
    names = tuple(change.agent for change in clean.changes)
    report = await merge_ended_work(running, history, MergeChanges(agents=names))
    if report.done is None:
        return
    words = describe_agents(report.changes)
    undo = f"swarm undo {short_id(running.run_id)} --merge {report.number}"
    how = f"; `{undo}` takes it back" if report.number else ""
    running.note(Warned(message=f"merged: {words}{how}"))


async def _note_unmerged(running: RunContext) -> None:
    """Say what is not in the project, and how to bring it there."""
    if not running.paths.copies.is_dir():
        return
    work, text, run = CopiedWork(running.paths), "", short_id(running.run_id)
    try:
        with trio.fail_after(_LOOK_LIMIT_S):
            await running.journal.flush()
            found = await trio.to_thread.run_sync(work.unmerged, abandon_on_cancel=True)
            text = describe_agents(found)
    except trio.TooSlowError:
        why = f"that took over {_LOOK_LIMIT_S:g} s; `swarm merge {run} --check` shows it"
        running.note(Warned(message=f"what agents changed in their copies is not known: {why}"))
    except (SwarmError, OSError, ValueError) as error:
        running.note(Warned(message=f"what agents changed in their copies is not known: {error}"))
    if text:
        how = f"`swarm merge {run} --check` shows what fits, `swarm merge {run}` merges it"
        running.note(Warned(message=f"not merged yet: {text}; {how}"))

"""Merges of a run that has no supervisor: under the run's lock, with its journal. Not for Trio."""

from collections.abc import Callable
from functools import partial

import trio

from swarm.mailbox.base.errors import SwarmError
from swarm.mailbox.protocol.control import MergeChanges
from swarm.mailbox.protocol.records import AnyRecordBody

from ...journal.journal import Journal, open_journal
from ...journal.journal_reader import run_records
from ...runs.paths import RunPaths
from ...runs.run_metadata import lock_run
from ..undo.file_undo import clear_cut_off_undos
from ..undo.snapshots import fold_files
from .merge_service import CopiedWork, MergeReport, WriteRecord


def merge_ended_run(here: RunPaths, request: MergeChanges) -> MergeReport:
    """Merge the named agents' changes, or give them up.

    Raises SwarmError: nothing is merged. Starts Trio for the journal.
    """
    work = CopiedWork(here)

    def act(write: WriteRecord) -> MergeReport:
        try:
            clear_cut_off_undos(fold_files(run_records(here)), here)
        except (OSError, ValueError) as error:
            raise SwarmError(f"the run's store cannot be read: {error}") from error
        if request.discard:
            return MergeReport(changes=work.discard(request.agents, write))
        return work.merge(request.agents, write, tested=request.tested)

    with lock_run(here, "merge"):
        return trio.run(_in_journal, here, act)


async def _in_journal(here: RunPaths, work: Callable[[WriteRecord], MergeReport]) -> MergeReport:
    """Do the work in a thread, with the run's journal."""
    async with open_journal(here) as journal:
        write = partial(write_from_thread, journal, trio.lowlevel.current_trio_token())
        try:
            return await trio.to_thread.run_sync(work, write)
        except SwarmError as error:
            refused = error
    raise refused  # here, since the journal's own tasks would wrap it in a group


def write_from_thread(
    journal: Journal, token: trio.lowlevel.TrioToken, body: AnyRecordBody, agent: str
) -> None:
    """Return when the record is on disk. Ctrl-C does not end it: files were changed by then."""
    trio.from_thread.run(partial(journal.commit, body, agent=agent), trio_token=token)

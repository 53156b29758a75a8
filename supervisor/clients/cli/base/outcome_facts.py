"""What is known about a run's files once it has ended, for its last lines and `swarm show`."""

from swarm.mailbox.base.errors import SwarmError

from ....parts.copies.held_work import describe_unmerged
from ....runs.paths import RunPaths
from ....runs.run_metadata import read_metadata
from ...console.run_summary import RunOutcome

_MOST_COUNTED = 200  # files whose lines are counted


def find_outcome(here: RunPaths) -> RunOutcome:
    """The files that the run changed in the project and did not take back, and unmerged work.

    Never raises: what cannot be read is left out, and the commands that are named say why.
    """
    if not here.metadata.is_file():
        return RunOutcome(is_kept=False)
    unmerged = describe_unmerged(here)
    if not here.file_copies.is_dir():  # nothing was ever recorded
        return RunOutcome(unmerged=unmerged)
    try:
        names, added, removed = _changed_files(here)
    except (SwarmError, OSError, ValueError):
        return RunOutcome(unmerged=unmerged)
    return RunOutcome(changed=names, added=added, removed=removed, unmerged=unmerged)


def _changed_files(here: RunPaths) -> tuple[tuple[str, ...], int, int]:
    """As `swarm diff RUN --stat`: names, lines added and removed."""
    from ....journal.journal_reader import run_records
    from ....parts.undo.content_store import ContentStore  # few runs change files
    from ....parts.undo.file_undo import recorded_changes
    from ....parts.undo.net_changes import compose_changes
    from ....parts.undo.snapshots import choose_snapshots, fold_files
    from ....parts.undo.unified_diff import count_diff, shown_name

    store, cwd = ContentStore(here.file_copies), read_metadata(here).cwd
    chosen = choose_snapshots(fold_files(run_records(here)).snapshots, agent="")
    edits = [one for one in compose_changes(recorded_changes(chosen, store)) if not one.is_folder]
    counted = [count_diff(one, store, cwd) for one in edits[:_MOST_COUNTED]]
    if len(edits) > _MOST_COUNTED:  # a part of the lines would look like all of them
        counted = []
    added, removed = sum(one.added for one in counted), sum(one.removed for one in counted)
    return tuple(shown_name(one.path, cwd) for one in edits), added, removed

"""Names the merges of a run that were cut off, and their files. Blocks."""

from collections.abc import Iterator

from swarm.mailbox.base.errors import SwarmError
from swarm.mailbox.base.ids import short_id

from ...journal.journal_reader import run_records
from ...runs.paths import RunPaths
from .merge_apply import find_unfinished
from .merge_history import fold_merges
from .merge_service import CopiedWork

NOT_AT_ITS_END = "has not come to its end"
_MOST_SHOWN = 20


def describe_cut_off(run_paths: RunPaths) -> Iterator[str]:
    """Lines; none if every merge has its end."""
    if not run_paths.copies.is_dir():
        return
    work, run = CopiedWork(run_paths), short_id(run_paths.folder.name)
    for one in fold_merges(run_records(run_paths)).cut_off:
        name = one.began.merge_id
        try:
            paths = find_unfinished(one.began, work.store, work.reader_of(one.began))
        except (SwarmError, OSError, ValueError) as error:
            yield f"{name} {NOT_AT_ITS_END}, and its files cannot be told: {error}"
            continue
        count = "1 file is" if len(paths) == 1 else f"{len(paths)} files are"
        yield (
            f"{name} {NOT_AT_ITS_END}: {count} not as it leaves them; "
            f"`swarm merge {run}` carries it out"
        )
        yield from (f"  {path}" for path in paths[:_MOST_SHOWN])
        if len(paths) > _MOST_SHOWN:
            yield f"  and {len(paths) - _MOST_SHOWN} more"

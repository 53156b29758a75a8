"""How the hooks of a folder last ended, from the journals of its newest runs."""

from pathlib import Path

from swarm.mailbox.base.errors import SwarmError
from swarm.mailbox.protocol.events import HookRan

from ....journal.journal_reader import read_records
from ....runs.paths import UserPaths, paths_of_run
from ....runs.run_list import RunFilter, list_runs

_MOST_RUNS = 3  # of this folder; older ones are not read
_MOST_LISTED = 200
_MOST_JOURNAL_BYTES = 32 << 20  # of one run


def last_results(places: UserPaths, folder: Path) -> dict[str, HookRan]:
    """The last end of each hook, by its id, in the newest runs of `folder`; bounded.

    A run that cannot be read, or whose journal is large, is left out.
    """
    found: dict[str, HookRan] = {}
    wanted = RunFilter(limit=_MOST_LISTED, with_sizes=False)
    here = [run.run_id for run in list_runs(places, wanted) if run.cwd == str(folder)]
    for run_id in here[:_MOST_RUNS]:
        run_paths = paths_of_run(places, run_id)
        if _journal_bytes(run_paths.folder) > _MOST_JOURNAL_BYTES:
            continue
        try:
            ends = [one.body for one in read_records(run_paths) if isinstance(one.body, HookRan)]
        except (SwarmError, OSError):
            continue
        for end in reversed(ends):
            found.setdefault(end.hook_id, end)
    return found


def _journal_bytes(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*.jsonl") if path.is_file())

"""The runs on this machine: listing, states, deletion. Reads `run.json`, no journal.

It never deletes anything outside the runs folder, nor a run that is alive.
"""

import os
import shutil
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import lru_cache
from itertools import islice
from pathlib import Path

import msgspec

from swarm.mailbox.base.errors import SwarmError, UsageError
from swarm.mailbox.base.ids import short_id
from swarm.mailbox.base.remove_tree import remove_tree
from swarm.mailbox.base.safe_open import FOLDER_FLAGS, open_beneath, open_canonical
from swarm.mailbox.protocol.values.base import Value

from .paths import RunPaths, UserPaths, paths_of_run
from .run_metadata import (
    RunLabel,
    RunMetadata,
    describe_work,
    is_run_alive,
    read_label,
    read_metadata,
)
from .unfinished_merge import UnfinishedMerge, read_mark


class RunSummary(Value):
    """One row of `ps`. `state`: a status, "running", "stopped" (it died) or "unreadable".

    A run itself tells whether it is "idle", that is waits for input.
    """

    run_id: str
    state: str
    task: str = ""
    title: str = ""
    cwd: str = ""
    pid: int = 0
    agents: int = 0
    total_tokens: int = 0
    usd: float | None = None
    started: float = 0.0
    ended: float | None = None
    size_bytes: int = 0
    note: str = ""
    name: str = ""
    archived: bool = False
    forked_from: str = ""
    waits: str = ""  # what a live run waits for without a process; filled by `ps`
    unmerged: str = ""  # agents whose work in copies waits to be merged; filled by `ps`
    unfinished_merge: UnfinishedMerge | None = None  # that writes now, or was cut off


class RunFilter(Value):
    """Which runs to list. `before`: a run's id; only older ones."""

    with_archived: bool = True
    limit: int | None = None
    before: str | None = None
    with_sizes: bool = True


_ALL_RUNS = RunFilter()
_MOST_COUNTED = 1_000_000


def list_runs(user_paths: UserPaths, wanted: RunFilter = _ALL_RUNS) -> tuple[RunSummary, ...]:
    """Runs, newest first. A folder that cannot be read is a row that says why."""
    try:
        names = sorted(
            (
                entry.name
                for entry in os.scandir(user_paths.runs)
                if entry.is_dir(follow_symlinks=False)
            ),
            reverse=True,
        )
    except FileNotFoundError:
        return ()
    except OSError as error:
        raise SwarmError(f"cannot read {user_paths.runs}: {error.strerror}") from error
    run_paths = (paths_of_run(user_paths, name) for name in names
            if wanted.before is None or name < wanted.before)  # fmt: skip
    labelled = ((one, read_label(one)) for one in run_paths)
    seen = (one for one in labelled if wanted.with_archived or not one[1].archived)
    return tuple(
        summarize(one, label, with_size=wanted.with_sizes)
        for one, label in islice(seen, wanted.limit)
    )


def summarize(
    run_paths: RunPaths, label: RunLabel | None = None, *, with_size: bool = False
) -> RunSummary:
    """The summary of one run. Faults in its folder never raise. `label`: None: it is read."""
    run_id = run_paths.folder.name
    size = 0
    if with_size:
        size = folder_size(run_paths.folder) + folder_size(run_paths.copy_trees)
    try:
        about = read_metadata(run_paths)
    except UsageError as error:
        state = "running" if is_run_alive(run_paths) else "unreadable"
        return RunSummary(run_id=run_id, state=state, size_bytes=size, note=str(error))
    label = read_label(run_paths) if label is None else label
    found = _summary_of(about, run_state(about, run_paths), size, label)
    mark = read_mark(run_paths)
    return found if mark is None else msgspec.structs.replace(found, unfinished_merge=mark)


def run_state(about: RunMetadata, run_paths: RunPaths) -> str:
    """The run's status; "running" only if its process lives, else "stopped"."""
    if is_run_alive(run_paths):
        return "running"
    return "stopped" if about.status == "running" else about.status


def _summary_of(about: RunMetadata, state: str, size: int, label: RunLabel) -> RunSummary:
    return RunSummary(
        run_id=about.run_id,
        state=state,
        task=about.task,
        title=about.title,
        cwd=about.cwd,
        pid=about.pid,
        agents=about.agents,
        total_tokens=about.usage.total_tokens,
        usd=about.usd,
        started=about.started,
        ended=about.ended,
        size_bytes=size,
        note=about.message if state != "completed" else "",
        name=label.name,
        archived=label.archived,
        forked_from=label.forked_from,
    )


def folder_size(folder: Path) -> int:
    """Bytes of all files below the folder, at most of the first million files."""
    return sum(islice(file_sizes(folder), _MOST_COUNTED))


def file_sizes(folder: Path) -> Iterator[int]:
    """Yield each file's size. Commands may change the tree meanwhile.

    Nothing outside is entered and no link followed; files that vanish, or whose path is too long,
    do not count.
    """
    try:
        parent = _resolved(str(folder.parent))  # the same for all runs
        top = open_canonical(f"{parent}/{folder.name}", FOLDER_FLAGS)
    except OSError:
        return
    try:
        waiting: list[str] = []
        yield from _sizes_in(top, "", waiting)
        while waiting:
            path = waiting.pop()
            with suppress(OSError):
                fd = _open_subfolder(top, path)
                try:
                    yield from _sizes_in(fd, f"{path}/", waiting)
                finally:
                    os.close(fd)
    finally:
        os.close(top)


def _open_subfolder(top: int, path: str) -> int:
    """As `open_beneath`, which costs three times as much as this does for a single name."""
    if "/" in path:
        return open_beneath(top, path, FOLDER_FLAGS)
    return os.open(path, FOLDER_FLAGS | os.O_NOFOLLOW, dir_fd=top)


@lru_cache(maxsize=16)
def _resolved(folder: str) -> str:
    return os.path.realpath(folder)


def _sizes_in(fd: int, prefix: str, waiting: list[str]) -> Iterator[int]:
    """Sizes of the files in an open folder; its subfolders are added to `waiting`."""
    with os.scandir(fd) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                waiting.append(prefix + entry.name)
            else:
                yield entry.stat(follow_symlinks=False).st_size


def remove_run(user_paths: UserPaths, run_id: str) -> None:
    """Delete a run's folder and what is left of its sockets.

    Raises UsageError if it is alive, SwarmError if it cannot be deleted.
    """
    run_paths = paths_of_run(user_paths, run_id)
    if "/" in run_id or run_id in {"", ".", ".."} or run_paths.folder.is_symlink():
        raise UsageError(f"{run_id!r} is not a run")
    if is_run_alive(run_paths):
        short = short_id(run_id)
        raise UsageError(f"run {short} is alive; end it first: swarm kill {short}")
    if work := describe_work(run_paths):
        raise UsageError(work)
    try:
        if run_paths.copy_trees.is_dir():
            remove_tree(run_paths.copy_trees)
        remove_tree(run_paths.folder)
    except OSError as error:
        raise SwarmError(
            f"cannot delete {error.filename or run_paths.folder}: {error.strerror}"
        ) from error
    shutil.rmtree(run_paths.sockets, ignore_errors=True)


def choose_runs_to_prune(
    runs: Sequence[RunSummary], *, older_s: float | None, keep: int, now: float | None = None
) -> tuple[RunSummary, ...]:
    """The runs that `prune` deletes: beyond the newest `keep`, and older than `older_s`.

    Never a live or archived run. No I/O, except the clock if `now` is None. `runs` are newest
    first, as from `list_runs`; running and archived ones do not count for `keep`.
    """
    moment = time.time() if now is None else now
    ended = [run for run in runs if run.state != "running" and not run.archived]
    return tuple(
        run
        for run in ended[keep:]
        if older_s is None or moment - (run.ended or run.started) > older_s
    )

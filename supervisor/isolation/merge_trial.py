"""Runs a person's command, as tests, in a copy of the project as a merge would leave it.

The copy lies at the project's own path, as those of agents do, in a mount namespace of the command;
it is gone afterwards. What agents wrote is run there, so the command is in the sandbox: it writes
the copy alone, and has no network. Blocks.
"""

import os
import secrets
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from threading import Timer
from typing import NamedTuple

import msgspec

from swarm.mailbox.errors import SwarmError
from swarm.mailbox.path_rules import is_within
from swarm.mailbox.protocol.spec import CopyMount
from swarm.mailbox.remove_tree import remove_tree

from ..file_history.content_store import ContentStore, FileEntry
from ..file_history.file_restore import in_order, restore_entry
from ..runs.paths import RunPaths
from .copy_folder import AgentCopy, CopyFolder
from .merge_plan import MergePlan
from .project_copies import copied_roots, make_base
from .tree_survey import CopyRefused

LIMIT_S = 3600.0
NOTHING = "nothing was merged"
_PROGRAM = (sys.executable, "-P", "-m", "swarm.worker.isolation.copy_command")
_OWN_FAILURE = 125  # of the program above
_LINE_BYTES = 64 << 10
_NAME = "trial"
ShowLine = Callable[[str], None]


class TrialFailed(SwarmError):
    """The command failed in the merged copy, or could not be run there; nothing was merged."""


class Trial(NamedTuple):
    """A command for `/bin/sh`."""

    command: str
    cwd: str  # where it runs, and the folder that it may write
    hidden: tuple[str, ...]  # what it must not see: the folders of runs
    environment: Mapping[str, str]


def try_merge(
    paths: RunPaths,
    plan: MergePlan,
    store: ContentStore,
    trial: Trial,
    show: ShowLine,
) -> None:
    """Run the command; return if it ended with exit code 0.

    Args:
        paths: The run's; the copy is made in its folder.
        plan: Without conflicts.
        store: Has all contents of the plan.
        trial: What to run, and where.
        show: Gets each line that it prints, as it is written: it is not clean.

    Raises:
        TrialFailed: It says what happened.
    """
    folder = paths.copies / "trials" / secrets.token_hex(8)
    try:
        mounts = _make_copy(CopyFolder(folder), plan, store, trial.cwd)
        encoded = msgspec.json.encode(mounts).decode()
        masks = [word for path in trial.hidden for word in ("--hide", path)]
        where = ["-s", "workspace-write", "-C", trial.cwd, *masks]
        argv = [*_PROGRAM, encoded, *where, "--", "/bin/sh", "-c", trial.command]
        _run(argv, trial.environment, show)
    except CopyRefused as error:
        raise TrialFailed(f"no copy of the project can be made to run it in: {error}") from error
    except (OSError, ValueError) as error:
        raise TrialFailed(f"the merged copy cannot be made: {error}") from error
    finally:
        with suppress(OSError):
            remove_tree(folder)


def _make_copy(
    copies: CopyFolder, plan: MergePlan, store: ContentStore, cwd: str
) -> tuple[CopyMount, ...]:
    """The project as it is, with the merge's files in it. Raises CopyRefused, OSError."""
    base, surveys = make_base(copies, plan.roots, None)
    roots = copied_roots(plan.roots, surveys)
    copy = AgentCopy(agent_id=_NAME, path="", base=base, roots=roots, cwd=cwd)
    copies.add_agent(copy)
    mounts = copies.mounts(copy)
    merged = [_in_base(after, mounts) for _, after in plan.totals]
    for entry in in_order(merged):
        restore_entry(entry, store)
    return mounts


def _in_base(entry: FileEntry, mounts: tuple[CopyMount, ...]) -> FileEntry:
    """The same file in the copy: in that of the nearest root, since roots may lie in each other."""
    inside = [one for one in mounts if is_within(entry.path, one.path)]
    if not inside:
        raise ValueError(f"{entry.path} lies in no copied folder")
    mount = max(inside, key=lambda one: len(one.path))
    name = os.path.relpath(entry.path, mount.path)
    return msgspec.structs.replace(entry, path=str(Path(mount.base) / name))


def _run(argv: list[str], environment: Mapping[str, str], show: ShowLine) -> None:
    """Raises TrialFailed."""
    child = subprocess.Popen(
        argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        env=dict(environment), cwd="/", start_new_session=True,
    )  # fmt: skip
    assert child.stdout is not None
    late: list[bool] = []

    def end() -> None:
        late.append(True)
        _end(child)

    timer = Timer(LIMIT_S, end)
    timer.start()
    try:
        while line := child.stdout.readline(_LINE_BYTES):
            show(line.decode("utf-8", "replace"))
        code = child.wait()
    finally:
        timer.cancel()
        _end(child)
        child.wait()
    if late:
        raise TrialFailed(f"the command took over {LIMIT_S:g} s in the merged copy; {NOTHING}")
    if code == _OWN_FAILURE:
        raise TrialFailed(f"the command could not be run in the merged copy (see above); {NOTHING}")
    if code != 0:
        raise TrialFailed(f"the command ended with exit code {code} in the merged copy; {NOTHING}")


def _end(child: "subprocess.Popen[bytes]") -> None:
    """Its group is its own, and what it started in the sandbox ends with it."""
    with suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)

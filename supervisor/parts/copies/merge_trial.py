"""Runs a person's command, as tests, in a copy of the project as a merge would leave it.

The copy lies where those of agents do: at the project's own path, in a mount namespace of the
command, or in a folder of its own where no overlay can be had. It is gone afterwards. What agents
wrote is run there, so the command is in the sandbox: it writes the copy alone, and has no network.
Blocks.
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

from swarm.mailbox.base.errors import SwarmError
from swarm.mailbox.base.path_rules import is_within
from swarm.mailbox.base.remove_tree import remove_tree

from ...processes.machine_sandbox import SandboxMissing
from ...runs.paths import RunPaths
from ..undo.content_store import ContentStore, FileEntry, read_entry
from ..undo.staged_writes import StagedWrites
from .agent_tree import make_agent_tree, shown_in_place
from .copy_folder import AgentCopy, CopyFolder
from .copy_kind import find_copy_kind
from .merge_plan import MergePlan
from .project_copies import copied_roots, make_base
from .tree_survey import CopyRefused

LIMIT_S = 3600.0
NOTHING = "nothing was merged"
_IN_LAYERS = (sys.executable, "-P", "-m", "swarm.worker.programs.copy_command")
_IN_TREE = (sys.executable, "-P", "-m", "swarm.worker.programs.sandbox_command")
_OWN_FAILURE = 125  # of both programs
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
    try:
        copy = make_merged_copy(paths, plan, store, trial.cwd)
        masks = [word for path in trial.hidden for word in ("--hide", path)]
        try:
            _run([*copy.program, *masks], trial, show)
        finally:
            copy.remove()
    except (CopyRefused, SandboxMissing) as error:
        raise TrialFailed(f"no copy of the project can be made to run it in: {error}") from error
    except (OSError, ValueError) as error:
        raise TrialFailed(f"the merged copy cannot be made: {error}") from error


class MergedCopy(NamedTuple):
    """The project as a merge would leave it."""

    program: tuple[str, ...]  # runs a command there, in the sandbox: options may follow
    folders: tuple[Path, Path]
    places: Mapping[str, str] = {}  # root → where its copy is; none: at its own path

    def place_of(self, path: str) -> str:
        """Where a canonical path of the project is while a command runs there."""
        for root, copy in self.places.items():
            if is_within(path, root):
                return copy + path.removeprefix(root.rstrip("/"))
        return path

    def remove(self) -> None:
        """Nothing runs there any more."""
        for made in self.folders:
            with suppress(OSError):
                remove_tree(made)


def make_merged_copy(paths: RunPaths, plan: MergePlan, store: ContentStore, cwd: str) -> MergedCopy:
    """Make it in the run's folder; the caller removes it.

    Raises CopyRefused, SandboxMissing, OSError, ValueError; then nothing is left.
    """
    name = secrets.token_hex(8)
    folder, trees = paths.copies / "trials" / name, paths.copy_trees / f"trial-{name}"
    try:
        copies = CopyFolder(folder, trees)
        if find_copy_kind(paths.folder.parent) == "tree":
            program, places = _prepare_tree(copies, plan, store, cwd)
            return MergedCopy(program, (folder, trees), places)
        return MergedCopy(_prepare_layers(copies, plan, store, cwd), (folder, trees))
    except BaseException:
        MergedCopy((), (folder, trees)).remove()
        raise


def _prepare_layers(
    copies: CopyFolder, plan: MergePlan, store: ContentStore, cwd: str
) -> tuple[str, ...]:
    """The project as it is, with the merge's files in it; returns what runs a command there.

    Raises CopyRefused, OSError.
    """
    base, surveys = make_base(copies, plan.roots, None)
    roots = copied_roots(plan.roots, surveys)
    copy = AgentCopy(agent_id=_NAME, path="", base=base, roots=roots, cwd=cwd)
    copies.add_agent(copy)
    mounts = copies.mounts(copy)
    _write_merged({one.path: one.base for one in mounts}, plan, store)
    encoded = msgspec.json.encode(mounts).decode()
    return (*_IN_LAYERS, encoded, "-s", "workspace-write", "-C", cwd)


def _prepare_tree(
    copies: CopyFolder, plan: MergePlan, store: ContentStore, cwd: str
) -> tuple[tuple[str, ...], Mapping[str, str]]:
    """The same in a folder of its own."""
    if plan.roots != (os.path.realpath(cwd),):
        raise CopyRefused("without overlays it can only be run in a copy of one folder")
    base, surveys = make_base(copies, plan.roots, None)
    (root,) = copied_roots(plan.roots, surveys)
    tree = copies.agent_tree(_NAME)
    survey = copies.read_survey(base, 0)
    make_agent_tree(copies.tree(base, 0), survey, shown_in_place(root.path, survey), tree)
    places = {root.path: str(tree)}
    _write_merged(places, plan, store)
    return (*_IN_TREE, "-s", "workspace-write", "-C", str(tree)), places


def _write_merged(places: Mapping[str, str], plan: MergePlan, store: ContentStore) -> None:
    """`places`: where the copy of each root is written. Raises OSError, ValueError."""
    merged = [_in_copy(after, places) for _, after in plan.totals]
    pairs = [(read_entry(one.path), one) for one in merged]
    writes = StagedWrites("trial", pairs, store, parts_names=True)  # of files of earlier bases
    failed = writes.stage() or [*writes.carry_out(whole=True), *writes.clear()]
    if failed:
        raise failed[0][1]


def _in_copy(entry: FileEntry, places: Mapping[str, str]) -> FileEntry:
    """The same file in the copy: in that of the nearest root, since roots may lie in each other."""
    inside = [root for root in places if is_within(entry.path, root)]
    if not inside:
        raise ValueError(f"{entry.path} lies in no copied folder")
    root = max(inside, key=len)
    path = Path(places[root]) / os.path.relpath(entry.path, root)
    return msgspec.structs.replace(entry, path=str(path))


def _run(program: list[str], trial: Trial, show: ShowLine) -> None:
    """Raises TrialFailed."""
    lifeline, held = os.pipe()  # closes when this process is gone, which ends the command
    argv = [*program, "--lifeline", str(lifeline), "--", "/bin/sh", "-c", trial.command]
    try:
        try:
            child = subprocess.Popen(
                argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                env=dict(trial.environment), cwd="/", start_new_session=True, pass_fds=(lifeline,),
            )  # fmt: skip
        finally:
            os.close(lifeline)
        _follow(child, show)
    finally:
        os.close(held)


def _follow(child: "subprocess.Popen[bytes]", show: ShowLine) -> None:
    """Show what it prints until it ends. Raises TrialFailed."""
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

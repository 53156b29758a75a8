"""What can be merged in a run, and the merge: for a live run as for one that has ended.

The caller sees to it that only one merge of the run happens at a time: it holds the run's lock, or
is the run's supervisor. Writers of other runs are kept out here, by the project's lock. Blocks:
call it in a thread.
"""

import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress

import msgspec

from swarm.mailbox.base.errors import SwarmError, UsageError
from swarm.mailbox.protocol.merge_records import ChangeDiscarded, MergeBegan, MergeEnded
from swarm.mailbox.protocol.records import AgentEnded, FilesChanged

from ...journal.journal_reader import run_records
from ...runs.paths import RunPaths
from ...runs.unfinished_merge import clear_mark, mark_merge
from ..undo.content_store import ContentStore, FileEntry
from ..undo.project_lock import hold_project
from ..undo.snapshots import FilesPast
from .copy_folder import AgentCopy, CopyFolder
from .copy_merges import CopyInUse, CopyMerges, end_copy_merge
from .layer_change import ChangeTooLarge, LayerChange, read_change
from .merge_apply import (
    MergeDone,
    MergeFailed,
    MergeStale,
    apply_merge,
    begin_merge,
    find_unfinished,
    finish_merge,
)
from .merge_history import MergePast, fold_merges
from .merge_plan import PLAN_LIMIT_S, MergeImpossible, MergePlan, plan_merge
from .merge_target import PROJECT, CopyTarget, MergeTarget

CHANGED_SINCE = (
    "the project or a change is not what it was when the merge was checked, so nothing was merged; "
    "merge again"
)
_MOST_READ_BYTES = 256 << 20
MERGE_TRIES = 3  # of a merge whose files somebody changes between plan and write
AcceptPlan = Callable[[MergePlan], None]
WriteRecord = Callable[[MergeBegan | MergeEnded | FilesChanged | ChangeDiscarded, str], None]


class MergeReport(msgspec.Struct, frozen=True):
    """What was planned and done. `done` None: nothing was written."""

    changes: tuple[LayerChange, ...]
    plan: MergePlan = MergePlan()
    done: MergeDone | None = None
    number: int = 0  # of the merge, for an undo
    finished: tuple[MergeDone, ...] = ()  # merges that had been cut off


def _check_wanted(plan: MergePlan, tested: str, accept: AcceptPlan) -> None:
    """Raises SwarmError unless the plan is the one that was tested, and accepted."""
    if tested and plan.digest != tested:
        raise SwarmError(CHANGED_SINCE)
    accept(plan)


class CopiedWork:
    """The copies of one run's agents. `store` is the run's."""

    def __init__(
        self, paths: RunPaths, is_mounted: Callable[[AgentCopy], bool] = lambda _copy: False
    ) -> None:
        """`is_mounted`: whether a process of the agent has its copy mounted now."""
        self._paths = paths
        self._is_mounted = is_mounted
        self.folder = CopyFolder(paths.copies, paths.copy_trees)
        self.store = ContentStore(paths.file_copies)
        self.copies = CopyMerges(self.folder, self.store)

    def agents(self) -> tuple[AgentCopy, ...]:
        """All agents in copies, in the order in which they began."""
        try:
            return tuple(one for one in self.folder.agents() if not one.sees)
        except (OSError, ValueError) as error:
            raise SwarmError(f"{self._paths.copies} cannot be read: {error}") from error

    def change_of(self, agent_id: str) -> LayerChange | None:
        """The agent's change; None: it has no copy. One that is too large is not whole.

        Raises SwarmError.
        """
        try:
            copy = self.folder.find(agent_id)
            if copy is None or copy.sees:
                return None
            try:
                return read_change(self.folder, copy, self.store)
            except ChangeTooLarge as error:
                return LayerChange(
                    agent=copy.path,
                    agent_id=agent_id,
                    roots=tuple(root.path for root in copy.roots),
                    cwd=copy.cwd,
                    unreadable=(str(error),),
                    above=copy.above,
                )
        except (OSError, ValueError) as error:
            raise SwarmError(f"the copy of {agent_id} cannot be read: {error}") from error

    def unmerged(self, only: Collection[str] = ()) -> tuple[LayerChange, ...]:
        """Changes that are neither merged nor given up, in the order of the agents' ends.

        `only`: paths of agents; () is all of them. Raises SwarmError.
        """
        chosen = [one for one in self.agents() if not only or one.path in only]
        if not chosen:
            return ()
        merges, files, ends = self._past()
        found: list[LayerChange] = []
        for copy in sorted(chosen, key=lambda one: (ends.get(one.path, 1e18), one.agent_id)):
            change = self.change_of(copy.agent_id)
            if change is None:
                continue
            if not merges.is_settled(copy.agent_id, change.fingerprint, files):
                found.append(change)
        return tuple(found)

    def _past(self) -> tuple[MergePast, FilesPast, dict[str, float]]:
        merges, files, ends = MergePast(), FilesPast(), dict[str, float]()
        for record in run_records(self._paths):
            merges.take(record)
            files.take(record)
            if isinstance(record.body, AgentEnded):
                ends[record.agent] = record.ts
        return merges, files, ends

    def check(self, agents: Iterable[str] = (), *, resolved: Mapping[str, str] = {}) -> MergeReport:
        """Plan the merge of these agents' changes, in this order; () is all. Raises SwarmError.

        `resolved`: what files in conflict become, by their paths.
        """
        return self._plan(self._chosen(tuple(agents)), resolved)

    def levels(self) -> tuple[str, ...]:
        """Into what changes go, the deepest copies first: ids of agents, then "", the project."""
        agents = self.agents()
        paths = {one.agent_id: one.path for one in agents}
        above = {one.above for one in agents if one.above in paths}
        return (*sorted(above, key=lambda one: -paths[one].count("/")), "")

    def check_clean(self, *, above: str = "", without: Collection[str] = ()) -> MergeReport:
        """Plan the merge of the changes that go in together, in the order of the agents' ends.

        `above`: the agent into whose copy they go; "": into the project.

        A change that does not fit what goes in before it is left out, and so is what is not
        planned within PLAN_LIMIT_S. `without`: paths of agents. Raises SwarmError.
        """
        here = [one for one in self.unmerged() if one.above == above]
        found = [one for one in here if not (one.unreadable or one.agent in without)]
        if (whole := self._plan_clean(found)) is not None:
            return whole
        clean = MergeReport(changes=())
        ends_at = time.monotonic() + PLAN_LIMIT_S
        for change in found:
            if time.monotonic() < ends_at:
                clean = self._plan_clean((*clean.changes, change)) or clean
        return clean

    def _plan_clean(self, changes: Sequence[LayerChange]) -> MergeReport | None:
        """None: something conflicts, or cannot be planned. Raises SwarmError."""
        try:
            report = self._plan(tuple(changes))
        except MergeImpossible:
            return None
        return None if report.plan.conflicts else report

    def _plan(
        self, changes: tuple[LayerChange, ...], resolved: Mapping[str, str] = {}
    ) -> MergeReport:
        contents = {path: text.encode() for path, text in resolved.items()}
        try:
            return MergeReport(
                changes=changes,
                plan=plan_merge(
                    changes, self.store, resolved=contents, target=self.target_of(changes)
                ),
            )
        except (OSError, ValueError) as error:
            raise SwarmError(f"the merge cannot be planned: {error}") from error

    def target_of(self, changes: Sequence[LayerChange]) -> MergeTarget:
        """Where these changes go, all of them together. Raises SwarmError."""
        if not changes or not changes[0].above:
            return PROJECT
        return CopyTarget(self.folder, self.copies.find(changes[0].above))

    def merge(
        self,
        agents: Iterable[str],
        write: WriteRecord,
        *,
        tested: str = "",
        resolved: Mapping[str, str] = {},
        accept: AcceptPlan = lambda _plan: None,
    ) -> MergeReport:
        """Plan, and write if there is no conflict. Merges that were cut off are finished first.

        `tested`: the digest of a plan; another one is not written. `resolved`: as for `check`.
        `accept` gets the plan that is about to be written, and raises SwarmError if it must not be.

        Raises SwarmError; then nothing is merged.
        """
        finished = self.finish_cut_off(write)
        names = tuple(agents)
        report = self.check(names, resolved=resolved)
        report = msgspec.structs.replace(report, finished=finished)
        if report.plan.conflicts or not report.changes:
            return report
        try:
            return self.apply(report, write, tested=tested, accept=accept)
        except MergeStale:
            return self.merge_again(report, write, tested=tested, resolved=resolved, accept=accept)

    def merge_again(
        self,
        stale: MergeReport,
        write: WriteRecord,
        *,
        tested: str = "",
        resolved: Mapping[str, str] = {},
        accept: AcceptPlan = lambda _plan: None,
    ) -> MergeReport:
        """`merge` after others wrote the project: nobody else of swarm does from the plan on.

        Raises SwarmError; MergeStale if somebody changes the project all the same.
        """
        names = tuple(change.agent for change in stale.changes)
        roots = [root for change in stale.changes for root in change.roots if not change.above]
        with self._held(roots):
            for tries_left in reversed(range(MERGE_TRIES)):
                report = self.check(names, resolved=resolved)
                report = msgspec.structs.replace(report, finished=stale.finished)
                if report.plan.conflicts or not report.changes:
                    return report
                try:
                    return self._apply_held(report, write, tested=tested, accept=accept)
                except MergeStale:
                    if not tries_left:
                        raise
        raise AssertionError("the last try returns or raises")

    def apply(
        self,
        report: MergeReport,
        write: WriteRecord,
        *,
        tested: str = "",
        accept: AcceptPlan = lambda _plan: None,
    ) -> MergeReport:
        """Write what was planned; it has no conflict. `tested`, `accept`: as for `merge`.

        Raises MergeStale if the project has changed since, and SwarmError; nothing is merged then.
        """
        into_copy = bool(report.changes and report.changes[0].above)
        with self._held(() if into_copy else report.plan.roots):
            return self._apply_held(report, write, tested=tested, accept=accept)

    def _apply_held(
        self, report: MergeReport, write: WriteRecord, *, tested: str, accept: AcceptPlan
    ) -> MergeReport:
        _check_wanted(report.plan, tested, accept)
        try:
            marked = self._marked(write, tuple(new.path for _, new in report.plan.totals))
            if report.changes and report.changes[0].above:
                began = self.begin_in_copy(report, marked)
                done = end_copy_merge(began, self.copies.write(began), marked)
            else:
                done = apply_merge(report.plan, self.store, marked)
        except MergeFailed:
            self._mark_unfinished()
            raise
        except (OSError, ValueError) as error:
            raise SwarmError(f"the merge cannot be written: {error}") from error
        number = self._past()[0].merges[done.merge_id].number
        return msgspec.structs.replace(report, done=done, number=number)

    def begin_in_copy(self, report: MergeReport, write: WriteRecord) -> MergeBegan:
        """Journal that these changes go into the copy that they are copies of.

        Raises CopyInUse if the process that has it mounted must write them.
        """
        copy = self.copies.find(report.changes[0].above)
        if self._is_mounted(copy):
            raise CopyInUse(
                f"{copy.path} works in the copy into which this goes: it merges with "
                "merge_changes, or you do once it has no process"
            )
        return begin_merge(report.plan, self.store, write, into=copy.agent_id)

    def finish_cut_off(
        self, write: WriteRecord, past: MergePast | None = None
    ) -> tuple[MergeDone, ...]:
        """Carry out merges that began and did not end. `past`: from a journal that was just read.

        Raises SwarmError.
        """
        if not self._paths.copies.is_dir():
            return ()
        try:
            if past is None:
                past = fold_merges(run_records(self._paths))
            cut_off = past.cut_off
            if not cut_off:
                clear_mark(self._paths)
                return ()
            roots = tuple({root.path: None for copy in self.agents() for root in copy.roots})
            marked = self._marked(write, ())
            with self._held(roots):
                done = [self._finish(one.began, marked, roots) for one in cut_off]
                return tuple(one for one in done if one is not None)
        except MergeFailed:
            self._mark_unfinished()
            raise
        except (OSError, ValueError) as error:
            raise SwarmError(f"a merge that was cut off cannot be finished: {error}") from error

    def _finish(
        self, began: MergeBegan, write: WriteRecord, roots: Sequence[str]
    ) -> MergeDone | None:
        """None: only the process that has the copy mounted can; it does at its next merge."""
        if not began.into:
            return finish_merge(began, self.store, write, roots=roots)
        if self._is_mounted(self.copies.find(began.into)):
            return None
        written = self.copies.write(began, finishes=True)
        return end_copy_merge(began, written, write, finishes=True)

    def cut_off_in(self, agent_id: str) -> MergeBegan | None:
        """A merge into this agent's copy that began and did not end. Raises SwarmError."""
        found = fold_merges(run_records(self._paths)).cut_off
        return next((one.began for one in found if one.began.into == agent_id), None)

    def _held(self, roots: Iterable[str]) -> AbstractContextManager[None]:
        """Nobody else of swarm writes below these folders. Raises ProjectBusy."""
        return hold_project(self._paths.project_locks, [f"{one}/" for one in roots])

    def _marked(self, write: WriteRecord, paths: Sequence[str]) -> WriteRecord:
        """`write`, with a mark in the run's folder from a merge's begin to its end."""

        def write_marked(
            body: MergeBegan | MergeEnded | FilesChanged | ChangeDiscarded, agent: str
        ) -> None:
            if not isinstance(body, MergeBegan):
                write(body, agent)
                if isinstance(body, MergeEnded):
                    clear_mark(self._paths)
                return
            mark_merge(self._paths, body.merge_id, paths)
            try:
                write(body, agent)
            except BaseException:  # it has not begun
                clear_mark(self._paths)
                raise

        return write_marked

    def _mark_unfinished(self) -> None:
        """Have the mark name what is left to do; as far as that can be written now."""
        with suppress(SwarmError, OSError, ValueError):
            for one in fold_merges(run_records(self._paths)).cut_off:
                paths = find_unfinished(one.began, self.store, self.reader_of(one.began))
                mark_merge(self._paths, one.began.merge_id, paths)

    def reader_of(self, began: MergeBegan) -> Callable[[str], FileEntry] | None:
        """Reads what stands where a merge goes; None: that is the project. Raises SwarmError."""
        if not began.into:
            return None
        target = CopyTarget(self.folder, self.copies.find(began.into))

        def read(path: str) -> FileEntry:
            found = target.read(path, self.store, most_bytes=_MOST_READ_BYTES)
            return found or FileEntry(path=path, kind="absent")

        return read

    def discard(self, agents: Iterable[str], write: WriteRecord) -> tuple[LayerChange, ...]:
        """Give up the changes of these agents, as they are now. Raises SwarmError."""
        changes = self._chosen(tuple(agents))
        for change in changes:
            write(
                ChangeDiscarded(agent_id=change.agent_id, fingerprint=change.fingerprint),
                change.agent,
            )
        return changes

    def _chosen(self, agents: tuple[str, ...]) -> tuple[LayerChange, ...]:
        found = self.unmerged(agents)
        if not agents:
            return tuple(change for change in found if not change.above)
        known = {one.path: one for one in self.agents()}
        for name in agents:
            if name not in known:
                raise UsageError(f"{name} works in no copy, so there is nothing to merge of it")
        if len({known[name].above for name in agents}) > 1:
            raise UsageError(
                "a merge goes up one level: into the project, or into the copy that others are "
                "copies of; name agents of one level"
            )
        order = {name: place for place, name in enumerate(agents)}
        return tuple(sorted(found, key=lambda change: order[change.agent]))

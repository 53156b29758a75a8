"""Plans a merge of agents' changes into the project: three-way, file by file, touching nothing.

Each agent's change is compared with the project as it is now, or as the agents before it in the
order leave it; that of a copy of another agent's copy with that copy. The plan holds the state of
every path before and after, with all contents in the run's store, or names the conflicts. Blocks:
it reads the project and the store.
"""

import time
from collections.abc import Collection, Mapping, Sequence
from hashlib import sha256
from pathlib import Path, PurePosixPath
from typing import Protocol

import msgspec

from swarm.mailbox.base.errors import SwarmError
from swarm.mailbox.base.path_rules import is_within
from swarm.mailbox.base.protected_paths import find_protected_places

from ...base.interruption import let_interrupts_in
from ..undo.content_store import UNKNOWN, ContentStore, FileEntry
from ..undo.net_changes import NetChange
from .layer_change import LayerChange
from .merge_target import PROJECT, MergeTarget
from .text_merge import MAX_TEXT_BYTES, TextMerge, is_mergeable, merge_texts

_MAX_PRESENT_BYTES = 256 << 20  # of one file of the project
PLAN_LIMIT_S = 300.0  # for all changes of a merge


class MergeTexts(Protocol):
    """Merges two texts that come from one. Raises OSError if it cannot."""

    def __call__(
        self, base: bytes, ours: bytes, theirs: bytes, *, names: tuple[str, str], scratch: Path
    ) -> TextMerge: ...


class Conflict(msgspec.Struct, frozen=True):
    """A path at which an agent's change does not fit. `hunks`: places in a text; 0: as a whole."""

    agent: str
    path: str
    why: str
    others: tuple[str, ...] = ()  # agents whose changes it meets; none: a person's, or a command's
    hunks: int = 0
    merged: str = ""  # address of the text with both sides between marks


class MergeStep(msgspec.Struct, frozen=True):
    """What one agent's change does: the paths before and after it, in the same order."""

    agent: str
    agent_id: str
    fingerprint: str
    before: tuple[FileEntry, ...] = ()
    after: tuple[FileEntry, ...] = ()
    already: int = 0  # paths that are as the agent left them anyway

    @property
    def files(self) -> int:
        pairs = zip(self.before, self.after, strict=True)
        return sum("folder" not in (old.kind, new.kind) for old, new in pairs)


class MergePlan(msgspec.Struct, frozen=True):
    steps: tuple[MergeStep, ...] = ()
    conflicts: tuple[Conflict, ...] = ()
    roots: tuple[str, ...] = ()  # the folders that were copied: their protected names stay
    target: str = PROJECT.name  # into which it goes, in words

    @property
    def totals(self) -> tuple[tuple[FileEntry, FileEntry], ...]:
        """Each path once: as it is in the project now, and as the merge leaves it."""
        first: dict[str, FileEntry] = {}
        last: dict[str, FileEntry] = {}
        for step in self.steps:
            for before, after in zip(step.before, step.after, strict=True):
                first.setdefault(before.path, before)
                last[after.path] = after
        return tuple((first[path], last[path]) for path in sorted(first))

    @property
    def digest(self) -> str:
        """The same for plans that write the same over the same; hexadecimal."""
        hasher = sha256()
        for before, after in self.totals:
            hasher.update(before.state_bytes + after.state_bytes)
        return hasher.hexdigest()


class MergeImpossible(SwarmError):
    """The state of a file is not known, so nothing can be said about a merge."""


def plan_merge(
    changes: Sequence[LayerChange],
    store: ContentStore,
    merge: MergeTexts = merge_texts,
    *,
    resolved: Mapping[str, bytes] = {},
    target: MergeTarget = PROJECT,
) -> MergePlan:
    """Plan the merge of these changes in this order.

    Args:
        changes: Of agents, none twice.
        store: Gets all contents.
        merge: For texts that both sides changed.
        resolved: What a file in conflict becomes, by its path; only for conflicts of files.
        target: Where they go.

    Raises MergeImpossible, also after PLAN_LIMIT_S, and if a resolved path is in no such conflict;
    OSError.
    """
    planner = _Planner(store, merge, changes, resolved, target)
    steps = [planner.add(change) for change in changes]
    if idle := sorted({*resolved} - planner.resolved_paths):
        raise MergeImpossible(f"{idle[0]} is in no conflict that its content could resolve")
    kept = planner.settle_folders()
    return MergePlan(
        steps=tuple(_without(step, kept) for step in steps),
        conflicts=tuple(planner.conflicts),
        roots=planner.roots,
        target=target.name,
    )


def is_shut(entry: FileEntry, places: Collection[str]) -> bool:
    """True if a write would change what lies behind a protected name, or where that name leads."""
    return any(
        is_within(entry.path, place) or (entry.kind != "folder" and is_within(place, entry.path))
        for place in places
    )


def _without(step: MergeStep, folders: Collection[str]) -> MergeStep:
    """The step without the removal of these folders."""
    if not folders:
        return step
    pairs = [
        (before, after)
        for before, after in zip(step.before, step.after, strict=True)
        if after.kind != "absent" or after.path not in folders
    ]
    return msgspec.structs.replace(
        step,
        before=tuple(before for before, _ in pairs),
        after=tuple(after for _, after in pairs),
    )


class _Planner:
    def __init__(
        self,
        store: ContentStore,
        merge: MergeTexts,
        changes: Sequence[LayerChange],
        resolved: Mapping[str, bytes],
        target: MergeTarget,
    ) -> None:
        self._store, self._merge, self._resolved = store, merge, resolved
        self._target = target
        self.resolved_paths: set[str] = set()
        self.roots = tuple(dict.fromkeys(root for change in changes for root in change.roots))
        self._protected = find_protected_places(self.roots)
        self._ends_at = time.monotonic() + PLAN_LIMIT_S
        self._planned: dict[str, FileEntry] = {}
        self._touched: dict[str, list[str]] = {}  # path → agents whose changes it has
        self._emptied: list[tuple[str, str]] = []  # agent and folder that must be empty
        self.conflicts: list[Conflict] = []

    def add(self, change: LayerChange) -> MergeStep:
        """Raises MergeImpossible, OSError."""
        if change.unreadable:
            some = ", ".join(change.unreadable[:3])
            raise MergeImpossible(
                f"{change.agent} left {len(change.unreadable)} paths that cannot be read ({some}); "
                "nothing of it is merged"
            )
        before: list[FileEntry] = []
        after: list[FileEntry] = []
        already = 0
        for edit in _removals_first(change.edits):
            ours = self._now(edit.path)
            wanted = self._decide(change, edit, ours)
            if isinstance(wanted, Conflict):
                self.conflicts.append(wanted)
                continue
            if wanted.is_same_as(ours):
                already += 1
                continue
            before.append(ours)
            after.append(wanted)
            self._planned[edit.path] = wanted
            self._touched.setdefault(edit.path, []).append(change.agent)
        return MergeStep(
            agent=change.agent,
            agent_id=change.agent_id,
            fingerprint=change.fingerprint,
            before=tuple(before),
            after=tuple(after),
            already=already,
        )

    def settle_folders(self) -> set[str]:
        """The removed folders that stay, because they still hold something, as in git.

        One that something else takes the place of must be empty: else it is a conflict.
        """
        kept: set[str] = set()
        clashing = {one.path for one in self.conflicts}
        for agent, folder in sorted(self._emptied, key=lambda one: one[1], reverse=True):
            if self._planned[folder].kind == "folder":
                continue  # a later agent has it again
            left = self._left_in(folder, kept)
            if left and self._planned[folder].kind == "absent":
                kept.add(folder)
            elif left and str(Path(folder, left)) not in clashing:
                why = f"the folder holds {left}, which nobody removed"
                self.conflicts.append(self._conflict(agent, folder, why))
        return kept

    def _now(self, path: str) -> FileEntry:
        """The entry as planned so far, else as the project has it."""
        if (planned := self._planned.get(path)) is not None:
            return planned
        found = self._target.read(path, self._store, most_bytes=_MAX_PRESENT_BYTES)
        if found is None:
            raise MergeImpossible(f"{path} cannot be read or copied, so it cannot be merged")
        return msgspec.structs.replace(found, mode=found.mode & 0o777)

    def _decide(
        self, change: LayerChange, edit: NetChange, ours: FileEntry
    ) -> FileEntry | Conflict:
        """What the path becomes, if a merge may touch it."""
        assert edit.after is not None
        let_interrupts_in()
        if time.monotonic() > self._ends_at:
            raise MergeImpossible(
                f"the merge took over {PLAN_LIMIT_S:g} s to plan; merge fewer agents at once"
            )
        if not ours.is_same_as(edit.after) and is_shut(edit.after, self._protected):
            return self._conflict(change.agent, edit.path, "it lies behind a protected name")
        wanted = self._merged(change, edit, ours)
        if isinstance(wanted, Conflict) and edit.path in self._resolved:
            return self._resolution(edit, ours) or wanted
        return wanted

    def _resolution(self, edit: NetChange, ours: FileEntry) -> FileEntry | None:
        """The content that was given for a file in conflict; None: it is no matter of content."""
        assert edit.after is not None
        kinds = {ours.kind, edit.before.kind, edit.after.kind}
        if not kinds <= {"file", "absent"} or self._blocking(self.roots, edit.path):
            return None
        self.resolved_paths.add(edit.path)
        data = self._resolved[edit.path]
        mode = edit.after.mode if edit.after.kind == "file" else ours.mode
        address = self._store.add_bytes(data)
        return FileEntry(path=edit.path, kind="file", mode=mode, size=len(data), sha256=address)

    def _merged(
        self, change: LayerChange, edit: NetChange, ours: FileEntry
    ) -> FileEntry | Conflict:
        """What the path becomes."""
        base, theirs = edit.before, edit.after
        assert theirs is not None
        if (blocking := self._blocking(change.roots, edit.path)) and theirs.kind != "absent":
            return self._conflict(change.agent, edit.path, f"{blocking} is not a folder any more")
        if ours.is_same_as(theirs):
            return ours
        if ours.is_same_as(base):
            if base.kind == "folder":
                self._emptied.append((change.agent, edit.path))
            return theirs
        if theirs.kind == "absent" and ours.kind == "absent":
            return ours
        if theirs.kind == "absent":
            return self._conflict(change.agent, edit.path, "it deletes what was changed since")
        if ours.kind == "absent":
            return self._conflict(change.agent, edit.path, "it changes what was deleted since")
        if {ours.kind, theirs.kind} != {"file"} or base.kind not in ("file", "absent"):
            why = "both sides made something else of it"
            return self._conflict(change.agent, edit.path, why)
        return self._merge_files(change.agent, base, ours, theirs)

    def _merge_files(
        self, agent: str, base: FileEntry, ours: FileEntry, theirs: FileEntry
    ) -> FileEntry | Conflict:
        path = ours.path
        mode = theirs.mode if ours.mode == base.mode or base.kind == "absent" else ours.mode
        if ours.sha256 == theirs.sha256 or theirs.sha256 == base.sha256:
            return msgspec.structs.replace(ours, mode=mode)
        if ours.sha256 == base.sha256:
            return msgspec.structs.replace(theirs, mode=mode)
        if UNKNOWN in (base.sha256, ours.sha256, theirs.sha256):
            raise MergeImpossible(f"{path}: no copy of it was kept, so it cannot be merged")
        if max(base.size, ours.size, theirs.size) > MAX_TEXT_BYTES:
            why = f"both sides changed it, and it has more than {MAX_TEXT_BYTES >> 20} MiB"
            return self._conflict(agent, path, why)
        was = b"" if base.kind == "absent" else self._store.read_bytes(base.sha256)
        sides = (was, self._store.read_bytes(ours.sha256), self._store.read_bytes(theirs.sha256))
        if not is_mergeable(*sides):
            return self._conflict(agent, path, "both sides changed it, and it is not text")
        names = (self._who(path), agent)
        found = self._merge(*sides, names=names, scratch=self._store.make_folder())
        address = self._store.add_bytes(found.data)
        if found.conflicts:
            why = "both sides changed the same lines" if was else "both sides added it"
            return self._conflict(agent, path, why, hunks=found.conflicts, merged=address)
        return FileEntry(path=path, kind="file", mode=mode, size=len(found.data), sha256=address)

    def _conflict(
        self, agent: str, path: str, why: str, *, hunks: int = 0, merged: str = ""
    ) -> Conflict:
        others = tuple(dict.fromkeys(self._touched.get(path, ())))
        return Conflict(agent=agent, path=path, why=why, others=others, hunks=hunks, merged=merged)

    def _who(self, path: str) -> str:
        return ", ".join(self._touched.get(path, ())) or self._target.name

    def _blocking(self, roots: tuple[str, ...], path: str) -> str:
        """The file or link that stands where the path needs a folder; "" if none does."""
        for above in reversed(PurePosixPath(path).parents):
            folder = str(above)
            if folder in roots or not any(is_within(folder, root) for root in roots):
                continue
            if self._kind_now(folder) in ("file", "link"):
                return folder
        return ""

    def _kind_now(self, folder: str) -> str:
        return self._now(folder).kind

    def _left_in(self, folder: str, kept: Collection[str]) -> str:
        """The first entry of the folder that stays or comes to be; "" if none does."""
        present = {f"{folder}/{name}" for name in self._target.names_in(folder)}
        planned = {path: one for path, one in self._planned.items() if is_within(path, folder)}
        there = {path for path, one in planned.items() if one.kind != "absent"} - {folder}
        gone = {path for path, one in planned.items() if one.kind == "absent"} - {*kept}
        left = sorted((present - gone) | there)
        return left[0].removeprefix(f"{folder}/") if left else ""


def _removals_first(edits: Sequence[NetChange]) -> list[NetChange]:
    """A path may be free only once something above or below it was removed."""
    gone = [edit for edit in edits if edit.after is not None and edit.after.kind == "absent"]
    there = [edit for edit in edits if edit.after is not None and edit.after.kind != "absent"]
    return [*reversed(gone), *there]

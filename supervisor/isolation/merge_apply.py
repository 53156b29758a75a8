"""Carries out a planned merge: all of it or nothing, journaled before and after, and undoable.

Before the first file is written, all contents and the states before and after are in the run's
store, and the journal says that the merge began. A merge that was cut off is carried out from there
(`finish_merge`). Files are written through no link and put in place by a rename. Blocks.
"""

import os
import secrets
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import msgspec

from swarm.mailbox.errors import SwarmError
from swarm.mailbox.protected_paths import find_protected_places
from swarm.mailbox.protocol.merge_records import MergeBegan, MergedChange, MergeEnded
from swarm.mailbox.protocol.records import FilesChanged

from ..file_history.content_store import ContentStore, FileEntry, read_entry
from ..file_history.file_restore import in_order, restore_entry
from ..file_history.file_undo import new_snapshot_id
from ..file_history.net_changes import RecordedChange, compose_changes
from .merge_plan import MergePlan, MergeStep, is_shut

_SPARE_BYTES = 16 << 20
MergeRecord = MergeBegan | MergeEnded | FilesChanged
Steps = Sequence[tuple[FileEntry, FileEntry]]  # before and after
Failures = list[tuple[str, OSError | ValueError]]
WriteMergeRecord = Callable[[MergeRecord, str], None]  # returns when it is on disk


class MergeStale(SwarmError):
    """The project was changed since the merge was planned; nothing was written."""


class MergeFailed(SwarmError):
    """The merge could not be written; nothing of it is done."""


class MergeDone(msgspec.Struct, frozen=True):
    merge_id: str
    touched: tuple[str, ...]
    left: tuple[str, ...] = ()


def apply_merge(plan: MergePlan, store: ContentStore, write: WriteMergeRecord) -> MergeDone:
    """Write what the plan says. It has no conflicts.

    Raises MergeStale, MergeFailed: nothing is changed. OSError: the store cannot be written.
    """
    assert not plan.conflicts
    totals = plan.totals
    _check_present(plan)
    _check_room([after for _, after in totals])
    merge_id = f"merge-{secrets.token_hex(4)}"
    changes = tuple(_merged_change(step, store) for step in plan.steps)
    write(MergeBegan(merge_id=merge_id, changes=changes), "")
    failed = _write_files(totals, store)
    if failed:
        stuck = _take_back(totals, store)
        reason = "; ".join((*_described(failed), *_described(stuck)))
        write(MergeEnded(merge_id=merge_id, applied=False, reason=reason), "")
        raise MergeFailed(f"the merge could not be written, and nothing of it is done: {reason}")
    _write_end(merge_id, changes, (), write)
    return MergeDone(merge_id, tuple(after.path for _, after in totals))


def finish_merge(
    began: MergeBegan, store: ContentStore, write: WriteMergeRecord, *, roots: Sequence[str]
) -> MergeDone:
    """Carry out a merge that was cut off; paths that somebody changed meanwhile are left alone.

    `roots`: the folders of which agents had copies.

    Raises MergeFailed if a file cannot be written: it stays cut off. OSError or ValueError if the
    store cannot be read.
    """
    steps = [
        RecordedChange(one.agent, store.read_manifest(one.before), store.read_manifest(one.after))
        for one in began.changes
        if one.before
    ]
    wanted: list[tuple[FileEntry, FileEntry]] = []
    left: list[str] = []
    protected = find_protected_places(roots)
    for edit in compose_changes(steps):
        assert edit.after is not None
        now = _present(edit.path)
        if now.is_same_as(edit.after):
            continue
        if now.is_same_as(edit.before) and not is_shut(edit.after, protected):
            wanted.append((edit.before, edit.after))
        else:
            left.append(edit.path)
    failed = _write_files(wanted, store)
    if broken := [one for one in failed if isinstance(one[1], OSError)]:
        raise MergeFailed(
            f"{began.merge_id} was cut off and cannot be finished: "
            f"{'; '.join(_described(broken))}; mend that, and merge again"
        )
    left += [path for path, _ in failed]
    _write_end(began.merge_id, began.changes, tuple(left), write)
    return MergeDone(began.merge_id, tuple(after.path for _, after in wanted), tuple(left))


def _merged_change(step: MergeStep, store: ContentStore) -> MergedChange:
    has_paths = bool(step.before)
    return MergedChange(
        agent=step.agent,
        agent_id=step.agent_id,
        fingerprint=step.fingerprint,
        files=step.files,
        before=store.write_manifest(step.before) if has_paths else "",
        after=store.write_manifest(step.after) if has_paths else "",
    )


def _write_end(
    merge_id: str,
    changes: Sequence[MergedChange],
    left: tuple[str, ...],
    write: WriteMergeRecord,
) -> None:
    for one in changes:
        if one.before:
            changed = FilesChanged(
                change_id=new_snapshot_id(),
                before=one.before,
                after=one.after,
                files=one.files,
                turn_id=merge_id,
                call_ids=(merge_id,),
            )
            write(changed, one.agent)
    write(MergeEnded(merge_id=merge_id, applied=True, left=left[:100]), "")


def _check_present(plan: MergePlan) -> None:
    protected = find_protected_places(plan.roots)
    stale = [
        before.path
        for before, after in plan.totals
        if not _present(before.path).is_same_as(before) or is_shut(after, protected)
    ]
    if stale:
        raise MergeStale(f"{len(stale)} files were changed meanwhile: {', '.join(stale[:3])}")


def _present(path: str) -> FileEntry:
    now = read_entry(path)
    return msgspec.structs.replace(now, mode=now.mode & 0o777)


def _check_room(after: Sequence[FileEntry]) -> None:
    """Raises MergeFailed if a disk has no room for the new files beside the old ones."""
    needed: dict[int, int] = {}
    places: dict[int, str] = {}
    for entry in after:
        folder = next(one for one in Path(entry.path).parents if one.is_dir())
        device = folder.stat().st_dev
        needed[device] = needed.get(device, 0) + entry.size
        places[device] = str(folder)
    for device, size in needed.items():
        disk = os.statvfs(places[device])
        if size + _SPARE_BYTES > disk.f_bavail * disk.f_frsize:
            raise MergeFailed(f"the disk of {places[device]} has too little room for the merge")


def _write_files(steps: Steps, store: ContentStore) -> Failures:
    """Returns what could not be written, and why. Tools see the files as new."""
    now_ns = time.time_ns()
    before = {old.path: old for old, _ in steps}
    fresh = [msgspec.structs.replace(after, mtime_ns=now_ns) for _, after in steps]

    def check(path: str) -> None:
        if not _present(path).is_same_as(before[path]):
            raise ValueError("it was changed meanwhile")

    return _restore_all(fresh, store, check)


def _take_back(steps: Steps, store: ContentStore) -> Failures:
    """Undo what was written. What somebody changed since is theirs, and stays."""
    by_path = {before.path: (before, after) for before, after in steps}

    def is_ours(path: str) -> bool:
        before, after = by_path[path]
        now = _present(path)
        # what a folder takes the place of, or is replaced by, is removed first
        is_between = now.kind == "absent" and "folder" in (before.kind, after.kind)
        return not now.is_same_as(before) and (is_between or now.is_same_as(after))

    def check(path: str) -> None:
        if not is_ours(path):
            raise ValueError("it was changed meanwhile")

    return _restore_all([before for before, _ in steps if is_ours(before.path)], store, check)


def _restore_all(
    entries: Sequence[FileEntry], store: ContentStore, check: Callable[[str], None]
) -> Failures:
    failed: Failures = []
    for entry in in_order(entries):
        try:
            restore_entry(entry, store, partial(check, entry.path))
        except (OSError, ValueError) as error:
            failed.append((entry.path, error))
    return failed


def _described(failed: Failures) -> list[str]:
    return [
        f"{path}: {(isinstance(why, OSError) and why.strerror) or why}" for path, why in failed[:3]
    ]

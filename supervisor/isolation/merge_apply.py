"""Carries out a planned merge: all of it or nothing, journaled before and after, and undoable.

Before the first file is written, all contents and the states before and after are in the run's
store, and the journal says that the merge began. A merge that was cut off is carried out from there
(`finish_merge`). Files are written through no link and put in place by a rename. Blocks.
"""

import os
import secrets
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from swarm.mailbox.errors import SwarmError
from swarm.mailbox.protocol.merge_records import MergeBegan, MergedChange, MergeEnded
from swarm.mailbox.protocol.records import FilesChanged

from ..file_history.content_store import ContentStore, FileEntry, read_entry
from ..file_history.file_restore import UndoPlan, in_order, restore_files
from ..file_history.file_undo import new_snapshot_id
from ..file_history.net_changes import RecordedChange, compose_changes
from .merge_plan import MergePlan, MergeStep

_SPARE_BYTES = 16 << 20
MergeRecord = MergeBegan | MergeEnded | FilesChanged
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
    _check_present([before for before, _ in totals])
    _check_room([after for _, after in totals])
    merge_id = f"merge-{secrets.token_hex(4)}"
    changes = tuple(_merged_change(step, store) for step in plan.steps)
    write(MergeBegan(merge_id=merge_id, changes=changes), "")
    failed = _write_files([after for _, after in totals], store)
    if failed:
        _, stuck = restore_files(_plan_of([before for before, _ in totals]), store)
        reason = "; ".join((*failed[:3], *stuck[:3]))
        write(MergeEnded(merge_id=merge_id, applied=False, reason=reason), "")
        raise MergeFailed(f"the merge could not be written, and nothing of it is done: {reason}")
    _write_end(merge_id, changes, (), write)
    return MergeDone(merge_id, tuple(after.path for _, after in totals))


def finish_merge(began: MergeBegan, store: ContentStore, write: WriteMergeRecord) -> MergeDone:
    """Carry out a merge that was cut off; paths that somebody changed meanwhile are left alone.

    Raises OSError or ValueError if the store cannot be read.
    """
    steps = [
        RecordedChange(one.agent, store.read_manifest(one.before), store.read_manifest(one.after))
        for one in began.changes
        if one.before
    ]
    wanted: list[FileEntry] = []
    left: list[str] = []
    for edit in compose_changes(steps):
        assert edit.after is not None
        now = _present(edit.path)
        if now.is_same_as(edit.after):
            continue
        if now.is_same_as(edit.before):
            wanted.append(edit.after)
        else:
            left.append(edit.path)
    left += [line.partition(": ")[0] for line in _write_files(wanted, store)]
    _write_end(began.merge_id, began.changes, tuple(left), write)
    return MergeDone(began.merge_id, tuple(entry.path for entry in wanted), tuple(left))


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


def _check_present(before: Sequence[FileEntry]) -> None:
    stale = [entry.path for entry in before if not _present(entry.path).is_same_as(entry)]
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


def _write_files(after: Sequence[FileEntry], store: ContentStore) -> tuple[str, ...]:
    """Returns what could not be written, and why. Tools see the files as new."""
    now_ns = time.time_ns()
    fresh = [msgspec.structs.replace(entry, mtime_ns=now_ns) for entry in after]
    return restore_files(_plan_of(fresh), store)[1]


def _plan_of(entries: Sequence[FileEntry]) -> UndoPlan:
    return UndoPlan(restore=in_order(entries))

"""Carries out a planned merge: all of it or nothing, journaled before and after, and undoable.

Before the first file is written, all contents and the states before and after are in the run's
store, and the journal says that the merge began. Then all new contents are written beside the old
ones, and only then anything is replaced or removed. The end is journaled if it is true: all of it
is done, or nothing is. Else the merge stays one that was cut off, and is carried out by a later
look (`finish_merge`). The caller holds the project's lock. Blocks.
"""

import os
import secrets
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from swarm.mailbox.base.errors import SwarmError
from swarm.mailbox.base.protected_paths import find_protected_places
from swarm.mailbox.protocol.merge_records import MergeBegan, MergedChange, MergeEnded
from swarm.mailbox.protocol.records import FilesChanged

from ..undo.content_store import ContentStore, FileEntry, read_entry
from ..undo.file_restore import describe_failures
from ..undo.file_undo import new_snapshot_id
from ..undo.net_changes import NetChange, RecordedChange, compose_changes
from ..undo.staged_writes import Pair, StagedWrites, recover
from .merge_plan import MergePlan, MergeStep, is_shut

_SPARE_BYTES = 16 << 20
_MOST_TOLD = 3  # files in one message
MergeRecord = MergeBegan | MergeEnded | FilesChanged
WriteMergeRecord = Callable[[MergeRecord, str], None]  # returns when it is on disk


class MergeStale(SwarmError):
    """The project was changed since the merge was planned; nothing was written."""


class MergeFailed(SwarmError):
    """The merge could not be written; nothing of it is done, or it was cut off: the text says."""


class Written(msgspec.Struct, frozen=True):
    """What became of the writes of a merge. Without a reason all of it is done."""

    touched: tuple[str, ...] = ()
    left: tuple[str, ...] = ()  # paths that somebody changed meanwhile
    failed: str = ""  # why nothing of it is done
    stuck: str = ""  # why it is neither done nor taken back


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
    check_pairs(totals, plan.roots)
    began = begin_merge(plan, store, write)
    written = write_pairs(began.merge_id, totals, store)
    end_merge(began, written, write)
    return MergeDone(began.merge_id, written.touched, written.left)


def begin_merge(
    plan: MergePlan, store: ContentStore, write: WriteMergeRecord, *, into: str = ""
) -> MergeBegan:
    """Journal that the plan is about to be written. `into`: id of the agent whose copy gets it."""
    changes = tuple(_merged_change(step, store) for step in plan.steps)
    began = MergeBegan(merge_id=f"merge-{secrets.token_hex(4)}", changes=changes, into=into)
    write(began, "")
    return began


def write_pairs(merge_id: str, pairs: Sequence[Pair], store: ContentStore) -> Written:
    """Write all of it, or nothing; what could be neither done nor taken back is `stuck`."""
    writes = StagedWrites(merge_id, _as_new(pairs), store)
    failed = writes.stage() or writes.carry_out(whole=True)
    stuck = writes.take_back() if failed else []
    uncleared = writes.clear() if not stuck else []
    stuck += [one for one in uncleared if isinstance(one[1], OSError)]
    if stuck:  # what is left beside files is removed by the next look, as after a kill
        return Written(stuck="; ".join(describe_failures([*failed, *stuck])[:_MOST_TOLD]))
    if failed:
        return Written(failed="; ".join(describe_failures([*failed, *uncleared])[:_MOST_TOLD]))
    touched = tuple(after.path for _, after in pairs)
    return Written(touched=touched, left=tuple(path for path, _ in uncleared))


def end_merge(began: MergeBegan, written: Written, write: WriteMergeRecord) -> None:
    """Journal the end, if it has come to one. Raises MergeFailed unless all of it is done."""
    if written.stuck:
        raise MergeFailed(
            f"{began.merge_id} could be neither finished nor taken back, and is cut off: "
            f"{written.stuck}; fix that, and merge again: it is carried out first"
        )
    if written.failed:
        write(MergeEnded(merge_id=began.merge_id, applied=False, reason=written.failed), "")
        raise MergeFailed(
            f"the merge could not be written, and nothing of it is done: {written.failed}"
        )
    _write_end(began, written.left, write)


def finish_merge(
    began: MergeBegan, store: ContentStore, write: WriteMergeRecord, *, roots: Sequence[str]
) -> MergeDone:
    """Carry out a merge that was cut off; paths that somebody changed meanwhile are left alone.

    `roots`: the folders of which agents had copies.

    Raises MergeFailed if a file cannot be written: it stays cut off. OSError or ValueError if the
    store cannot be read.
    """
    edits = recorded_edits(began, store)
    pairs = [(edit.before, edit.after) for edit in edits if edit.after is not None]
    return end_finished(began, finish_pairs(began.merge_id, pairs, store, roots), write)


def end_finished(began: MergeBegan, written: Written, write: WriteMergeRecord) -> MergeDone:
    """Journal the end of a merge that was cut off. Raises MergeFailed if it stays so."""
    if written.stuck:
        raise MergeFailed(
            f"{began.merge_id} was cut off and cannot be finished: {written.stuck}; fix that, and "
            "merge again"
        )
    _write_end(began, written.left, write)
    return MergeDone(began.merge_id, written.touched, written.left)


def finish_pairs(
    merge_id: str, pairs: Sequence[Pair], store: ContentStore, roots: Sequence[str]
) -> Written:
    """Carry out what was cut off; paths that somebody changed meanwhile are `left`."""
    protected = find_protected_places(roots)
    left = recover(merge_id, pairs, store)
    wanted: list[Pair] = []
    for before, after in pairs:
        now = _present(after.path)
        if now.is_same_as(after):
            continue
        if now.is_same_as(before) and not is_shut(after, protected):
            wanted.append((before, after))
        else:
            left.append(after.path)
    writes = StagedWrites(merge_id, _as_new(wanted), store)
    failed = [*writes.stage(), *writes.carry_out(whole=False), *writes.clear()]
    if broken := [one for one in failed if isinstance(one[1], OSError)]:
        return Written(stuck="; ".join(describe_failures(broken)[:_MOST_TOLD]))
    left += [path for path, _ in failed]
    return Written(touched=tuple(after.path for _, after in wanted), left=tuple(left))


def recorded_edits(began: MergeBegan, store: ContentStore) -> list[NetChange]:
    """What the merge does to each path. Raises OSError or ValueError if the store is damaged."""
    steps = [
        RecordedChange(one.agent, store.read_manifest(one.before), store.read_manifest(one.after))
        for one in began.changes
        if one.before
    ]
    return compose_changes(steps)


def find_unfinished(
    began: MergeBegan, store: ContentStore, read: Callable[[str], FileEntry] | None = None
) -> tuple[str, ...]:
    """The paths that are not as the merge leaves them. Raises as `recorded_edits`.

    `read`: what stands at a path of the copy into which it goes; None: the project is read.
    """
    present = read or _present
    return tuple(
        edit.path
        for edit in recorded_edits(began, store)
        if edit.after is not None and not present(edit.path).is_same_as(edit.after)
    )


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


def _write_end(began: MergeBegan, left: tuple[str, ...], write: WriteMergeRecord) -> None:
    """A merge into a copy changes no file of the project."""
    for one in () if began.into else began.changes:
        if one.before:
            changed = FilesChanged(
                change_id=new_snapshot_id(),
                before=one.before,
                after=one.after,
                files=one.files,
                turn_id=began.merge_id,
                call_ids=(began.merge_id,),
            )
            write(changed, one.agent)
    write(MergeEnded(merge_id=began.merge_id, applied=True, left=left[:100]), "")


def check_pairs(pairs: Sequence[Pair], roots: Sequence[str]) -> None:
    """Raises MergeStale, MergeFailed: it must not be written, or there is no room."""
    protected = find_protected_places(roots)
    stale = [
        before.path
        for before, after in pairs
        if not _present(before.path).is_same_as(before) or is_shut(after, protected)
    ]
    if stale:
        raise MergeStale(f"{len(stale)} files were changed meanwhile: {', '.join(stale[:3])}")
    _check_room([after for _, after in pairs])


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


def _as_new(pairs: Sequence[Pair]) -> list[Pair]:
    """With the present time: tools see the files as new."""
    now_ns = time.time_ns()
    return [(before, msgspec.structs.replace(after, mtime_ns=now_ns)) for before, after in pairs]

"""Restores files from snapshots.

Without `force`, only files that are still as the agents' call left them are touched. What is there
when the plan is made is compared again in the moment of the write. Blocks: call it in a thread.
"""

from collections.abc import Collection, Iterable
from pathlib import Path

from swarm.mailbox.protocol.values.base import Value

from .content_store import UNKNOWN, ContentStore, FileEntry, read_entry, read_kind
from .net_changes import NetChange, others_of
from .staged_writes import Failures, StagedWrites, in_order

_FOLDER_MODE = 0o755


class UndoPlan(Value):
    """What an undo will do. `left`: changed since by somebody else; `lost`: there is no copy."""

    restore: tuple[FileEntry, ...] = ()
    present: tuple[FileEntry, ...] = ()  # what is there now, of each of these
    left: tuple[str, ...] = ()
    shared: tuple[str, ...] = ()  # with agents whose work is not undone
    lost: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()  # as the caller wants


def plan_changes(
    edits: Iterable[NetChange],
    *,
    agents: Collection[str],
    force: bool,
    keep: Collection[str] = (),
) -> UndoPlan:
    """Compare what the agents changed with the present files.

    Args:
        edits: The changes to undo. Where the state after the call is not known, only missing files
            are restored.
        agents: The agents whose work is undone.
        force: Also overwrite what others changed since, or may have changed at the same time.
        keep: Paths that are not restored.
    """
    kept: list[str] = []
    restore: list[FileEntry] = []
    present: dict[str, FileEntry] = {}
    left: list[str] = []
    shared: list[str] = []
    lost: list[str] = []
    for edit in edits:
        now = present[edit.path] = read_entry(edit.path)
        if edit.has_copy and now.is_same_as(edit.before):
            continue
        if edit.path in keep:
            kept.append(edit.path)
        elif not edit.has_copy:
            lost.append(edit.path)
        elif force:
            restore.append(edit.before)
        elif others_of(edit, agents):
            shared.append(edit.path)
        elif now.kind == "absent" or (not edit.is_broken and _is_unchanged(now, edit.after)):
            restore.append(edit.before)
        else:
            left.append(edit.path)
    if force:
        restore += _folders_in_the_way(restore)
    ordered = in_order(restore)
    return UndoPlan(
        restore=ordered,
        present=tuple(present.get(one.path) or read_entry(one.path) for one in ordered),
        left=tuple(left),
        shared=tuple(shared),
        lost=tuple(lost),
        kept=tuple(kept),
    )


def _folders_in_the_way(entries: Iterable[FileEntry]) -> list[FileEntry]:
    """Folder entries for links and files that stand where a restored path needs a folder.

    They become part of the plan, so the undo's own snapshot keeps what stood there.
    """
    entries = tuple(entries)
    spoken = {entry.path for entry in entries}
    wanted = {
        str(above)
        for entry in entries
        if entry.kind != "absent"
        for above in Path(entry.path).parents
    }
    return [
        FileEntry(path=path, kind="folder", mode=_FOLDER_MODE)
        for path in sorted(wanted - spoken)
        if read_kind(path) in ("link", "file")
    ]


def _is_unchanged(now: FileEntry, after: FileEntry | None) -> bool:
    if after is None:
        return False
    if after.sha256 == UNKNOWN:  # too large to read again: compare its times
        return (now.kind, now.size, now.mtime_ns) == (after.kind, after.size, after.mtime_ns)
    return now.is_same_as(after)


def restore_files(plan: UndoPlan, store: ContentStore, name: str = "undo") -> tuple[int, Failures]:
    """Carry out the plan; returns how many files were restored, and which failed and why.

    `name` is part of temporary names, which `staged_writes.recover` finds after a kill.
    """
    pairs = list(zip(plan.present, plan.restore, strict=True))
    writes = StagedWrites(name, pairs, store)
    failed = writes.stage()
    failed += writes.carry_out(whole=False)
    not_restored = {path for path, _ in failed}
    done = sum(
        entry.path not in not_restored
        and entry.kind != "folder"
        and (entry.kind, now.kind) != ("absent", "folder")
        for now, entry in pairs
    )
    return done, [*failed, *writes.clear()]


def describe_failures(failed: Iterable[tuple[str, OSError | ValueError]]) -> tuple[str, ...]:
    """A line for each: the path, and why."""
    return tuple(
        f"{path}: {(isinstance(why, OSError) and why.strerror) or why}" for path, why in failed
    )

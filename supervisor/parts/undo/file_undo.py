"""Undoes several recorded changes as one, journals each, and makes the undo undoable.

What could not be written stays to be undone. Blocks: call it in a thread. The caller owns the run's
journal, and holds the project's lock.
"""

import secrets
from collections.abc import Callable, Collection, Iterator, Sequence

from swarm.mailbox.base.ids import short_id
from swarm.mailbox.protocol.records import SnapshotSettled, SnapshotTaken, Undone
from swarm.mailbox.protocol.values.base import Value

from ...runs.paths import RunPaths
from .content_store import ContentStore, FileEntry, read_entry
from .file_restore import UndoPlan, describe_failures, plan_changes, restore_files
from .net_changes import RecordedChange, compose_changes
from .person_edits import changed_paths
from .project_lock import hold_project
from .snapshots import FileSnapshot, FilesPast
from .staged_writes import recover

STORE_FAILED = "nothing is put back: the run's store cannot be read or written"
_MAX_SHOWN = 20  # paths of each kind
SnapshotRecord = SnapshotTaken | SnapshotSettled | Undone
WriteRecord = Callable[[SnapshotRecord, str], None]  # returns when it is on disk


class UndoReport(Value):
    """What an undo did, for people."""

    restored: int = 0
    left: tuple[str, ...] = ()
    shared: tuple[str, ...] = ()
    lost: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()
    kept_as: str = ""  # the id of the snapshot that undoes this undo
    touched: tuple[str, ...] = ()  # all paths that were restored


def new_snapshot_id() -> str:
    """A short id, used for all kinds of snapshots and changes of a run."""
    return f"s{secrets.token_hex(4)}"


def recorded_changes(chosen: Sequence[FileSnapshot], store: ContentStore) -> list[RecordedChange]:
    """The manifests that the records name. Raises OSError or ValueError if the store is damaged."""
    return [
        RecordedChange(
            agent=kept.agent,
            before=store.read_manifest(kept.taken.manifest),
            after=store.read_manifest(kept.after) if kept.after else (),
            shared_with=kept.shared_with,
        )
        for kept in chosen
    ]


def undo_locked(
    chosen: Sequence[FileSnapshot],
    paths: RunPaths,
    note: WriteRecord,
    *,
    force: bool,
    keep: Collection[str] = (),
) -> UndoReport:
    """`undo_changes` of a run, while nobody else of swarm writes there. Raises ProjectBusy too."""
    store = ContentStore(paths.file_copies)
    touched = changed_paths(recorded_changes(chosen, store))
    with hold_project(paths.project_locks, touched):
        return undo_changes(chosen, store, note, force=force, keep=keep)


def undo_changes(
    chosen: Sequence[FileSnapshot],
    store: ContentStore,
    note: WriteRecord,
    *,
    force: bool,
    keep: Collection[str] = (),
) -> UndoReport:
    """Restore the files to their state before the first of these records, given oldest first.

    The paths in `keep` stay as they are.

    Raises OSError if the store cannot be read, ValueError if it is damaged.
    """
    agents = {kept.agent for kept in chosen}
    plan = plan_changes(
        compose_changes(recorded_changes(chosen, store)), agents=agents, force=force, keep=keep
    )
    kept_as = _snapshot_present(plan.restore, chosen[-1], store, note) if plan.restore else ""
    restored, failures = restore_files(plan, store, f"undo-{kept_as}")
    if failures:
        made = _present_after(plan, {path for path, _ in failures})
        settled = SnapshotSettled(snapshot_id=kept_as, manifest=store.write_manifest(made))
        note(settled, chosen[-1].agent)
    for kept in chosen:
        note(
            Undone(
                snapshot_id=kept.taken.snapshot_id,
                restored=restored,
                left=(*plan.left, *plan.shared, *plan.kept)[:100],
                kept_as=kept_as,
                failed=tuple(path for path, _ in failures)[:100],
            ),
            kept.agent,
        )
    return UndoReport(
        restored=restored,
        left=plan.left,
        shared=plan.shared,
        lost=plan.lost,
        kept=plan.kept,
        failed=describe_failures(failures),
        kept_as=kept_as,
        touched=tuple(entry.path for entry in plan.restore),
    )


def clear_cut_off_undos(past: FilesPast, paths: RunPaths) -> list[str]:
    """Remove what undos that were killed left beside files. Returns what is not ours to remove.

    Raises OSError if the store cannot be read, ValueError if it is damaged; ProjectBusy.
    """
    store = ContentStore(paths.file_copies)
    left: list[str] = []
    for name, undo in past.open_undos.items():
        if undo.planned:
            before = store.read_manifest(undo.taken.manifest)
            wanted = {one.path: one for one in store.read_manifest(undo.planned)}
            pairs = [(one, wanted[one.path]) for one in before if one.path in wanted]
            with hold_project(paths.project_locks, [one.path for one in before]):
                left += recover(f"undo-{name}", pairs, store)
    return left


def _present_after(plan: UndoPlan, failed: Collection[str]) -> list[FileEntry]:
    return [read_entry(one.path) if one.path in failed else one for one in plan.restore]


def _snapshot_present(
    entries: Sequence[FileEntry], kept: FileSnapshot, store: ContentStore, note: WriteRecord
) -> str:
    """Take a snapshot of what is about to be replaced; absent files are part of it.

    What is to come is recorded with it, so that an undo that a kill cuts off is known.
    """
    taken = store.take_snapshot_of([entry.path for entry in entries])
    planned = store.write_manifest(entries)
    name = new_snapshot_id()
    note(
        SnapshotTaken(
            snapshot_id=name,
            manifest=taken.manifest,
            files=taken.files,
            size_bytes=taken.size_bytes,
            turn_id=kept.taken.turn_id,
            left_out=taken.left_out,
        ),
        kept.agent,
    )
    note(SnapshotSettled(snapshot_id=name, manifest=planned), kept.agent)
    return name


def describe_report(report: UndoReport, run_id: str) -> str:
    """The whole report; paths are shown as they are."""
    lines = [f"put back {report.restored} file{'' if report.restored == 1 else 's'}"]
    lines += _named("left alone, changed since", report.left, "--force takes them too")
    lines += _named(
        "left alone, another agent worked at the same time", report.shared, "--force takes them too"
    )
    lines += _named(
        "left alone, a person may have changed it while a command ran",
        report.kept,
        "--yes takes them too",
    )
    lines += _named(
        "no copy was kept of what was there before", report.lost, "they stay as they are"
    )
    lines += [f"could not put back {line}" for line in report.failed[:_MAX_SHOWN]]
    if len(report.failed) > _MAX_SHOWN:
        lines.append(f"could not put back {len(report.failed) - _MAX_SHOWN} more")
    if report.failed:
        lines.append("fix that, and run `swarm undo` again: what failed is still to be undone")
    if report.kept_as:
        lines.append(
            f"to take this back: swarm undo {short_id(run_id)} --snapshot {report.kept_as}"
        )
    return "\n".join(lines)


def _named(what: str, paths: Sequence[str], then: str) -> Iterator[str]:
    if paths:
        yield f"{what} ({len(paths)}; {then}):"
        yield from (f"  {path}" for path in paths[:_MAX_SHOWN])
        if len(paths) > _MAX_SHOWN:
            yield f"  and {len(paths) - _MAX_SHOWN} more"

"""Undoes several recorded changes as one, journals each, and makes the undo undoable.

Blocks: call it in a thread. The caller owns the run's journal.
"""

import secrets
from collections.abc import Callable, Collection, Iterator, Sequence

from swarm.mailbox.ids import short_id
from swarm.mailbox.protocol.base import Value
from swarm.mailbox.protocol.records import SnapshotSettled, SnapshotTaken, Undone

from .content_store import ContentStore, FileEntry
from .file_restore import plan_changes, restore_files
from .net_changes import RecordedChange, compose_changes
from .snapshots import FileSnapshot

_MAX_SHOWN = 20  # paths of each kind
SnapshotRecord = SnapshotTaken | SnapshotSettled | Undone
WriteRecord = Callable[[SnapshotRecord, str], None]  # a record and its agent


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
    restored, failed = restore_files(plan, store)
    if kept_as:
        made = store.write_manifest(plan.restore)
        note(SnapshotSettled(snapshot_id=kept_as, manifest=made), chosen[-1].agent)
    for kept in chosen:
        note(
            Undone(
                snapshot_id=kept.taken.snapshot_id,
                restored=restored,
                left=(*plan.left, *plan.shared, *plan.kept)[:100],
                kept_as=kept_as,
            ),
            kept.agent,
        )
    return UndoReport(
        restored=restored,
        left=plan.left,
        shared=plan.shared,
        lost=plan.lost,
        kept=plan.kept,
        failed=failed,
        kept_as=kept_as,
        touched=tuple(entry.path for entry in plan.restore),
    )


def _snapshot_present(
    entries: Sequence[FileEntry], kept: FileSnapshot, store: ContentStore, note: WriteRecord
) -> str:
    """Take a snapshot of what is about to be replaced; absent files are part of it."""
    taken = store.take_snapshot_of([entry.path for entry in entries])
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

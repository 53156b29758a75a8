"""One undo: several snapshots, newest first, each journaled; and itself kept, to be undone again.

Blocks: call it in a thread. Whoever calls owns the run's journal.
"""

import secrets
from collections.abc import Callable, Sequence

from swarm.mailbox.protocol.base import Value
from swarm.mailbox.protocol.records import SnapshotSettled, SnapshotTaken, Undone

from .past import Kept
from .restore import plan_undo, put_back
from .store import Entry, Store

SnapshotRecord = SnapshotTaken | SnapshotSettled | Undone
Note = Callable[[SnapshotRecord, str], None]  # a record, its agent


class UndoReport(Value):
    """What was done, for people."""

    snapshots: int = 0
    restored: int = 0
    left: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()
    kept_as: tuple[str, ...] = ()  # ids that undo this undo


def new_snapshot_id() -> str:
    """Short, unique in a run for all purposes."""
    return f"s{secrets.token_hex(4)}"


def undo(chosen: Sequence[Kept], store: Store, note: Note, *, force: bool) -> UndoReport:
    """Put back what these snapshots hold.

    Raises OSError if the store cannot be read, ValueError if it is damaged.
    """
    report = UndoReport()
    for kept in chosen:
        before = store.read_manifest(kept.taken.manifest)
        after = store.read_manifest(kept.after) if kept.after else ()
        plan = plan_undo(before, after, force=force)
        kept_as = _keep_present(plan.restore, kept, store, note) if plan.restore else ""
        restored, failed = put_back(plan, store)
        if kept_as:
            note(SnapshotSettled(snapshot_id=kept_as, manifest=kept.taken.manifest), kept.agent)
        note(
            Undone(
                snapshot_id=kept.taken.snapshot_id,
                restored=restored,
                left=plan.left[:100],
                kept_as=kept_as,
            ),
            kept.agent,
        )
        report = UndoReport(
            snapshots=report.snapshots + 1,
            restored=report.restored + restored,
            left=(*report.left, *plan.left),
            failed=(*report.failed, *failed),
            kept_as=(*report.kept_as, *((kept_as,) if kept_as else ())),
        )
    return report


def _keep_present(entries: Sequence[Entry], kept: Kept, store: Store, note: Note) -> str:
    """A snapshot of what is there before it is replaced; absent files are part of it."""
    taken = store.take_exactly([entry.path for entry in entries])
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

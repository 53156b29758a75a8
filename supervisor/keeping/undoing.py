"""One undo: several changes taken back as one, each journaled; and itself kept, to be undone again.

Blocks: call it in a thread. Whoever calls owns the run's journal.
"""

import secrets
from collections.abc import Callable, Sequence

from swarm.mailbox.protocol.base import Value
from swarm.mailbox.protocol.records import SnapshotSettled, SnapshotTaken, Undone

from .composing import Step, compose
from .past import Kept
from .restore import plan_edits, put_back
from .store import Entry, Store

SnapshotRecord = SnapshotTaken | SnapshotSettled | Undone
Note = Callable[[SnapshotRecord, str], None]  # a record, its agent


class UndoReport(Value):
    """What was done, for people."""

    restored: int = 0
    left: tuple[str, ...] = ()
    shared: tuple[str, ...] = ()
    lost: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()
    kept_as: str = ""  # the id that undoes this undo
    touched: tuple[str, ...] = ()  # all paths that were put back


def new_snapshot_id() -> str:
    """Short, unique in a run for all purposes."""
    return f"s{secrets.token_hex(4)}"


def steps_of(chosen: Sequence[Kept], store: Store) -> list[Step]:
    """The lists that the records name. Raises OSError or ValueError if the store is damaged."""
    return [
        Step(
            agent=kept.agent,
            before=store.read_manifest(kept.taken.manifest),
            after=store.read_manifest(kept.after) if kept.after else (),
            shared_with=kept.shared_with,
        )
        for kept in chosen
    ]


def undo(chosen: Sequence[Kept], store: Store, note: Note, *, force: bool) -> UndoReport:
    """Put files back as they were before the first of these, oldest first.

    Raises OSError if the store cannot be read, ValueError if it is damaged.
    """
    agents = {kept.agent for kept in chosen}
    plan = plan_edits(compose(steps_of(chosen, store)), agents=agents, force=force)
    kept_as = _keep_present(plan.restore, chosen[-1], store, note) if plan.restore else ""
    restored, failed = put_back(plan, store)
    if kept_as:
        made = store.write_manifest(plan.restore)
        note(SnapshotSettled(snapshot_id=kept_as, manifest=made), chosen[-1].agent)
    for kept in chosen:
        note(
            Undone(
                snapshot_id=kept.taken.snapshot_id,
                restored=restored,
                left=(*plan.left, *plan.shared)[:100],
                kept_as=kept_as,
            ),
            kept.agent,
        )
    return UndoReport(
        restored=restored,
        left=plan.left,
        shared=plan.shared,
        lost=plan.lost,
        failed=failed,
        kept_as=kept_as,
        touched=tuple(entry.path for entry in plan.restore),
    )


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

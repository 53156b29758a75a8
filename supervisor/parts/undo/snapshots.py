"""Folds a run's journal into file changes: what can be undone and what was undone. No I/O."""

from collections.abc import Collection, Iterable

import msgspec

from swarm.mailbox.protocol.records import (
    FilesChanged,
    Record,
    SnapshotSettled,
    SnapshotTaken,
    Undone,
    WatchBegan,
)


class FileSnapshot(msgspec.Struct):
    """One recorded change of files, or a snapshot made before one, and its later state."""

    taken: SnapshotTaken  # of a change: the manifest of the state before
    agent: str
    ts: float
    after: str = ""  # manifest of the state after the call; "" = not recorded
    planned: str = ""  # of an undo: what it was to make of them
    undone: bool = False
    shared_with: tuple[str, ...] = ()
    is_copy: bool = True  # made before a destructive command, or by an undo


class FilesPast(msgspec.Struct):
    """`snapshots` by id, oldest first."""

    snapshots: dict[str, FileSnapshot] = {}
    watched: WatchBegan | None = None  # the last recorded extent of the watching
    # Of undos that began, and did not end, or ended with failures: they may have left files.
    open_undos: dict[str, FileSnapshot] = {}

    def take(self, record: Record) -> None:
        """The next of the run's own records."""
        found = self.snapshots
        match record.body:
            case SnapshotTaken(snapshot_id=name) as taken:
                found[name] = FileSnapshot(taken=taken, agent=record.agent, ts=record.ts)
                if not taken.call_id:
                    self.open_undos[name] = found[name]
            case SnapshotSettled(snapshot_id=name, manifest=manifest) if name in found:
                found[name].planned = found[name].planned or manifest
                found[name].after = manifest
            case FilesChanged(change_id=name) as changed:
                found[name] = _snapshot_of_change(changed, record)
            case WatchBegan() as watched:
                self.watched = watched
            case Undone(snapshot_id=name, left=left, failed=failed, kept_as=kept):
                if not failed:
                    self.open_undos.pop(kept, None)
                if name in found:  # what was left alone, or failed, can still be undone
                    found[name].undone = not left and not failed
            case _:
                pass


def fold_snapshots(records: Iterable[Record]) -> dict[str, FileSnapshot]:
    """By id, oldest first, including the snapshots that undos took of what they replaced."""
    return fold_files(records).snapshots


def fold_files(records: Iterable[Record]) -> FilesPast:
    """Everything that the run's own records say about files."""
    past = FilesPast()
    for record in records:
        past.take(record)
    return past


def _snapshot_of_change(changed: FilesChanged, record: Record) -> FileSnapshot:
    taken = SnapshotTaken(
        snapshot_id=changed.change_id,
        manifest=changed.before,
        files=changed.files,
        size_bytes=0,
        turn_id=changed.turn_id,
        call_id=" ".join(changed.call_ids),
    )
    return FileSnapshot(
        taken=taken,
        agent=record.agent,
        ts=record.ts,
        after=changed.after,
        shared_with=changed.shared_with,
        is_copy=False,
    )


def choose_snapshots(
    found: dict[str, FileSnapshot],
    *,
    agent: str,
    snapshot_id: str = "",
    turns: Collection[str] = (),
) -> list[FileSnapshot]:
    """What to undo, oldest first; by default all that agents' calls changed and is not undone.

    A snapshot that an undo took is chosen only by its id.

    Args:
        found: From `fold_snapshots`.
        agent: A path; "" is every agent.
        snapshot_id: Only this one, by its id or a prefix of it; [] if none or several match.
        turns: Only of these turns; empty: of all.
    """
    if snapshot_id:
        fits = [name for name in found if name == snapshot_id or name.startswith(snapshot_id)]
        return [found[fits[0]]] if len(fits) == 1 else []
    return [
        one
        for one in found.values()
        if not one.undone
        and one.taken.call_id
        and agent in ("", one.agent)
        and (not turns or one.taken.turn_id in turns)
    ]

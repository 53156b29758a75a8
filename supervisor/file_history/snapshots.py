"""What changed in a run's files, as its journal tells: what can be undone, and what was. Pure."""

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
    """One recorded change of files, or a copy made before one, and what became of it."""

    taken: SnapshotTaken  # of a change: its manifest is that of what was before
    agent: str
    ts: float
    after: str = ""  # manifest of what the call left; "" = nobody looked
    undone: bool = False
    shared_with: tuple[str, ...] = ()
    is_copy: bool = True  # made before a destructive command, or by an undo


class FilesPast(msgspec.Struct):
    """`kept` by id, oldest first."""

    snapshots: dict[str, FileSnapshot] = {}
    watched: WatchBegan | None = None  # how far the watching reached, when last told


def fold_snapshots(records: Iterable[Record]) -> dict[str, FileSnapshot]:
    """By id, oldest first. A snapshot that an undo took of what it replaced is one too."""
    return fold_files(records).snapshots


def fold_files(records: Iterable[Record]) -> FilesPast:
    """All that the run's own records tell of files."""
    past = FilesPast()
    found = past.snapshots
    for record in records:
        match record.body:
            case SnapshotTaken(snapshot_id=name) as taken:
                found[name] = FileSnapshot(taken=taken, agent=record.agent, ts=record.ts)
            case SnapshotSettled(snapshot_id=name, manifest=manifest) if name in found:
                found[name].after = manifest
            case FilesChanged(change_id=name) as changed:
                found[name] = _snapshot_of_change(changed, record)
            case WatchBegan() as watched:
                past.watched = watched
            case Undone(snapshot_id=name, left=left) if name in found:
                found[name].undone = not left  # what was left alone can yet be undone
            case _:
                pass
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
    """What is to be undone, oldest first; without a choice all that agents did and is not undone.

    What an undo itself took is undone only when it is named.

    Args:
        found: Of `fold_snapshots`.
        agent: A path; "" is every agent.
        snapshot_id: This one alone, by its id or the head of it; [] if none or several fit.
        turns: Only of these turns; none: of all.
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

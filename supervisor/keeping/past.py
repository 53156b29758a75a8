"""A run's snapshots, as its journal tells of them. Pure."""

from collections.abc import Iterable

import msgspec

from swarm.mailbox.protocol.records import Record, SnapshotSettled, SnapshotTaken, Undone


class Kept(msgspec.Struct):
    """One snapshot and what became of it."""

    taken: SnapshotTaken
    agent: str
    ts: float
    after: str = ""  # manifest of what the call left; "" = nobody looked
    undone: bool = False


def fold_snapshots(records: Iterable[Record]) -> dict[str, Kept]:
    """By id, oldest first. A snapshot that an undo took of what it replaced is one too."""
    found: dict[str, Kept] = {}
    for record in records:
        match record.body:
            case SnapshotTaken(snapshot_id=name) as taken:
                found[name] = Kept(taken=taken, agent=record.agent, ts=record.ts)
            case SnapshotSettled(snapshot_id=name, manifest=manifest) if name in found:
                found[name].after = manifest
            case Undone(snapshot_id=name) if name in found:
                found[name].undone = True
            case _:
                pass
    return found


def choose(found: dict[str, Kept], *, agent: str, snapshot_id: str) -> list[Kept]:
    """What is to be undone, newest first; without a choice all that an agent did and is not undone.

    What an undo itself took is undone only when it is named.
    """
    if snapshot_id:
        fits = [name for name in found if name == snapshot_id or name.startswith(snapshot_id)]
        return [found[fits[0]]] if len(fits) == 1 else []
    return [
        one
        for one in reversed(found.values())
        if not one.undone and one.taken.call_id and agent in ("", one.agent)
    ]

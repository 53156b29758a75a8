"""Writes a merge into an agent's copy: all of it or nothing, as merges into the project.

Usage: python -P -m swarm.supervisor.parts.copies.copy_writer ORDER
ORDER is a `CopyWrite` as JSON; what became of it is printed as JSON (`CopyWritten`). A copy that
consists of layers is written in its mount alone: the agent's process starts this program there, or
`swarm.worker.programs.enter_copy` does if it has none. A copy that is a folder needs no program.
The journal has the merge's begin by then. Blocks.
"""

import os
import sys
from pathlib import Path
from threading import Thread

import msgspec

from swarm.mailbox.protocol.values.base import Value

from ..undo.content_store import ContentStore, FileEntry
from .merge_apply import MergeFailed, MergeStale, Written, check_pairs, finish_pairs, write_pairs

PROGRAM = (sys.executable, "-P", "-m", __name__)


class CopyWrite(Value):
    """What is to be written where. `before` and `after` are manifests in the store."""

    merge_id: str
    store: str  # the folder of the run's store
    before: str
    after: str
    roots: tuple[str, ...]  # of the copy
    tree: str = ""  # the folder that is the copy of the one root; "": it is mounted there
    finishes: bool = False  # it was begun before: what somebody changed since is left alone


class CopyWritten(Value):
    """What became of it. Without a reason all of it is done."""

    left: tuple[str, ...] = ()  # paths that somebody changed meanwhile
    stale: str = ""  # why nothing was written: the copy is not what it was
    failed: str = ""  # why nothing of it is done
    stuck: str = ""  # why it is neither done nor taken back


def write_into_copy(order: CopyWrite) -> CopyWritten:
    """Carry out the order. Raises OSError or ValueError if the store cannot be read."""
    store = ContentStore(Path(order.store))
    before, after = store.read_manifest(order.before), store.read_manifest(order.after)
    pairs = [
        (_moved(old, order), _moved(new, order)) for old, new in zip(before, after, strict=True)
    ]
    roots = (order.tree,) if order.tree else order.roots
    if order.finishes:
        return _as_result(finish_pairs(order.merge_id, pairs, store, roots))
    try:
        check_pairs(pairs, roots)
    except MergeStale as error:
        return CopyWritten(stale=str(error))
    except MergeFailed as error:
        return CopyWritten(failed=str(error))
    return _as_result(write_pairs(order.merge_id, pairs, store))


def _as_result(written: Written) -> CopyWritten:
    return CopyWritten(left=written.left, failed=written.failed, stuck=written.stuck)


def _moved(entry: FileEntry, order: CopyWrite) -> FileEntry:
    """The entry in the folder that is the copy."""
    if not order.tree:
        return entry
    (root,) = order.roots
    path = order.tree + entry.path.removeprefix(root.rstrip("/"))
    return msgspec.structs.replace(entry, path=path)


def _end_with_parent() -> None:
    """Standard input is a pipe that nobody writes; what is cut off so is finished later."""
    os.read(0, 1)
    os._exit(1)


def main() -> int:
    Thread(target=_end_with_parent, daemon=True).start()
    order = msgspec.json.decode(sys.argv[1], type=CopyWrite)
    sys.stdout.buffer.write(msgspec.json.encode(write_into_copy(order)))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

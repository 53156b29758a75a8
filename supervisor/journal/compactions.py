"""Finds the latest compaction of an agent that can still be undone. No I/O of its own.

It can be undone only if the history still begins with the items of that compaction. If something
else has replaced them since (a rollback, a removed image), it cannot.
"""

from collections.abc import Iterable
from typing import NamedTuple

import msgspec

from swarm.mailbox.protocol.items import AnyItem, encode_item
from swarm.mailbox.protocol.ops import UndoCompaction
from swarm.mailbox.protocol.records import ContextRecorded, Record
from swarm.mailbox.protocol.sampling import chain_digest

from .replay import AgentMemory, fold_agent


class _CompactionMade(NamedTuple):
    compaction_id: str
    before: tuple[AnyItem, ...]
    after: tuple[AnyItem, ...]


def find_compaction_undo(records: Iterable[Record]) -> UndoCompaction | None:
    """The op that undoes the latest compaction; None if there is none, or it cannot be undone."""
    made: list[_CompactionMade] = []

    def note(memory: AgentMemory, record: Record) -> None:
        match record.body:
            case ContextRecorded(shortened=None, undoes=undone) if undone:
                while made and made.pop().compaction_id != undone:
                    pass
            case ContextRecorded(shortened=done) as body if done is not None:
                made.append(_CompactionMade(done.compaction_id, tuple(memory.items), body.items))
            case _:
                pass

    items = tuple(fold_agent(records, before=note).items)
    if not made or items[: len(made[-1].after)] != made[-1].after:
        return None
    last, digest = made[-1], b""
    for item in last.after:
        digest = chain_digest(digest, encode_item(item))
    return UndoCompaction(
        compaction_id=last.compaction_id,
        base_count=len(last.after),
        base_digest=digest,
        items=tuple(msgspec.Raw(encode_item(item)) for item in last.before),
    )

"""The mark of a merge that writes, or was cut off: `ps` reads it, since it reads no journal.

It is made before the merge's first write and removed after its end. The truth is in the journal.
"""

from collections.abc import Sequence
from contextlib import suppress

import msgspec

from swarm.mailbox.protocol.values.base import Value

from .paths import RunPaths
from .run_metadata import write_run_file

_MOST_NAMED = 20


class UnfinishedMerge(Value):
    """`paths`: the first of the `count` files that are not as the merge leaves them."""

    merge_id: str
    count: int
    paths: tuple[str, ...] = ()


def mark_merge(run_paths: RunPaths, merge_id: str, paths: Sequence[str]) -> None:
    """Raises SwarmError if it cannot be written."""
    mark = UnfinishedMerge(merge_id=merge_id, count=len(paths), paths=tuple(paths[:_MOST_NAMED]))
    write_run_file(run_paths.unfinished_merge, msgspec.json.encode(mark))


def clear_mark(run_paths: RunPaths) -> None:
    """No merge of the run is unfinished."""
    with suppress(OSError):
        run_paths.unfinished_merge.unlink(missing_ok=True)


def read_mark(run_paths: RunPaths) -> UnfinishedMerge | None:
    """None: there is none, or it cannot be read."""
    with suppress(OSError, msgspec.DecodeError, UnicodeDecodeError):
        return msgspec.json.decode(run_paths.unfinished_merge.read_bytes(), type=UnfinishedMerge)
    return None

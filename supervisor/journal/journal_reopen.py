"""Opens the journal of an ended run to append to it. The caller holds the run's lock."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from ..runs.paths import RunPaths
from .journal import Journal, open_journal
from .journal_files import repair_tail
from .journal_reader import last_seq


@asynccontextmanager
async def reopen_journal(places: RunPaths) -> AsyncIterator[Journal]:
    """Cut torn last lines, then open the journal; numbers continue."""
    for file in places.journal.glob("*.jsonl"):
        repair_tail(file)
    async with open_journal(places, last_seq=last_seq(places)) as journal:
        yield journal

"""The journal of a run that has ended, opened to add to it. The caller holds the run's lock."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from ..places import RunPlaces
from .files import repair_tail
from .reading import last_seq
from .rollout import Journal, open_journal


@asynccontextmanager
async def reopen_journal(places: RunPlaces) -> AsyncIterator[Journal]:
    """Torn last lines are cut first; numbers go on."""
    for file in places.journal.glob("*.jsonl"):
        repair_tail(file)
    async with open_journal(places, last_seq=last_seq(places)) as journal:
        yield journal

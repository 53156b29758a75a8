"""Searches memories: SQLite's full-text index over facts and summaries of runs. Blocks."""

import os
import re
from pathlib import Path

from swarm.mailbox.parts.memories.memory_messages import RecalledFact

from .memory_facts import Fact, Output, words_of
from .memory_paths import find_top
from .memory_store import MemoryStore

MAX_RECALLED = 12
_MAX_WORDS = 24
_MAX_SUMMARY_CHARS = 400
_DAY_S = 86_400
_TOKEN = re.compile(r"[^\W_]+")


def search_memories(
    store: MemoryStore, project: str, query: str, *, cwd: str, now: float
) -> tuple[tuple[RecalledFact, ...], int]:
    """The memories with the query's words, the best first, and how many more there are.

    Args:
        store: May be read-only.
        project: Whose memories.
        query: Any text; its signs mean nothing.
        cwd: The project; a fact about a file that is gone there is stale.
        now: Unix seconds.

    Raises sqlite3.Error.
    """
    words = [word for part in words_of(query)[:_MAX_WORDS] for word in _TOKEN.findall(part)]
    if not words:
        return (), 0
    here = find_top(cwd)
    every = store.search(project, words, MAX_RECALLED * 4)
    found = [one for one in every if one.is_told_in(here)]
    recalled = [_recalled(one, cwd, now) for one in found]
    recalled.sort(key=lambda one: bool(one.stale))  # the order is kept otherwise
    return tuple(recalled[:MAX_RECALLED]), max(0, len(recalled) - MAX_RECALLED)


def _recalled(found: Fact | Output, cwd: str, now: float) -> RecalledFact:
    if isinstance(found, Output):
        return RecalledFact(
            fact_id="",
            kind="run",
            text=found.summary[:_MAX_SUMMARY_CHARS],
            run_id=found.run_id,
            age_days=_days(found.updated_at, now),
            uses=found.uses,
        )
    return RecalledFact(
        fact_id=found.fact_id,
        kind=found.kind,
        text=found.text,
        place=found.place,
        run_id=found.run_id,
        age_days=_days(found.created_at, now),
        uses=found.uses,
        stale=found.stale or _gone(found, cwd),
    )


def _gone(fact: Fact, cwd: str) -> str:
    """Why the place of a fact is not there; a person's own words count all the same."""
    file = re.sub(r":[0-9-]+$", "", fact.place)
    if not file or os.path.lexists(Path(cwd, file)):
        return ""
    return f"{file} is gone"


def _days(then: float, now: float) -> int:
    return max(0, int((now - then) // _DAY_S))

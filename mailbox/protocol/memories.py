"""Memories: what agents search in them, and what they find untrue."""

from typing import Literal

from .base import Tagged, Value
from .findings import FindingPublished

_DAY_S = 86_400
MAX_QUERY_CHARS = 500
MAX_WHY_CHARS = 300


MemoryScope = Literal["project", "global"]
MemoryMethod = Literal["auto", "facts", "model"]


class MemorySettings(Value):
    """What a run does with memories. Off: nothing is read, nothing kept."""

    enabled: bool = False
    use: bool = True  # agents read what is remembered
    generate: bool = True  # the run becomes a source of memories
    scope: MemoryScope = "project"
    method: MemoryMethod = "auto"  # auto: by a model, unless it is the embedded or a scripted one
    leaves_out_polluted: bool = True  # runs that read what strangers may have written
    most_runs: int = 16  # extracted by one job
    max_age_days: int = 30
    idle_hours: float = 0.0
    most_raw: int = 256  # outputs that are consolidated
    max_unused_days: int = 30
    summary_tokens: int = 1500
    extract_provider: str | None = None  # None: that of the run
    extract_model: str | None = None
    consolidation_model: str | None = None
    budget_tokens: int = 200_000  # a day
    budget_usd: float = 1.0  # a day

    def unused_since(self, now: float) -> float:
        """What was last used before this Unix time counts no more."""
        return now - self.max_unused_days * _DAY_S


class RecalledFact(Value):
    """One memory that fits a query, with where it is from."""

    fact_id: str
    kind: str
    text: str
    place: str = ""  # file:lines, in the project
    run_id: str = ""  # the first run that learned it; "" for a person's own words
    age_days: int = 0
    uses: int = 0
    stale: str = ""  # why it may be untrue by now


class MemoryMarked(Tagged):
    """An agent found that a memory is not true any more. The memory job reads this."""

    fact_id: str
    why: str


class RecallMemories(Tagged):
    """Search what earlier runs learned; the reply is `MemoriesFound`."""

    query: str


class ReportStaleMemory(Tagged):
    """A memory is not true any more; the reply is `MemoryReported`."""

    fact_id: str
    why: str


class MemoriesFound(Tagged):
    """The best matches first; `more` were left out."""

    facts: tuple[RecalledFact, ...] = ()
    more: int = 0


class MemoryReported(Tagged):
    """Noted; later runs are told that it may be untrue."""

    fact_id: str


AnyNoteRecord = FindingPublished | MemoryMarked  # what agents note for others, now or later

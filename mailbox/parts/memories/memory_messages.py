"""Memories: what agents search in them, and what they find untrue."""

from typing import Literal

import msgspec

from ...base.named_tool import NamedTool
from ...protocol.values.base import Tagged, Value

RECALL_TOOL = NamedTool(name="recall_memories", reads=True)
REPORT_STALE_TOOL = NamedTool(name="report_stale_memory")
MEMORY_TOOLS = (RECALL_TOOL, REPORT_STALE_TOOL)

_DAY_S = 86_400
MAX_QUERY_CHARS = 500
MAX_WHY_CHARS = 300


MemoryScope = Literal["project", "global"]
MemoryMethod = Literal["auto", "facts", "model"]


# Codex's keys, where it has them.
_KEYS = {
    "use": "use_memories",
    "generate": "generate_memories",
    "leaves_out_polluted": "disable_on_external_context",
    "most_runs": "max_rollouts_per_startup",
    "max_age_days": "max_rollout_age_days",
    "idle_hours": "min_rollout_idle_hours",
    "most_raw": "max_raw_memories_for_consolidation",
}


class MemorySettings(Value, rename=_KEYS):
    """`[memories]`: Codex's keys, and swarm's own. Off: nothing is read, nothing kept."""

    enabled: bool = False  # as `features.memories`
    use: bool = True  # agents read what is remembered
    generate: bool = True  # the run becomes a source of memories
    leaves_out_polluted: bool = True  # runs that read what strangers may have written
    most_runs: int = 16  # extracted by one job
    max_age_days: int = 30
    idle_hours: int | float = 0
    most_raw: int = 256  # outputs that are consolidated
    max_unused_days: int = 30
    extract_model: str | None = None
    consolidation_model: str | None = None
    extract_provider: str | None = None  # None: that of the run
    scope: MemoryScope = "project"
    method: MemoryMethod = "auto"  # auto: by a model, unless it is the embedded or a scripted one
    summary_tokens: int = 1500
    budget_tokens: int = 200_000  # a day
    budget_usd: int | float = 1.0  # a day

    def unused_since(self, now: float) -> float:
        """What was last used before this Unix time counts no more."""
        return now - self.max_unused_days * _DAY_S


class RunMemories(Value):
    """What a run does with memories, and what its agents are told of them."""

    settings: MemorySettings = MemorySettings()
    text: str = ""


class MemoryAccess(Value):
    """What an agent needs to know of memories."""

    is_reader: bool = False  # it may search them


def former_memories(kept: dict[str, object], text: str) -> RunMemories:
    """What runs kept before: the settings by the names of their fields. Raises ValidationError."""
    fields, keys = MemorySettings.__struct_fields__, MemorySettings.__struct_encode_fields__
    names = dict(zip(fields, keys, strict=True))
    known = {names[name]: value for name, value in kept.items() if name in names}
    return RunMemories(settings=msgspec.convert(known, MemorySettings), text=text)


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

"""Checks the `[memories]` table and turns it into values. No I/O.

Source: Codex's `[memories]`, with its bounds. Differs: a run is a source as soon as it has ended,
runs that read untrusted content are left out unless asked, and there is a budget for each day.
"""

from swarm.mailbox.errors import UsageError
from swarm.mailbox.protocol.base import Value
from swarm.mailbox.protocol.memories import MemoryMethod, MemoryScope, MemorySettings

_BOUNDS = {
    "max_rollouts_per_startup": (1, 128),
    "max_rollout_age_days": (0, 90),
    "min_rollout_idle_hours": (0, 48),
    "max_raw_memories_for_consolidation": (1, 4096),
    "max_unused_days": (0, 365),
    "summary_tokens": (100, 5000),
}


class MemoriesTable(Value):
    """`[memories]`: Codex's keys; the others are swarm's own."""

    enabled: bool = False  # swarm's own; as `features.memories`
    use_memories: bool = True
    generate_memories: bool = True
    disable_on_external_context: bool = True
    max_rollouts_per_startup: int = 16
    max_rollout_age_days: int = 30
    min_rollout_idle_hours: int | float = 0
    max_raw_memories_for_consolidation: int = 256
    max_unused_days: int = 30
    extract_model: str | None = None
    consolidation_model: str | None = None
    extract_provider: str | None = None  # swarm's own, as all below
    scope: MemoryScope = "project"
    method: MemoryMethod = "auto"
    summary_tokens: int = 1500
    budget_tokens: int = 200_000
    budget_usd: int | float = 1.0


def memory_settings(*, table: MemoriesTable | bool, is_enabled: bool) -> MemorySettings:
    """What a run does with memories.

    `is_enabled`: the feature `memories` is on. Raises UsageError that names the key.
    """
    if isinstance(table, bool):
        return MemorySettings(enabled=table or is_enabled)
    for key, (least, most) in _BOUNDS.items():
        if not least <= getattr(table, key) <= most:
            raise UsageError(f"memories.{key}: must be between {least} and {most}")
    if table.budget_tokens < 0 or table.budget_usd < 0:
        raise UsageError("memories.budget_tokens and budget_usd must not be negative")
    return MemorySettings(
        enabled=table.enabled or is_enabled,
        use=table.use_memories,
        generate=table.generate_memories,
        scope=table.scope,
        method=table.method,
        leaves_out_polluted=table.disable_on_external_context,
        most_runs=table.max_rollouts_per_startup,
        max_age_days=table.max_rollout_age_days,
        idle_hours=table.min_rollout_idle_hours,
        most_raw=table.max_raw_memories_for_consolidation,
        max_unused_days=table.max_unused_days,
        summary_tokens=table.summary_tokens,
        extract_provider=table.extract_provider,
        extract_model=table.extract_model,
        consolidation_model=table.consolidation_model,
        budget_tokens=table.budget_tokens,
        budget_usd=table.budget_usd,
    )

"""Checks the `[memories]` table. No I/O.

Source: Codex's `[memories]`, with its bounds. Differs: a run is a source as soon as it has ended,
runs that read untrusted content are left out unless asked, and there is a budget for each day.
"""

import msgspec

from swarm.mailbox.base.errors import UsageError
from swarm.mailbox.parts.memories.memory_messages import MemorySettings

_BOUNDS = {
    "max_rollouts_per_startup": (1, 128),
    "max_rollout_age_days": (0, 90),
    "min_rollout_idle_hours": (0, 48),
    "max_raw_memories_for_consolidation": (1, 4096),
    "max_unused_days": (0, 365),
    "summary_tokens": (100, 5000),
}


def check_memory_settings(*, table: MemorySettings | bool, is_enabled: bool) -> MemorySettings:
    """What a run does with memories.

    `is_enabled`: the feature `memories` is on. Raises UsageError that names the key.
    """
    if isinstance(table, bool):
        return MemorySettings(enabled=table or is_enabled)
    names = dict(zip(table.__struct_encode_fields__, table.__struct_fields__, strict=True))
    for key, (least, most) in _BOUNDS.items():
        if not least <= getattr(table, names[key]) <= most:
            raise UsageError(f"memories.{key}: must be between {least} and {most}")
    if table.budget_tokens < 0 or table.budget_usd < 0:
        raise UsageError("memories.budget_tokens and budget_usd must not be negative")
    return msgspec.structs.replace(table, enabled=table.enabled or is_enabled)

"""`[memories]`: off unless asked for, within bounds, and short to switch on."""

import msgspec
import pytest

from swarm.mailbox.base.errors import UsageError
from swarm.mailbox.parts.memories.memory_messages import MemorySettings
from swarm.roles.parts.memories.memory_settings import check_memory_settings


@pytest.mark.parametrize(
    ("table", "by_feature", "enabled"),
    [
        (False, False, False),
        (True, False, True),
        (False, True, True),
        (MemorySettings(), False, False),
        (MemorySettings(), True, True),
        (MemorySettings(enabled=True), False, True),
    ],
)
def test_memories_are_on_by_the_key_the_table_or_the_feature(table, by_feature, enabled):
    assert check_memory_settings(table=table, is_enabled=by_feature).enabled is enabled


def test_the_defaults_of_the_table_are_those_without_one():
    assert check_memory_settings(table=MemorySettings(), is_enabled=False) == MemorySettings()


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("max_rollouts_per_startup", 0),
        ("max_rollouts_per_startup", 129),
        ("max_rollout_age_days", 91),
        ("min_rollout_idle_hours", 49),
        ("max_raw_memories_for_consolidation", 0),
        ("max_unused_days", 366),
        ("summary_tokens", 5001),
        ("budget_tokens", -1),
        ("budget_usd", -0.5),
    ],
)
def test_a_value_out_of_its_bounds_is_named(key, value):
    table = msgspec.convert({key: value}, MemorySettings)
    with pytest.raises(UsageError, match=key):
        check_memory_settings(table=table, is_enabled=True)

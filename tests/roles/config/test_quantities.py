"""`[limits]` as people write it."""

import pytest

from swarm.mailbox.base.errors import UsageError
from swarm.mailbox.base.quantities import parse_size
from swarm.mailbox.protocol.values.limits import ResourceLimits
from swarm.roles.config.resource_limits import resource_limits
from swarm.roles.config.schema import LimitsTable
from swarm.supervisor.processes.machine_state import memory_bytes

GIB = 1 << 30


def test_the_built_in_bounds_are_generous():
    assert resource_limits(LimitsTable(), ram_bytes=8 * GIB) == ResourceLimits(
        command_memory_bytes=6 * GIB, command_processes=4096,
        agent_memory_bytes=6 * GIB, agent_processes=4096,
    )  # fmt: skip


def test_zero_is_no_bound():
    table = LimitsTable(
        command_memory=0, command_processes=0, command_seconds=0, agent_memory="0",
        agent_processes=0,
    )  # fmt: skip
    assert resource_limits(table, ram_bytes=GIB) == ResourceLimits()


@pytest.mark.parametrize(
    ("text", "size"),
    [("8GiB", 8 * GIB), ("8g", 8 * GIB), ("1.5 MB", 3 << 19), ("50%", GIB // 2), (77, 77),
     ("100 %", GIB), ("1k", 1024), ("3t", 3 << 40), ("12b", 12)],
)  # fmt: skip
def test_sizes_are_read_as_people_write_them(text, size):
    assert parse_size(text, whole_bytes=GIB) == size


@pytest.mark.parametrize(
    ("table", "words"),
    [
        (LimitsTable(command_memory="much"), r"limits\.command_memory: 'much' is not a size"),
        (LimitsTable(command_memory="101%"), "is not a size"),
        (LimitsTable(command_memory=-1), "is not a size"),
        (LimitsTable(command_memory="1MiB"), "at least 16MiB"),
        (LimitsTable(agent_memory="64MiB"), "at least 128MiB"),
        (LimitsTable(agent_processes=2), r"limits\.agent_processes: must be at least 8"),
        (LimitsTable(command_processes=-9), r"limits\.command_processes"),
        (LimitsTable(command_seconds="soon"), r"limits\.command_seconds: 'soon' is not a length"),
    ],
)
def test_a_bound_that_means_nothing_names_its_key(table, words):
    with pytest.raises(UsageError, match=words):
        resource_limits(table, ram_bytes=8 * GIB)


def test_a_containers_bound_counts_when_it_is_less(tmp_path):
    bound, none = tmp_path / "memory.max", tmp_path / "other"
    none.write_text("max\n")
    whole = memory_bytes((str(none), str(tmp_path / "missing")))
    assert whole > 0
    bound.write_text("1048576\n")
    assert memory_bytes((str(bound),)) == 1 << 20

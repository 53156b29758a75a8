"""`[leases]` as people write it."""

import pytest

from swarm.mailbox.errors import UsageError
from swarm.mailbox.protocol.leases import LeaseSettings
from swarm.roles.config.lease_settings import lease_settings
from swarm.roles.config.schema import LeasesTable

GIB = 1 << 30


def test_leases_are_on_and_leave_a_tenth_of_the_memory_to_all_else():
    assert lease_settings(LeasesTable(), ram_bytes=10 * GIB) == LeaseSettings(
        enabled=True, most=0, reserve_bytes=GIB, max_wait_s=1800.0, max_hold_s=1800.0
    )


def test_every_key_is_read():
    table = LeasesTable(
        enabled=False, most=3, reserve_memory="2GiB", command_memory="25%", max_wait="1h",
        max_hold=90, commands={"./ci.sh": "test", "cargo check": "light"},
    )  # fmt: skip
    assert lease_settings(table, ram_bytes=8 * GIB) == LeaseSettings(
        enabled=False, most=3, reserve_bytes=2 * GIB, command_memory_bytes=2 * GIB,
        max_wait_s=3600.0, max_hold_s=90.0, commands={"./ci.sh": "test", "cargo check": "light"},
    )  # fmt: skip


@pytest.mark.parametrize(
    ("table", "words"),
    [
        (LeasesTable(most=-1), "leases.most: must be between 1 and"),
        (LeasesTable(most=5_000), "leases.most: must be between 1 and"),
        (LeasesTable(reserve_memory="lots"), "leases.reserve_memory: 'lots' is not a size"),
        (LeasesTable(reserve_memory="100%"), "leases.reserve_memory: leaves no memory"),
        (LeasesTable(command_memory="1MiB"), "leases.command_memory: must be at least 64MiB"),
        (LeasesTable(max_wait=0), "leases.max_wait: 0 is not a length of time"),
        (LeasesTable(max_hold="soon"), "leases.max_hold: 'soon' is not a length of time"),
        (LeasesTable(commands={" ": "test"}), "leases.commands: ' ' names no command"),
        (LeasesTable(commands={"a\nb": "test"}), "names no command"),
        (LeasesTable(commands={"x" * 201: "test"}), "names no command"),
    ],
)
def test_a_mistake_names_its_key(table, words):
    with pytest.raises(UsageError, match=words):
        lease_settings(table, ram_bytes=8 * GIB)

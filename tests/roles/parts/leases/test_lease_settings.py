"""`[leases]` as people write it."""

import pytest

from swarm.mailbox.base.errors import UsageError
from swarm.mailbox.parts.leases.lease_messages import LeaseSettings
from swarm.roles.parts.leases.lease_settings import check_lease_settings

GIB = 1 << 30


def test_leases_are_on_and_leave_a_tenth_of_the_memory_to_all_else():
    settings = check_lease_settings(LeaseSettings(), ram_bytes=10 * GIB)
    assert (settings.enabled, settings.most) == (True, 0)
    assert (settings.reserve_bytes(10 * GIB), settings.command_bytes(10 * GIB)) == (GIB, None)
    assert (settings.max_wait_s, settings.max_hold_s) == (1800.0, 1800.0)


def test_sizes_and_spans_are_read_as_people_write_them():
    table = LeaseSettings(
        reserve_memory="2GiB", command_memory="25%", max_wait="1h", max_hold=90,
        commands={"./ci.sh": "test", "cargo check": "light"},
    )  # fmt: skip
    settings = check_lease_settings(table, ram_bytes=8 * GIB)
    assert settings == table
    assert settings.reserve_bytes(8 * GIB) == settings.command_bytes(8 * GIB) == 2 * GIB
    assert (settings.max_wait_s, settings.max_hold_s) == (3600.0, 90.0)


@pytest.mark.parametrize(
    ("table", "words"),
    [
        (LeaseSettings(most=-1), "leases.most: must be between 1 and"),
        (LeaseSettings(most=5_000), "leases.most: must be between 1 and"),
        (LeaseSettings(reserve_memory="lots"), "leases.reserve_memory: 'lots' is not a size"),
        (LeaseSettings(reserve_memory="100%"), "leases.reserve_memory: leaves no memory"),
        (LeaseSettings(command_memory="1MiB"), "leases.command_memory: must be at least 64MiB"),
        (LeaseSettings(max_wait=0), "leases.max_wait: 0 is not a length of time"),
        (LeaseSettings(max_hold="soon"), "leases.max_hold: 'soon' is not a length of time"),
        (LeaseSettings(commands={" ": "test"}), "leases.commands: ' ' names no command"),
        (LeaseSettings(commands={"a\nb": "test"}), "names no command"),
        (LeaseSettings(commands={"x" * 201: "test"}), "names no command"),
    ],
)
def test_a_mistake_names_its_key(table, words):
    with pytest.raises(UsageError, match=words):
        check_lease_settings(table, ram_bytes=8 * GIB)

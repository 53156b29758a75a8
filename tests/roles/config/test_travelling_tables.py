"""A key that counts as it stands is written once: what is configured is what travels."""

from typing import get_type_hints

import msgspec
import pytest

from swarm.mailbox.parts.leases.lease_messages import LeaseSettings
from swarm.mailbox.parts.memories.memory_messages import MemorySettings
from swarm.mailbox.protocol.mcp import McpServer, McpServerSettings
from swarm.mailbox.protocol.nodes import HostEnvironment, HostSettings, HostTable
from swarm.mailbox.protocol.spec import ProviderSettings, ProviderSpec, ShellEnvironmentPolicy
from swarm.mailbox.protocol.values.base import with_shared
from swarm.mailbox.protocol.values.limits import Budget, NetworkPolicy, NetworkSettings
from swarm.roles.config.host_settings import HostShellToml, HostToml
from swarm.roles.config.mcp_table import McpServerTable
from swarm.roles.config.schema import Config, NetworkTable, ProviderTable, ShellTable

# What a table says in other words than what travels, and so both name it: a word for a closed list
# and for an open one, a file and its content, absent and empty.
OTHERWISE = {"wire_api", "name", "python_env", "url", "command", "env_key", "key_file"}
SHARED = [
    (McpServerTable, McpServer, McpServerSettings),
    (ProviderTable, ProviderSpec, ProviderSettings),
    (HostToml, HostTable, HostSettings),
    (NetworkTable, NetworkPolicy, NetworkSettings),
]


@pytest.mark.parametrize(("table", "travels", "keys"), SHARED)
def test_no_key_is_written_in_the_table_and_again_in_what_travels(table, travels, keys):
    assert issubclass(table, keys)
    assert issubclass(travels, keys)
    twice = set(table.__annotations__) & set(travels.__annotations__)
    assert twice <= OTHERWISE
    assert not set(keys.__annotations__) & {*table.__annotations__, *travels.__annotations__}


@pytest.mark.parametrize(
    ("key", "struct"),
    [("budget", Budget), ("leases", LeaseSettings), ("memories", bool | MemorySettings)],
)
def test_a_table_whose_keys_all_travel_is_what_travels(key, struct):
    assert get_type_hints(Config)[key] == struct


def test_tables_of_environments_add_nothing_that_has_an_effect():
    assert set(ShellTable.__annotations__) == {"experimental_use_profile"}
    assert issubclass(ShellTable, ShellEnvironmentPolicy)
    assert not HostShellToml.__annotations__
    assert issubclass(HostShellToml, HostEnvironment)


def test_every_shared_key_is_carried_and_the_others_stay():
    table = McpServerTable(args=("a",), network=True, scopes=("s",), sampling="prompt")
    server = with_shared(McpServer(name="n", command="c"), McpServerSettings, table)
    assert server == McpServer(
        name="n", command="c", args=("a",), network=True, scopes=("s",), sampling="prompt"
    )
    assert {
        getattr(server, one) == getattr(table, one) for one in McpServerSettings.__struct_fields__
    } == {True}
    assert type(msgspec.structs.replace(server)) is McpServer

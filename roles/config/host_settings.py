"""Checks the `[hosts.NAME]` tables and turns them into values. No I/O."""

import msgspec

from swarm.mailbox.errors import UsageError
from swarm.mailbox.protocol.nodes import HostTable

_MOST_SLOTS = 1_000


class HostToml(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """`[hosts.NAME]`, swarm's own: machines of one Ray cluster."""

    ray: str  # an address as `ray.init` takes it
    slots: int = 0  # agents on each machine; 0: one for each of its processors
    resources: dict[str, float] = {}  # that Ray reserves on each machine
    labels: dict[str, str] = {}  # only machines with these labels
    python: str = ""  # the interpreter there that has swarm; "": that of Ray's workers
    ship: tuple[str, ...] = ()  # ignored folders that travel, too: names, or patterns of paths
    prepare: tuple[str, ...] = ()  # commands that make ignored folders there, once for each run


def host_tables(tables: dict[str, HostToml]) -> tuple[HostTable, ...]:
    """The tables of a configuration. Raises UsageError that names the key."""
    found: list[HostTable] = []
    for name, table in tables.items():
        if not name or "/" in name or not name.isprintable():
            raise UsageError(f"hosts.{name}: a name is one word without `/`")
        if not table.ray.strip() or not table.ray.isprintable():
            raise UsageError(
                f'hosts.{name}.ray: write the address of a cluster: "auto", "HOST:6379" or '
                '"ray://HOST:10001"'
            )
        if not 0 <= table.slots <= _MOST_SLOTS:
            raise UsageError(f"hosts.{name}.slots: must be between 0 and {_MOST_SLOTS:,}")
        if any(amount < 0 for amount in table.resources.values()):
            raise UsageError(f"hosts.{name}.resources: an amount is never negative")
        if table.python and not table.python.startswith("/"):
            raise UsageError(f"hosts.{name}.python: write an absolute path")
        if not all(command.strip() for command in table.prepare):
            raise UsageError(f"hosts.{name}.prepare: a command is empty")
        found.append(msgspec.convert({"name": name, **msgspec.structs.asdict(table)}, HostTable))
    return tuple(found)

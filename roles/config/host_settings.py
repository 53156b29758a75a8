"""Checks the `[hosts.NAME]` tables and turns them into values. No I/O."""

import re
from collections.abc import Mapping

import msgspec

from swarm.mailbox.base.errors import UsageError
from swarm.mailbox.protocol.nodes import HostEnvironment, HostSettings, HostTable
from swarm.mailbox.protocol.values.base import with_shared

_MOST_SLOTS = 1_000
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)


class HostShellToml(HostEnvironment, forbid_unknown_fields=True):
    """`[hosts.NAME.shell_environment_policy]`: narrows the policy of the run for commands there."""


class HostToml(HostSettings, forbid_unknown_fields=True):
    """`[hosts.NAME]`, swarm's own: machines of one Ray cluster."""

    python_env: str = ""  # a lock of packages, with swarm, that is installed there; a file here
    shell_environment_policy: HostShellToml = HostShellToml()


def host_tables(tables: Mapping[str, HostToml]) -> tuple[HostTable, ...]:
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
        _check_shell(name, table.shell_environment_policy)
        found.append(_table(name, table))
    return tuple(found)


def _check_shell(name: str, shell: HostShellToml) -> None:
    """Raises UsageError."""
    place = f"hosts.{name}.shell_environment_policy"
    for variable, value in shell.set.items():
        if not _VARIABLE.fullmatch(variable) or "\0" in value:
            raise UsageError(f"{place}.set: {variable!r} cannot be set: no name of a variable")
    for pattern in shell.exclude:
        if not pattern.strip() or "=" in pattern or "\0" in pattern:
            raise UsageError(f"{place}.exclude: {pattern!r} is not a pattern for a variable's name")


def _table(name: str, table: HostToml) -> HostTable:
    """Without the lock, which is a file."""
    shell = msgspec.convert(table.shell_environment_policy, HostEnvironment, from_attributes=True)
    return with_shared(HostTable(name=name, ray=table.ray, environment=shell), HostSettings, table)

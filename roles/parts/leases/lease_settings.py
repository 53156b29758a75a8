"""Checks the `[leases]` table. No I/O."""

from collections.abc import Callable
from typing import TypeVar

from swarm.mailbox.base.errors import UsageError
from swarm.mailbox.parts.leases.lease_messages import MAX_LEASE_TEXT, LeaseSettings

_Quantity = TypeVar("_Quantity")
_MOST_LEASES, _MOST_COMMANDS = 1_000, 1_000
_LEAST_BYTES = 64 << 20


def check_lease_settings(table: LeaseSettings, *, ram_bytes: int) -> LeaseSettings:
    """The same table. Raises UsageError that names the key."""
    if not 0 <= table.most <= _MOST_LEASES:
        raise UsageError(
            f"leases.most: must be between 1 and {_MOST_LEASES}, or 0 for one a processor"
        )
    command_bytes = _read("command_memory", lambda: table.command_bytes(ram_bytes))
    if command_bytes is not None and command_bytes < _LEAST_BYTES:
        raise UsageError("leases.command_memory: must be at least 64MiB, or 0 for no own limit")
    if _read("reserve_memory", lambda: table.reserve_bytes(ram_bytes)) >= ram_bytes:
        raise UsageError("leases.reserve_memory: leaves no memory for any command")
    _read("max_wait", lambda: table.max_wait_s)
    _read("max_hold", lambda: table.max_hold_s)
    _check_commands(table)
    return table


def _check_commands(table: LeaseSettings) -> None:
    if len(table.commands) > _MOST_COMMANDS:
        raise UsageError(f"leases.commands: more than {_MOST_COMMANDS} commands")
    for words in table.commands:
        if not words.strip() or len(words) > MAX_LEASE_TEXT or not words.isprintable():
            raise UsageError(
                f"leases.commands: {words!r} names no command; write its first words, "
                'as in "./ci.sh" = "test"'
            )


def _read(key: str, read: Callable[[], _Quantity]) -> _Quantity:
    try:
        return read()
    except UsageError as error:
        raise UsageError(f"leases.{key}: {error}") from error

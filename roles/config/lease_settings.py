"""Checks the `[leases]` table and turns it into values. No I/O."""

from swarm.mailbox.errors import UsageError
from swarm.mailbox.protocol.leases import MAX_LEASE_TEXT, LeaseSettings

from .quantities import parse_duration, parse_size
from .schema import LeasesTable

_MOST_LEASES, _MOST_COMMANDS = 1_000, 1_000
_LEAST_BYTES = 64 << 20


def lease_settings(table: LeasesTable, *, ram_bytes: int) -> LeaseSettings:
    """The settings for this machine. Raises UsageError that names the key."""
    if not 0 <= table.most <= _MOST_LEASES:
        raise UsageError(
            f"leases.most: must be between 1 and {_MOST_LEASES}, or 0 for one a processor"
        )
    command_bytes = _size("command_memory", table.command_memory, ram_bytes)
    if 0 < command_bytes < _LEAST_BYTES:
        raise UsageError("leases.command_memory: must be at least 64MiB, or 0 for no own limit")
    reserve_bytes = _size("reserve_memory", table.reserve_memory, ram_bytes)
    if reserve_bytes >= ram_bytes:
        raise UsageError("leases.reserve_memory: leaves no memory for any command")
    if len(table.commands) > _MOST_COMMANDS:
        raise UsageError(f"leases.commands: more than {_MOST_COMMANDS} commands")
    for words in table.commands:
        if not words.strip() or len(words) > MAX_LEASE_TEXT or not words.isprintable():
            raise UsageError(
                f"leases.commands: {words!r} names no command; write its first words, "
                'as in "./ci.sh" = "test"'
            )
    return LeaseSettings(
        enabled=table.enabled,
        most=table.most,
        reserve_bytes=reserve_bytes,
        max_wait_s=_span("max_wait", table.max_wait),
        max_hold_s=_span("max_hold", table.max_hold),
        commands=table.commands,
        command_memory_bytes=command_bytes or None,
    )


def _size(key: str, text: str | int, ram_bytes: int) -> int:
    try:
        return parse_size(text, whole_bytes=ram_bytes)
    except UsageError as error:
        raise UsageError(f"leases.{key}: {error}") from error


def _span(key: str, text: str | float) -> float:
    try:
        return parse_duration(text)
    except UsageError as error:
        raise UsageError(f"leases.{key}: {error}") from error

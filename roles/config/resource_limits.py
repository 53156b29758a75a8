"""Checks the `[limits]` table and turns it into the limits of this machine. No I/O."""

from swarm.mailbox.base.errors import UsageError
from swarm.mailbox.base.quantities import parse_duration, parse_size
from swarm.mailbox.protocol.values.limits import ResourceLimits

from .schema import LimitsTable

_MIN_BYTES = {"command_memory": 16 << 20, "agent_memory": 128 << 20}
_MIN_PROCESSES = 8


def resource_limits(table: LimitsTable, *, ram_bytes: int) -> ResourceLimits:
    """The limits for this machine. Raises UsageError that names the key.

    A limit too small for anything to run is refused.
    """
    return ResourceLimits(
        command_memory_bytes=_memory("command_memory", table.command_memory, ram_bytes),
        command_processes=_processes("command_processes", table.command_processes),
        command_s=_seconds(table.command_seconds),
        agent_memory_bytes=_memory("agent_memory", table.agent_memory, ram_bytes),
        agent_processes=_processes("agent_processes", table.agent_processes),
    )


def _memory(key: str, text: str | int, ram_bytes: int) -> int | None:
    try:
        size = parse_size(text, whole_bytes=ram_bytes)
    except UsageError as error:
        raise UsageError(f"limits.{key}: {error}") from error
    if 0 < size < _MIN_BYTES[key]:
        least = _MIN_BYTES[key] >> 20
        raise UsageError(f"limits.{key}: must be at least {least}MiB, or 0 for no bound")
    return size or None


def _processes(key: str, count: int) -> int | None:
    if count < 0 or 0 < count < _MIN_PROCESSES:
        raise UsageError(f"limits.{key}: must be at least {_MIN_PROCESSES}, or 0 for no bound")
    return count or None


def _seconds(span: str | float) -> float | None:
    if str(span).strip() in ("0", "0.0"):
        return None
    try:
        return parse_duration(span)
    except UsageError as error:
        raise UsageError(f"limits.command_seconds: {error}, or 0 for no bound") from error

"""Parses lengths of time, sizes, and the `[limits]` table, as people write them. No I/O."""

import re

from swarm.mailbox.errors import UsageError
from swarm.mailbox.protocol.limits import ResourceLimits

from .schema import LimitsTable

_SECONDS = {"d": 86_400.0, "h": 3_600.0, "m": 60.0, "s": 1.0}
_PART = re.compile(r"(\d{1,18}(?:\.\d{1,18})?)([dhms])")
_WHOLE = re.compile(r"(?:\d{1,18}(?:\.\d{1,18})?[dhms])+\Z")
_MAX_S = 366 * 86_400.0
_BYTES = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([kmgt]?)(?:i?b)?\Z")
_SHARE = re.compile(r"(\d+(?:\.\d+)?)\s*%\Z")
_MIN_BYTES = {"command_memory": 16 << 20, "agent_memory": 128 << 20}
_MIN_PROCESSES = 8


def parse_duration(text: str | float) -> float:
    """Seconds, > 0 and at most 366 days. A number without a unit is seconds.

    Raises UsageError that shows valid forms.
    """
    cleaned = str(text).strip().lower()
    seconds = -1.0
    if _WHOLE.match(cleaned):
        seconds = sum(float(number) * _SECONDS[unit] for number, unit in _PART.findall(cleaned))
    elif re.fullmatch(r"\d+(\.\d+)?", cleaned):
        seconds = float(cleaned)
    if not 0 < seconds <= _MAX_S:
        raise UsageError(f"{text!r} is not a length of time; write 90s, 30m, 2h or 1h30m")
    return seconds


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


def parse_size(text: str | int, *, whole_bytes: int) -> int:
    """Bytes: a number, `512MiB`, `8g` (always powers of 1024), or a percentage of `whole_bytes`.

    Raises UsageError that shows valid forms.
    """
    cleaned = str(text).strip().lower()
    if found := _SHARE.match(cleaned):
        share = float(found[1])
        if share <= 100:
            return int(whole_bytes * share / 100)
    elif found := _SIZE.match(cleaned):
        return int(float(found[1]) * _BYTES[found[2]])
    raise UsageError(f"{text!r} is not a size; write 8GiB, 512MiB, 50% or a number of bytes")


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

"""Parses lengths of time and sizes as people write them. No I/O."""

import re

from .errors import UsageError

_SECONDS = {"d": 86_400.0, "h": 3_600.0, "m": 60.0, "s": 1.0}
_PART = re.compile(r"(\d{1,18}(?:\.\d{1,18})?)([dhms])")
_WHOLE = re.compile(r"(?:\d{1,18}(?:\.\d{1,18})?[dhms])+\Z")
_MAX_S = 366 * 86_400.0
_BYTES = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([kmgt]?)(?:i?b)?\Z")
_SHARE = re.compile(r"(\d+(?:\.\d+)?)\s*%\Z")


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


def parse_option(option: str, span: str) -> float:
    """Seconds of an option's value. Raises UsageError that names the option."""
    try:
        return parse_duration(span)
    except UsageError as error:
        raise UsageError(f"{option}: {error}") from error


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

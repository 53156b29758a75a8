"""Parses durations as people write them (`30m`, `1h30m`, `90`) into seconds. No I/O."""

import re

from swarm.mailbox.errors import UsageError

_UNITS = {"d": 86_400.0, "h": 3_600.0, "m": 60.0, "s": 1.0}
_PART = re.compile(r"(\d+(?:\.\d+)?)([dhms])")
_WHOLE = re.compile(r"(?:\d+(?:\.\d+)?[dhms])+\Z")
_MAX_S = 366 * 86_400.0


def parse_duration(text: str | float) -> float:
    """Seconds, > 0 and at most 366 days. A number without a unit is seconds.

    Raises UsageError that shows valid forms.
    """
    words = str(text).strip().lower()
    seconds = -1.0
    if _WHOLE.match(words):
        seconds = sum(float(number) * _UNITS[unit] for number, unit in _PART.findall(words))
    elif re.fullmatch(r"\d+(\.\d+)?", words):
        seconds = float(words)
    if not 0 < seconds <= _MAX_S:
        raise UsageError(f"{text!r} is not a length of time; write 90s, 30m, 2h or 1h30m")
    return seconds

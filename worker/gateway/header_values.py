"""Parse numbers and durations in HTTP headers. Invalid or absurd values become None."""

import re

_SPAN = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,6})?)(ms|s|m|h|d)")
_UNIT_S = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


def parse_number(text: str | None) -> float | None:
    """A number that is not negative and below 1e14."""
    try:
        value = float(text) if text is not None else None
    except ValueError:
        return None
    return value if value is not None and 0.0 <= value < 1e14 else None


def parse_duration_s(text: str) -> float | None:
    """`1s`, `6m0s`, `120ms` → seconds."""
    parts = _SPAN.findall(text)
    return sum(float(number) * _UNIT_S[unit] for number, unit in parts) if parts else None

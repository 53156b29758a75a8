"""Compute delays: backoff, `Retry-After`, rate-limit headers, a delay named in a message. Pure.

A delay that the server names takes precedence over our own; jitter only lengthens it.
"""

import re
from collections.abc import Iterator, Mapping
from datetime import datetime
from email.utils import parsedate_to_datetime

from .header_values import parse_duration_s, parse_number

BASE_DELAY_S = 0.2  # for an attempt that failed by itself (5xx, transport)
PUSH_BACK_BASE_S = 1.0  # for a 429 or an overload without a delay
MAX_DELAY_S = 60.0  # limit of every delay that we choose
MAX_WAIT_S = 30 * 60.0  # of one request over all its attempts; then it fails
MAX_PREVENTIVE_S = 60.0  # limit of a pause after a *success* that used up an allowance
REFILL_SHARE = 0.1  # share of the time until an allowance is full: enough for some requests

_IN_PROSE = re.compile(
    r"(?:try again|retry|available)\s+(?:in|after)\s+(?:about\s+)?"
    r"(?P<number>\d+(?:\.\d+)?)\s*(?P<unit>ms|milliseconds?|s|secs?|seconds?|m|mins?|minutes?)\b",
    re.IGNORECASE,
)


def backoff_s(attempt: int, noise: float, *, base_s: float = BASE_DELAY_S) -> float:
    """The pause after failed attempt number `attempt` (1, 2, …): doubling, capped, ±10 %.

    Args:
        noise: A random number in [0, 1); the jitter.
    """
    return min(MAX_DELAY_S, base_s * 2.0 ** min(attempt - 1, 30)) * (0.9 + 0.2 * noise)


def with_jitter(asked_s: float, noise: float) -> float:
    """A delay that a server named, plus up to 10 %, so that not all requests come back at once."""
    return asked_s * (1.0 + 0.1 * noise)


def asked_delay_s(headers: Mapping[str, str], message: str, now_unix_s: float) -> float | None:
    """The delay that a refusing server names in headers or message; None if it names none.

    Args:
        headers: With lower-case names.
        now_unix_s: The wall clock, for dates.
    """
    if (milliseconds := parse_number(headers.get("retry-after-ms"))) is not None:
        return milliseconds / 1000
    if (after := headers.get("retry-after")) is not None:
        seconds = parse_number(after)
        if seconds is None:
            seconds = _until_date(after, now_unix_s)
        if seconds is not None:
            return max(0.0, seconds)
    if (told := delay_in_prose_s(message)) is not None:
        return told
    return spent_allowance_s(headers, now_unix_s)


def spent_allowance_s(headers: Mapping[str, str], now_unix_s: float) -> float | None:
    """Seconds until a used-up allowance in the headers is refilled; None if none is used up."""
    delays: list[float] = []
    for what in ("requests", "tokens"):
        left = parse_number(headers.get(f"x-ratelimit-remaining-{what}"))
        reset = headers.get(f"x-ratelimit-reset-{what}")
        if left is not None and left <= 0 and reset:
            delays.append(_span_s(reset, now_unix_s) or 0.0)
    left = parse_number(headers.get("x-ratelimit-remaining"))
    if left is not None and left <= 0 and (reset := headers.get("x-ratelimit-reset")):
        delays.append(_span_s(reset, now_unix_s) or 0.0)
    delays += _refill_s(headers, now_unix_s)
    return max(delays) if delays and max(delays) > 0 else None


def _refill_s(headers: Mapping[str, str], now_unix_s: float) -> Iterator[float]:
    """Anthropic's allowances refill evenly; the headers name the time when they are full again."""
    for what in ("requests", "tokens", "input-tokens", "output-tokens"):
        left = parse_number(headers.get(f"anthropic-ratelimit-{what}-remaining"))
        full = headers.get(f"anthropic-ratelimit-{what}-reset")
        if left is not None and left <= 0 and full:
            yield REFILL_SHARE * _until_moment(full, now_unix_s)


def _until_moment(text: str, now_unix_s: float) -> float:
    """Seconds until an RFC 3339 time; 0.0 if it is past or unreadable."""
    try:
        return max(0.0, datetime.fromisoformat(text).timestamp() - now_unix_s)
    except (ValueError, OverflowError):
        return 0.0


def delay_in_prose_s(message: str) -> float | None:
    """`… try again in 1.5s …` → 1.5. Units: ms, s, minutes."""
    found = _IN_PROSE.search(message)
    if found is None:
        return None
    unit = found["unit"].lower()
    scale = 0.001 if unit.startswith(("ms", "milli")) else 60.0 if unit[0] == "m" else 1.0
    return float(found["number"]) * scale


def _until_date(text: str, now_unix_s: float) -> float | None:
    try:
        return parsedate_to_datetime(text).timestamp() - now_unix_s
    except (ValueError, OverflowError):
        return None


def _span_s(text: str, now_unix_s: float) -> float | None:
    """`1s`, `6m0s`, `120ms`, `12.5`, or a time in unix seconds or milliseconds."""
    value = parse_number(text)
    if value is None:
        return parse_duration_s(text)
    if value > 1e11:
        value /= 1000
    return max(0.0, value - now_unix_s) if value > 1e8 else value

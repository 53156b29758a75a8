"""How long to wait: backoff, `Retry-After`, rate-limit headers, a delay in prose. Only numbers.

A server's own word always wins over our guess, and jitter only ever lengthens what a server asked.
"""

import re
from collections.abc import Iterator, Mapping
from datetime import datetime
from email.utils import parsedate_to_datetime

from .header_values import parse_duration_s, parse_number

BASE_DELAY_S = 0.2  # of an attempt that failed by itself (5xx, transport)
PUSH_BACK_BASE_S = 1.0  # of a 429 or overload that names no delay
MAX_DELAY_S = 60.0  # of every delay that we choose
MAX_WAIT_S = 30 * 60.0  # of one request over all its attempts; then the agent hears of it
MAX_PREVENTIVE_S = 60.0  # of a pause that only a spent allowance in a *success* suggests
REFILL_SHARE = 0.1  # of the way to a full allowance: enough for some requests

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
    """A delay that a server asked for, with up to 10 % more, so that not all come back at once."""
    return asked_s * (1.0 + 0.1 * noise)


def asked_delay_s(headers: Mapping[str, str], message: str, now_unix_s: float) -> float | None:
    """The delay that a refusing server asks for in headers or words; None if it names none.

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
    """How long until an allowance that the headers call spent is refilled; None if none is."""
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
    """Anthropic's allowances refill evenly, and name the moment when they are full again."""
    for what in ("requests", "tokens", "input-tokens", "output-tokens"):
        left = parse_number(headers.get(f"anthropic-ratelimit-{what}-remaining"))
        full = headers.get(f"anthropic-ratelimit-{what}-reset")
        if left is not None and left <= 0 and full:
            yield REFILL_SHARE * _until_moment(full, now_unix_s)


def _until_moment(text: str, now_unix_s: float) -> float:
    """Seconds until an RFC 3339 moment; 0.0 for one that is past or cannot be read."""
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
    """`1s`, `6m0s`, `120ms`, `12.5`, or a moment as unix seconds or milliseconds."""
    value = parse_number(text)
    if value is None:
        return parse_duration_s(text)
    if value > 1e11:
        value /= 1000
    return max(0.0, value - now_unix_s) if value > 1e8 else value

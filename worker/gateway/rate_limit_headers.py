"""Parse rate-limit headers: how long to wait, and how much of each allowance is used. Pure.

A delay is named by `Retry-After`, by a used-up allowance, or in the message. Three families of
allowances are known: `x-codex-primary-…` (and other limits of that form),
`x-ratelimit-…-requests` and `-tokens`, `anthropic-ratelimit-…`. Unreadable values are left out.
"""

import re
from collections.abc import Iterator, Mapping
from datetime import datetime
from email.utils import parsedate_to_datetime

from swarm.mailbox.protocol.gateway import LimitWindow

MAX_PREVENTIVE_S = 60.0  # limit of a pause after a *success* that used up an allowance
REFILL_SHARE = 0.1  # share of the time until an allowance is full: enough for some requests
_UNITS = r"(?:ms|milliseconds?|s|secs?|seconds?|m|mins?|minutes?|h|hrs?|hours?|d|days?)"
_NUMBER = r"\d{1,9}(?:\.\d{1,20})?"
_SPANS = rf"{_NUMBER}\s{{0,8}}{_UNITS}(?![a-z])"
_IN_PROSE = re.compile(
    r"(?:(?:try again|retry|available|resets?|renews?)\s{1,8}(?:in|after)|wait(?:\s{1,8}for)?)"
    r"\s{1,8}(?:(?:about|approximately|another)\s{1,8})?"
    rf"(?P<spans>(?:{_NUMBER}\s{{0,8}}{_UNITS}(?=\d)\s{{0,8}})*{_SPANS}"
    rf"(?:\s{{1,8}}(?:and\s{{1,8}})?{_SPANS})*)",
    re.IGNORECASE,
)
_ONE_SPAN = re.compile(rf"(?P<number>{_NUMBER})\s{{0,8}}(?P<unit>{_UNITS})", re.IGNORECASE)
_WINDOW = re.compile(r"x-([a-z0-9-]{1,40})-(primary|secondary)-used-percent\Z")
_KINDS = ("requests", "tokens", "input-tokens", "output-tokens")
_MOST = 8
_SPAN = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,6})?)(ms|s|m|h|d)")
_UNIT_S = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


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
    if (named_s := delay_in_prose_s(message)) is not None:
        return named_s
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
    """`… try again in 7m12s …` → 432. Units: ms, s, minutes, hours, days."""
    found = _IN_PROSE.search(message)
    if found is None:
        return None
    spans = _ONE_SPAN.finditer(found["spans"])
    return sum(float(one["number"]) * _scale(one["unit"].lower()) for one in spans)


def _scale(unit: str) -> float:
    """Seconds of a unit."""
    if unit.startswith(("ms", "milli")):
        return 0.001
    return {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}[unit[0]]


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


def read_rate_limits(headers: Mapping[str, str], now_unix_s: float) -> tuple[LimitWindow, ...]:
    """The windows in the headers, sorted by name.

    Args:
        headers: With lower-case names.
        now_unix_s: The wall clock: some servers send durations, others times.
    """
    found = [*_named_windows(headers), *_counted(headers, now_unix_s)]
    return tuple(sorted(found, key=lambda one: one.name)[:_MOST])


def _named_windows(headers: Mapping[str, str]) -> list[LimitWindow]:
    found: list[LimitWindow] = []
    for name in headers:
        match = _WINDOW.match(name)
        used = parse_number(headers[name]) if match else None
        if match is None or used is None:
            continue
        start = name.removesuffix("used-percent")
        minutes = parse_number(headers.get(f"{start}window-minutes"))
        reset = parse_number(headers.get(f"{start}reset-at"))
        if not (used or minutes or reset):
            continue  # servers send zeros for a window that does not apply
        limit = "" if match[1] == "codex" else f"{match[1]} "
        window = LimitWindow(
            name=f"{limit}{match[2]}", used_percent=min(used, 100.0), window_minutes=minutes,
            resets_at_unix_s=reset,
        )  # fmt: skip
        found.append(window)
    return found


def _counted(headers: Mapping[str, str], now_unix_s: float) -> list[LimitWindow]:
    found: list[LimitWindow] = []
    for kind in _KINDS:
        for names in (
            ("x-ratelimit-limit-{}", "x-ratelimit-remaining-{}", "x-ratelimit-reset-{}"),
            (
                "anthropic-ratelimit-{}-limit",
                "anthropic-ratelimit-{}-remaining",
                "anthropic-ratelimit-{}-reset",
            ),
        ):
            limit, left, reset = (headers.get(name.format(kind)) for name in names)
            most, remaining = parse_number(limit), parse_number(left)
            if not most or remaining is None:
                continue
            used = 100.0 * (1 - min(remaining / most, 1.0))
            moment = None if reset is None else _moment(reset, now_unix_s)
            window = LimitWindow(
                name=kind.replace("-", " "), used_percent=round(used, 1), resets_at_unix_s=moment
            )
            found.append(window)
            break
    return found


def _moment(text: str, now_unix_s: float) -> float | None:
    """A duration (`6m0s`, `1.5`), unix seconds, or an RFC 3339 date → unix seconds."""
    value = parse_number(text)
    if value is not None:
        return value if value > 1e8 else now_unix_s + value
    if (span := parse_duration_s(text)) is not None:
        return now_unix_s + span
    try:
        return datetime.fromisoformat(text).timestamp()
    except (ValueError, OverflowError, OSError):
        return None


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

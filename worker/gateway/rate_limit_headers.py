"""Parse rate-limit headers: the account's windows, and how much of each is used. No I/O.

Three families of names are known: `x-codex-primary-…` (and other limits of that form),
`x-ratelimit-…-requests` and `-tokens`, `anthropic-ratelimit-…`. Unreadable values are left out.
"""

import re
from collections.abc import Mapping
from datetime import datetime

from swarm.mailbox.protocol.gateway import LimitWindow

from .header_values import parse_duration_s, parse_number

_WINDOW = re.compile(r"x-([a-z0-9-]{1,40})-(primary|secondary)-used-percent\Z")
_KINDS = ("requests", "tokens", "input-tokens", "output-tokens")
_MOST = 8


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

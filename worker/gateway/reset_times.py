"""When a limit resets, as servers say it: in fields of an error, in headers, in words. Pure.

`reset_times.toml` beside this file holds their names and words. A time that cannot be read, has
passed, or is over a year away is none.
"""

import re
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from email.utils import parsedate_to_datetime
from functools import cache
from pathlib import Path
from typing import Literal, cast
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import msgspec

from .rate_limit_headers import delay_in_prose_s, parse_duration_s, parse_number, read_rate_limits

_MOST_S = 366 * 86400.0
_MOST_DEPTH, _MOST_NODES = 8, 2_000
_REACHED = frozenset({"rejected", "exceeded", "blocked", "limited", "exhausted"})
_decode = msgspec.json.Decoder().decode
_SIGNS = re.compile(r"[_\-\s]")
_ORDINAL = re.compile(r"(?<=\d)(?:st|nd|rd|th)\b", re.IGNORECASE)
_CLOCK = re.compile(r"(\d{1,2})(?::(\d\d))? ?(am|pm)(?: ?\(([^)]+)\))?", re.IGNORECASE)

Form = Literal["moment", "span", "clock"]


class _Line(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    form: Form
    source: str
    names: tuple[str, ...] = ()
    status: str = ""
    text: str = ""
    utc_offset_hours: float = 0.0


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    fields: tuple[_Line, ...]
    headers: tuple[_Line, ...]
    texts: tuple[_Line, ...]


@cache
def load_reset_times() -> _File:
    """The table."""
    data = tomllib.loads(Path(__file__).with_name("reset_times.toml").read_text("utf-8"))
    return msgspec.convert(data, _File)


@cache
def _compiled(text: str) -> re.Pattern[str]:
    return re.compile(text, re.IGNORECASE)


def read_reset_time(
    headers: Mapping[str, str], body: bytes, said: str, now_unix_s: float
) -> float | None:
    """When the limit that was reached resets, in unix seconds; None if the server does not say.

    Args:
        headers: With lower-case names.
        body: Of the error.
        said: Its texts.
        now_unix_s: The wall clock.
    """
    readings = (_in_body(body, now_unix_s), _in_headers(headers, now_unix_s),
                _in_words(said, now_unix_s), _retry_after(headers, now_unix_s))  # fmt: skip
    for found in readings:
        ahead = [moment for moment in found if 0 < moment - now_unix_s <= _MOST_S]
        if ahead:
            return max(ahead)  # of several limits that were reached the last one counts
    return None


def _in_body(body: bytes, now: float) -> Iterator[float]:
    try:
        value = cast("object", _decode(body))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return
    forms = {name: line for line in load_reset_times().fields for name in line.names}
    found: dict[str, list[float]] = {}
    for name, inner in _leaves(value):
        if (line := forms.get(_SIGNS.sub("", name).lower())) is not None:
            moment = _moment_of(str(inner), line, now)
            if moment is not None:
                found.setdefault(line.form, []).append(moment)
    yield from found.get("moment") or found.get("span") or []


def _leaves(value: object) -> Iterator[tuple[str, str | int | float]]:
    """The named texts and numbers of a body, the outer ones first."""
    level: list[object] = [value]
    for _ in range(_MOST_DEPTH):
        inner: list[object] = []
        for one in level[:_MOST_NODES]:
            if isinstance(one, list):
                inner += cast("list[object]", one)
            if isinstance(one, dict):
                table = cast("dict[str, object]", one)
                inner += table.values()
                for name, leaf in table.items():
                    if isinstance(leaf, str | int | float) and not isinstance(leaf, bool):
                        yield name, leaf
        level = inner


def _in_headers(headers: Mapping[str, str], now: float) -> Iterator[float]:
    for line in load_reset_times().headers:
        is_other = bool(line.status) and headers.get(line.status, "") not in _REACHED
        for name in () if is_other else line.names:
            if (moment := _moment_of(headers.get(name, ""), line, now)) is not None:
                yield moment
    for window in read_rate_limits(headers, now):
        if window.used_percent >= 100 and window.resets_at_unix_s is not None:
            yield window.resets_at_unix_s


def _retry_after(headers: Mapping[str, str], now: float) -> Iterator[float]:
    after = headers.get("retry-after", "")
    if (seconds := parse_number(after)) is not None:
        yield now + seconds
    with suppress(ValueError, OverflowError, TypeError):
        yield parsedate_to_datetime(after).timestamp()


def _in_words(said: str, now: float) -> Iterator[float]:
    for line in load_reset_times().texts:
        if (found := _compiled(line.text).search(said)) is not None:
            moment = _moment_of(found["moment"], line, now)
            if moment is not None and moment > now:
                yield moment
                return
    if (delay_s := delay_in_prose_s(said)) is not None:
        yield now + delay_s


def _moment_of(text: str, line: _Line, now: float) -> float | None:
    match line.form:
        case "moment":
            return _date(text.strip(), timezone(timedelta(hours=line.utc_offset_hours)), now)
        case "span":
            number = parse_number(text)
            span_s = parse_duration_s(text) if number is None else number
            return None if span_s is None else now + span_s
        case "clock":
            return _next_clock(text, now)


def _date(text: str, zone: tzinfo, now: float) -> float | None:
    number = parse_number(text)
    if number is not None:
        seconds = number / 1000 if number > 1e11 else number
        return seconds if seconds > 1e8 else now + seconds
    plain = re.sub(r" ?(?:utc|gmt)$", "+00:00", _ORDINAL.sub("", text), flags=re.IGNORECASE)
    words = plain.replace(",", "").replace(" at ", " ").replace(".", "", 1)
    moment: datetime | None = None
    with suppress(ValueError):
        moment = datetime.fromisoformat(re.sub(r" (?=[+-]\d\d:?\d\d$)", "", plain))
    for form in ("%b %d %Y %I:%M %p", "%B %d %Y %I:%M %p", "%b %d %Y %H:%M", "%B %d %Y %H:%M"):
        with suppress(ValueError):
            moment = moment or datetime.strptime(words, form)
    if moment is None:
        span_s = parse_duration_s(text)
        return None if span_s is None else now + span_s
    with suppress(ValueError, OverflowError, OSError):
        return (moment if moment.tzinfo else moment.replace(tzinfo=zone)).timestamp()
    return None


def _next_clock(text: str, now: float) -> float | None:
    """`3pm`, `2:50am (Asia/Muscat)`: the next time that a clock there shows this."""
    if (found := _CLOCK.match(text)) is None:
        return None
    zone: tzinfo = UTC
    with suppress(ZoneInfoNotFoundError, ValueError, OSError):
        zone = ZoneInfo(found[4]) if found[4] else UTC
    if not 1 <= int(found[1]) <= 12:
        return None
    hour = int(found[1]) % 12 + (12 if found[3].lower() == "pm" else 0)
    today = datetime.fromtimestamp(now, zone)
    with suppress(ValueError):
        moment = today.replace(hour=hour, minute=int(found[2] or 0), second=0, microsecond=0)
        return (moment if moment > today else moment + timedelta(days=1)).timestamp()
    return None


def describe_reset(resets_at_unix_s: float | None) -> str:
    """`; it resets at 2026-11-28 18:00 UTC`; "" if that is not known."""
    if resets_at_unix_s is None:
        return ""
    moment = datetime.fromtimestamp(resets_at_unix_s, UTC)
    return f"; it resets at {moment:%Y-%m-%d %H:%M} UTC"

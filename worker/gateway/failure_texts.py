"""The table of what servers say when they refuse: text → kind of failure, with the window it names.

`failure_texts.toml` beside this file holds the sayings. They are read at the first refusal.
"""

import re
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Literal, cast

import msgspec

MAX_SAID_CHARS = 8_000
_MOST_DEPTH = 8
_ECHOES = frozenset({"input", "body", "request", "messages", "prompt", "ctx", "headers"})

TextKind = Literal["context_window_exceeded", "usage_limit_exceeded", "bad_request"]
_decode_json = msgspec.json.Decoder().decode
# What only speaks of a size: shortening the conversation may help, and is tried once.
_SIZE = re.compile(
    r"\btokens?\b|\blength\b|too (?:long|large|big|many)|\bsize\b|exceed|maximum|larger? than|"
    r"context (?:window|limit)|into .{0,24}context|kv.?cache|at most \d+|\bcharacters\b|"
    r"zu (?:lang|groß)|trop long|demasiado larg|troppo lung|слишком|токен|"
    r"过长|過長|超过|超過|超出|太长|長すぎ|トークン|토큰|초과|너무 (?:길|깁|긴|큽)",
    re.IGNORECASE,
)
# A size of something that shortening the conversation does not change.
_SIZE_OF_A_PART = re.compile(
    r"image|\bpixels?\b|\bfile\b|\bstop\b|max_(?:output_|completion_)?tokens|(?:output|completion)"
    r" tokens|\btools?\b|\bfunctions?\b|\bname\b|description|call_?id|\bheaders?\b|api key|"
    r"cache_control|thinking|budget_tokens|metadata|prompt_cache_key|schema",
    re.IGNORECASE,
)


class FailureText(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One line of the table."""

    kind: TextKind
    text: str
    source: str
    codes: tuple[str, ...] = ()
    unless_delay: bool = False


class SpentText(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What servers say of a limit that no waiting lifts."""

    text: str
    source: str
    codes: tuple[str, ...] = ()


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    texts: tuple[FailureText, ...]
    never_resets: tuple[SpentText, ...]


class TextReading(msgspec.Struct, frozen=True):
    """What a text means, and the window in tokens that it names."""

    kind: TextKind
    window_tokens: int | None = None


@cache
def _compiled(text: str) -> re.Pattern[str]:
    return re.compile(text, re.IGNORECASE | re.DOTALL)


@cache
def _load() -> _File:
    data = tomllib.loads(Path(__file__).with_name("failure_texts.toml").read_text("utf-8"))
    return msgspec.convert(data, _File)


def load_failure_texts() -> tuple[FailureText, ...]:
    """The lines of the table, in their order."""
    return _load().texts


def never_resets(said: str, kinds: frozenset[str] = frozenset()) -> bool:
    """True for credit that is spent, a plan without the service, an account to be paid first.

    Args:
        said: The texts of the error.
        kinds: Its `code` and its `type`.
    """
    return any(
        _compiled(line.text).search(said) is not None or not kinds.isdisjoint(line.codes)
        for line in _load().never_resets
    )


def read_failure_text(
    said: str, kinds: frozenset[str] = frozenset(), *, is_delayed: bool = False
) -> TextReading | None:
    """The first line of the table that fits; None if none does.

    Args:
        said: The texts of the error.
        kinds: Its `code` and its `type`.
        is_delayed: The server says that it can be asked again within half an hour.
    """
    kind: TextKind | None = None
    for line in load_failure_texts():
        if (line.unless_delay and is_delayed) or kind not in {None, line.kind}:
            continue
        found = _compiled(line.text).search(said)
        if found is None and kinds.isdisjoint(line.codes):
            continue
        kind = line.kind
        if (window := _window(found)) is not None:
            return TextReading(kind=kind, window_tokens=window)
    return None if kind is None else TextReading(kind=kind)


def _window(found: re.Match[str] | None) -> int | None:
    for number in () if found is None else found.groupdict().values():
        if number:
            return int(number.replace(",", "")) or None
    return None


def may_be_too_long(status: int | None, said: str) -> bool:
    """True if this refusal may mean that the conversation is too long, in words that nobody knows.

    So does each 413: the request's body is too large for the server, or for a proxy before it.
    """
    if status == 413:
        return _SIZE_OF_A_PART.search(said) is None or "body" in said.lower()
    return (
        status in {400, 422}
        and _SIZE.search(said) is not None
        and _SIZE_OF_A_PART.search(said) is None
    )


def texts_of_error(body: bytes) -> str:
    """All texts of an error's body, without what it repeats of the request."""
    try:
        value = cast("object", _decode_json(body))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return body[:MAX_SAID_CHARS].decode("utf-8", "replace")
    pieces: list[str] = []
    size = 0
    for text in _texts(value, 0):
        pieces.append(text)
        size += len(text) + 1
        if size > MAX_SAID_CHARS:
            break
    return "\n".join(pieces)[:MAX_SAID_CHARS]


def _texts(value: object, depth: int) -> Iterator[str]:
    if depth > _MOST_DEPTH:
        return
    match value:
        case str():
            yield value
        case bool() | None:
            return
        case int() | float():
            yield str(value)
        case dict():
            for name, inner in cast("dict[str, object]", value).items():
                if name not in _ECHOES:
                    yield from _texts(inner, depth + 1)
        case list():
            listed = cast("list[object]", value)
            if listed and all(isinstance(one, str | int) for one in listed):
                yield ".".join(str(one) for one in listed)  # a place, as in `body.messages.0`
                return
            for inner in listed:
                yield from _texts(inner, depth + 1)
        case _:
            return

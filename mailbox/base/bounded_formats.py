"""Parses TOML and JSON that others wrote: bounded in size, depth and time. Pure.

Parsers of libraries have inputs that cost the square of their length: TOML's dotted keys, YAML's
numbers with colons, its directives and nested brackets. These are refused here, before they cost
anything, and text that is nested too deeply is an error of the text like any other. Whoever reads
such a text from outside does it here (a test looks for others).
"""

import re
import tomllib
from collections.abc import Callable
from typing import TypeVar

import msgspec

T = TypeVar("T")
D = TypeVar("D")
MAX_CHARS = 4 << 20  # of any text; readers of files have a smaller limit of their own
MAX_KEY_PARTS = 32  # of a dotted key: `a.b.c` has three
MAX_DEPTH = 64
_TOML_PIECE = re.compile(
    r'"""(?:[^"\\]|\\[\s\S]|"(?!""))*+"""|' + r"'''(?:[^']|'(?!''))*+'''|"
    r'"(?:[^"\\\n]|\\.)*+"|' + r"'[^'\n]*+'|#[^\n]*+|[^\"'#.=,{}\[\]\n]++|[\s\S]"
)
_KEY_ENDS = frozenset("=,{}[]\n")
_QUOTES = frozenset(('"', "'", '""', "''"))


class UnreadableText(ValueError):
    """A text is too large, nested too deeply, or no text of its format.

    `line` counts from 0; None: of the whole text.
    """

    def __init__(self, message: str, *, line: int | None = None) -> None:
        super().__init__(message)
        self.line = line


def parse_toml_text(text: str) -> dict[str, object]:
    """Raises tomllib.TOMLDecodeError, or another ValueError if a bound is passed."""
    check_size(text)
    if longest_key(text) > MAX_KEY_PARTS:
        raise UnreadableText(f"a key has more than {MAX_KEY_PARTS} parts")
    try:
        return tomllib.loads(text)
    except RecursionError as error:
        raise UnreadableText("nested too deeply") from error


def longest_key(text: str) -> int:
    """How many parts the longest dotted key of a TOML text has, or more. Linear."""
    if not any(line.count(".") >= MAX_KEY_PARTS for line in text.split("\n")):
        return 1  # a key stands in one line
    longest = parts = 1
    for found in _TOML_PIECE.finditer(text):
        piece = found[0]
        if piece == ".":
            parts += 1
            longest = max(longest, parts)
        elif piece in _KEY_ENDS:
            parts = 1
        elif piece in _QUOTES and (len(piece) == 1 or text.startswith(piece[0], found.end())):
            break  # a text without an end: the parser refuses it, and reads nothing behind it
    return longest


def decode_json(data: str | bytes | msgspec.Raw) -> object:
    """Raises msgspec.DecodeError, also for text that is nested too deeply."""
    try:
        return msgspec.json.decode(data)
    except RecursionError as error:
        raise msgspec.DecodeError("nested too deeply") from error


def decode_json_as(data: str | bytes | msgspec.Raw, kind: type[T]) -> T:
    """As `decode_json`. Raises msgspec.ValidationError if it is no `kind`."""
    try:
        return msgspec.json.decode(data, type=kind)
    except RecursionError as error:
        raise msgspec.DecodeError("nested too deeply") from error


def depth_checked(decode: Callable[[D], T]) -> Callable[[D], T]:
    """The same decoder; text that is nested too deeply is a msgspec.DecodeError."""

    def checked(data: D) -> T:
        try:
            return decode(data)
        except RecursionError as error:
            raise msgspec.DecodeError("nested too deeply") from error

    return checked


def check_size(text: str, most_chars: int = MAX_CHARS) -> None:
    """Raises UnreadableText for a longer text."""
    if len(text) > most_chars:
        raise UnreadableText(f"more than {most_chars >> 20} MiB")

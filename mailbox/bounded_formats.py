"""Parses TOML, JSON and YAML that others wrote: bounded in size, depth and time. Pure.

Parsers of libraries have inputs that cost the square of their length: TOML's dotted keys, YAML's
numbers with colons, its directives and nested brackets. These are refused here, before they cost
anything, and text that is nested too deeply is an error of the text like any other. Whoever reads
such a text from outside does it here (a test looks for others).
"""

import re
import tomllib
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, TypeVar, cast

import msgspec

if TYPE_CHECKING:
    import yaml

T = TypeVar("T")
D = TypeVar("D")
MAX_CHARS = 4 << 20  # of any text; readers of files have a smaller limit of their own
MAX_KEY_PARTS = 32  # of a dotted key: `a.b.c` has three
MAX_DEPTH = 64
_MAX_NUMBER_CHARS = 128
_MAX_DIRECTIVES = 16
_TOML_PIECE = re.compile(
    r'"""(?:[^"\\]|\\[\s\S]|"(?!""))*+"""|' + r"'''(?:[^']|'(?!''))*+'''|"
    r'"(?:[^"\\\n]|\\.)*+"|' + r"'[^'\n]*+'|#[^\n]*+|[^\"'#.=,{}\[\]\n]++|[\s\S]"
)
_NUMBER = re.compile(r"[-+_:.]*+[0-9][-+_:.0-9]*+")
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
    _check_size(text)
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


def parse_yaml_text(text: str) -> object:
    """The value of one YAML document. Raises yaml.YAMLError, or ValueError if a bound is passed."""
    return compose_yaml_text(text)[1]


def compose_yaml_text(
    text: str, *, most_chars: int = MAX_CHARS
) -> "tuple[yaml.Node | None, object]":
    """The tree of a YAML document, which knows the lines, and its value; None and None if empty.

    Raises yaml.YAMLError for what is no YAML, and ValueError for YAML that is too large or nested
    too deeply, or has aliases or long numbers. An alias can multiply its anchor without end.
    """
    import yaml  # takes 15 ms

    kind = cast("type[yaml.SafeLoader]", getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    _check_size(text, most_chars)
    if text.count("\n%") + text.startswith("%") > _MAX_DIRECTIVES:
        raise UnreadableText(f"more than {_MAX_DIRECTIVES} directives (lines that begin with %)")
    _check_events(yaml.parse(text, kind))
    loader = kind(text)
    try:
        node = loader.get_single_node()
        return node, None if node is None else loader.construct_document(node)
    except RecursionError as error:
        raise UnreadableText("nested too deeply") from error
    finally:
        loader.dispose()


def _check_events(events: "Iterable[yaml.Event]") -> None:
    import yaml

    depth = 0
    for event in events:
        if isinstance(event, yaml.AliasEvent):
            line = event.start_mark.line if event.start_mark else None
            raise UnreadableText("aliases (*name) are not allowed", line=line)
        if isinstance(event, (yaml.MappingStartEvent, yaml.SequenceStartEvent)):
            depth += 1
            if depth > MAX_DEPTH:
                raise UnreadableText(f"nested more than {MAX_DEPTH} levels deep")
        elif isinstance(event, (yaml.MappingEndEvent, yaml.SequenceEndEvent)):
            depth -= 1
        elif isinstance(event, yaml.ScalarEvent) and _is_long_number(event):
            raise UnreadableText(f"a number has more than {_MAX_NUMBER_CHARS} characters")


def _is_long_number(event: "yaml.ScalarEvent") -> bool:
    """True if YAML might compute a number from this: `1:02:03` counts in sixties."""
    if len(event.value) <= _MAX_NUMBER_CHARS or _NUMBER.fullmatch(event.value) is None:
        return False
    return not event.style or event.tag is not None


def _check_size(text: str, most_chars: int = MAX_CHARS) -> None:
    if len(text) > most_chars:
        raise UnreadableText(f"more than {most_chars >> 20} MiB")

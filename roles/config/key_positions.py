"""Finds the line and column of each key in a TOML text. No I/O.

TOML parsers keep no positions. This scanner runs on text that a parser has accepted, so it checks
nothing. It is used only for error messages and `config list`, never during a normal start.
"""

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import NamedTuple

KeyPath = tuple[str, ...]
ANY_KEY = "*"  # in a wanted path: matches any key

_BLANK = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*")
_SPACE = re.compile(r"[ \t]*")
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
_BARE_VALUE = re.compile(r"[^,\]}\n#]*")
_BASIC = re.compile(r'"(?:[^"\\\n]|\\.)*"')
_LITERAL = re.compile(r"'[^'\n]*'")
_LONG_BASIC = re.compile(r'"""(?:[^"\\]|\\.|"(?!""))*"""(?:"{1,2}(?!"))?', re.DOTALL)
_LONG_LITERAL = re.compile(r"'''(?:[^']|'(?!''))*'''(?:'{1,2}(?!'))?", re.DOTALL)
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|(.))", re.DOTALL)
_SIGNS = {"b": "\b", "t": "\t", "n": "\n", "f": "\f", "r": "\r"}


class TextPosition(NamedTuple):
    """Line and column, both counted from 1."""

    line: int
    column: int


class _InvalidToml(Exception):
    """The text is not valid TOML; positions found so far are kept."""


@lru_cache(maxsize=8)  # one text is asked about once for each of its faults
def find_key_positions(text: str) -> Mapping[KeyPath, TextPosition]:
    """The position of every table and key, at its first occurrence.

    Entries of an array have the position of the array's key. Never raises. Takes linear time.
    """
    found: dict[KeyPath, TextPosition] = {}
    walk = _TomlScanner(text)
    line, counted = 1, 0
    try:
        for path, at in walk.statements():  # in the order of the text
            line, counted = line + text.count("\n", counted, at), at
            if path not in found:
                found[path] = TextPosition(line, at - text.rfind("\n", 0, at))
    except (_InvalidToml, RecursionError):
        pass
    return found


def find_position(places: Mapping[KeyPath, TextPosition], wanted: KeyPath) -> TextPosition | None:
    """The position of a key, or of the innermost known table above it.

    `ANY_KEY` in `wanted` matches any key.
    """
    for length in range(len(wanted), 0, -1):
        steps = wanted[:length]
        if (place := places.get(steps)) is not None:
            return place
        for path, place in places.items() if ANY_KEY in steps else ():
            if len(path) == length and all(
                step in (ANY_KEY, own) for step, own in zip(steps, path, strict=True)
            ):
                return place
    return None


class _TomlScanner:
    """One pass over a text. Every method leaves `at` after the text that it has read."""

    def __init__(self, text: str) -> None:
        self.text, self.at = text, 0

    def statements(self) -> Iterator[tuple[KeyPath, int]]:
        table: KeyPath = ()
        while True:
            self._skip(_BLANK)
            if self.at >= len(self.text):
                return
            start = self.at
            if self.text[start] == "[":
                self._skip(re.compile(r"\[\[?"))
                table = self._key()
                self._skip(re.compile(r"\]\]?"))
                yield from self._prefixes((), table, start)
            else:
                yield from self._pair(table)

    def _pair(self, table: KeyPath) -> Iterator[tuple[KeyPath, int]]:
        start = self.at
        key = self._key()
        self._take("=")
        self._skip(_SPACE)
        yield from self._prefixes(table, key, start)
        yield from self._value((*table, *key))

    @staticmethod
    def _prefixes(table: KeyPath, key: KeyPath, at: int) -> Iterator[tuple[KeyPath, int]]:
        for length in range(1, len(key) + 1):
            yield (*table, *key[:length]), at

    def _key(self) -> KeyPath:
        steps: list[str] = []
        while True:
            self._skip(_SPACE)
            steps.append(self._key_step())
            self._skip(_SPACE)
            if self.text[self.at : self.at + 1] != ".":
                return tuple(steps)
            self.at += 1

    def _key_step(self) -> str:
        match self.text[self.at : self.at + 1]:
            case '"':
                return _unescape(self._match(_BASIC)[1:-1])
            case "'":
                return self._match(_LITERAL)[1:-1]
            case _:
                return self._match(_BARE_KEY)

    def _value(self, path: KeyPath) -> Iterator[tuple[KeyPath, int]]:
        rest = self.text[self.at : self.at + 3]
        if rest == '"""':
            self._match(_LONG_BASIC)
        elif rest == "'''":
            self._match(_LONG_LITERAL)
        elif rest[:1] == '"':
            self._match(_BASIC)
        elif rest[:1] == "'":
            self._match(_LITERAL)
        elif rest[:1] in ("[", "{"):
            yield from self._group(path, closes="]" if rest[:1] == "[" else "}")
        else:
            self._match(_BARE_VALUE)

    def _group(self, path: KeyPath, *, closes: str) -> Iterator[tuple[KeyPath, int]]:
        """Scan an array or an inline table."""
        self.at += 1
        while True:
            self._skip(_BLANK)
            if self.text[self.at : self.at + 1] == closes:
                self.at += 1
                return
            if closes == "}":
                yield from self._pair(path)
            else:
                yield from self._value(path)
            self._skip(_BLANK)
            if self.text[self.at : self.at + 1] == ",":
                self.at += 1
            elif self.text[self.at : self.at + 1] != closes:
                raise _InvalidToml

    def _skip(self, pattern: re.Pattern[str]) -> None:
        if found := pattern.match(self.text, self.at):
            self.at = found.end()

    def _take(self, sign: str) -> None:
        if self.text[self.at : self.at + 1] != sign:
            raise _InvalidToml
        self.at += 1

    def _match(self, pattern: re.Pattern[str]) -> str:
        found = pattern.match(self.text, self.at)
        if found is None:
            raise _InvalidToml
        self.at = found.end()
        return found[0]


def _unescape(text: str) -> str:
    def sign(found: re.Match[str]) -> str:
        code = found[1] or found[2]
        return chr(int(code, 16)) if code else _SIGNS.get(found[3], found[3])

    return _ESCAPE.sub(sign, text)

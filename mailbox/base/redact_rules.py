"""Patterns of secrets: the rules of `secret_rules.toml`, compiled on first use.

The kinds of secrets are data, each with its source. `may_match` looks at encoded text; when it
returns False, no rule matches the decoded text. The time is linear in the text, whatever it holds:
patterns are bounded in length, and what may be long is scanned once (`TextScan`).
"""

import re
import tomllib
from collections.abc import Iterator
from functools import cache, cached_property
from pathlib import Path
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from .linear_scan import TextScan

_FILE = Path(__file__).with_name("secret_rules.toml")
_NAMES = "@NAMES@"
_SHORT_PREFIX_CHARS = 5  # a shorter prefix also occurs in ordinary words: task-, half_
_RUN = r"[A-Za-z0-9_.-]"
_RUN_CHARS = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-")
# Minimum part of a body within the run, if the body may contain other characters.
_MIN_RUN_CHARS = 8
_MAX_TOKEN_CHARS = 512  # how much of a possible token is checked first
_MAX_RUN_CHARS = 256  # in a longer run of characters, a short prefix is chance
# What may precede a word without being part of it: an escape of JSON, a URL or a terminal.
_ESCAPE = re.compile(
    r"(?:\\[nrtbfv0]|\\u[0-9A-Fa-f]{4}|\\x[0-9A-Fa-f]{2}|%[0-9A-Fa-f]{2}|\[[0-9;]*m)\Z"
)
_PART = "A-Za-z0-9_-"
_KEY_NAME = r"(?:[A-Z0-9]{1,32} ){0,8}PRIVATE KEY(?: BLOCK)?-----"
_KEY_MATERIAL = (
    r"""[\s\\nrt"'+,>|#*]{0,32}"""
    r"(?:(?=[a-z]{0,2}[A-Z0-9+/])[A-Za-z0-9+/=]{3}|[A-Z][A-Za-z-]{1,64}: )"
)
KEY_HEADER = "-----BEGIN"
KEY_FOOTER = re.compile(rf"-----END {_KEY_NAME}")
PRIVATE_KEY = re.compile(
    rf"{KEY_HEADER} {_KEY_NAME}(?={_KEY_MATERIAL})"
    rf"(?:(?s:.){{0,65536}}?{KEY_FOOTER.pattern}|(?s:.)*)"
)
KEY_HEADER_LINE = re.compile(rf"{KEY_HEADER} {_KEY_NAME}")
KEY_MATERIAL = re.compile(_KEY_MATERIAL)


class TokenPart(NamedTuple):
    """A part of a token: what it begins with, and how many characters follow at least."""

    begins: str
    least: int


class TokenRule(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A secret recognized by its prefix. See the head of the data file."""

    name: str
    begins: tuple[str, ...]
    body: str
    least: int
    parts: tuple[TokenPart, ...] = ()
    digit: bool = False

    @property
    def kinds(self) -> tuple[str, ...]:
        """The character kinds that the body allows; a random token contains each of them."""
        kinds = {"0": "[0-9]", "A": "[A-Z]", "a": "[a-z]"}
        inside = re.compile(f"[{self.body}]")
        return tuple(kind for sign, kind in kinds.items() if inside.match(sign))

    def find_end(self, scan: TextScan, at: int) -> int | None:
        """The end of a token whose prefix ends at `at`; None if no token begins there."""
        if not self.parts:
            end = scan.run_end(self.body, at)
            return end if end - at >= self.least else None
        for part in self.parts:
            if not scan.text.startswith(part.begins, at):
                return None
            at += len(part.begins)
            end = scan.run_end(_PART, at)
            if end - at < part.least:
                return None
            at = end
        return at


class MarkerRule(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A secret recognized by what precedes it. See the head of the data file."""

    name: str
    hints: tuple[str, ...]
    marker: str
    value: str
    least: int
    begins: str = ""
    between: str = ""
    then: str = ""
    digit: bool = False

    @property
    def head(self) -> str:
        """A pattern for the marker and the first character of the value."""
        return f"{self.marker}(?P<hidden>{self.begins or f'[{self.value}]'})"

    def find_end(self, scan: TextScan, start: int, first: int) -> int | None:
        """The end of a value from `start`, whose first characters end at `first`."""
        end, least = scan.run_end(self.value, first), first + self.least - 1
        if end < least or (self.digit and not scan.holds_digit(start, end)):
            return None
        if not self.then:
            return end
        if self.between:
            follows = _compiled(f"{self.between}{self.then}").match(scan.text, end)
            return None if follows is None else end
        last = scan.text.rfind(self.then, least, end + len(self.then))
        return None if last < 0 else last

    def reaches_end(self, scan: TextScan, start: int) -> bool:
        """True if all from `start` on may be a value's beginning."""
        end = scan.run_end(self.value, start)
        if end == len(scan.text) or not self.between:
            return end == len(scan.text)
        return _compiled(rf"{self.between}\Z").match(scan.text, end) is not None


class SecretRules(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The content of the file."""

    placeholders: tuple[str, ...]
    names: tuple[str, ...]
    tokens: tuple[TokenRule, ...]
    after: tuple[MarkerRule, ...]


class Span(NamedTuple):
    """A part of a text that must not be shown."""

    start: int
    end: int
    rule: str


@cache
def load_secret_rules() -> SecretRules:
    """The rules of the data file."""
    rules = msgspec.convert(tomllib.loads(_FILE.read_text(encoding="utf-8")), SecretRules)
    names = _names_pattern(rules.names)
    after = (replace(rule, marker=rule.marker.replace(_NAMES, names)) for rule in rules.after)
    return replace(rules, after=tuple(after))


def _names_pattern(names: tuple[str, ...]) -> str:
    """A pattern for any of these names, whose alternatives start with different characters.

    Many names end with KEY: the pattern searches for KEY, then checks what precedes it.
    """
    keys = [name for name in names if name.endswith("KEY")]
    others = sorted(set(names) - set(keys), key=len)[::-1]
    before_key = "|".join(f"(?<={name})" for name in keys)
    return f"(?:{'|'.join(others)}|KEY(?:{before_key}))"


class _WordSearch:
    """Finds which words occur in a text. One search for all that begin with a rare character."""

    def __init__(self, words: list[str]) -> None:
        rare = tuple(sorted({word for word in words if not word[0].islower()}))
        self._common = tuple(sorted({word for word in words if word[0].islower()}))
        self._common_bytes = tuple(word.encode() for word in self._common)
        self._rare = _grouped_alternatives((word, "") for word in rare)
        self._rare_words = rare

    def any_in(self, encoded: bytes) -> bool:
        found = _compiled_bytes(self._rare).search(encoded)
        return found is not None or any(word in encoded for word in self._common_bytes)

    def words_in(self, text: str) -> set[str]:
        found = set[str]()
        for word in set(_compiled(self._rare).findall(text)):
            found.update(_words_hidden_by(word, self._rare_words))
        found.update(word for word in self._common if word in text)
        return found


@cache
def _words_hidden_by(word: str, words: tuple[str, ...]) -> tuple[str, ...]:
    """A found word may hide another that lies within it or overlaps its end."""
    return tuple(one for one in words if _may_hide(word, one))


def _may_hide(word: str, other: str) -> bool:
    ends = (word[-size:] for size in range(1, len(word)))
    return other in word or any(other.startswith(end) for end in ends)


class SecretMatcher:
    """The rules, compiled as needed. Made by `secret_matcher`; holds no secret, never changes."""

    def __init__(self, rules: SecretRules) -> None:
        self._pairs = [(begin, rule) for rule in rules.tokens for begin in rule.begins]
        self._rules: dict[str, list[TokenRule]] = {}
        for begin, rule in self._pairs:
            self._rules.setdefault(begin, []).append(rule)
        self.begins = tuple(sorted(self._rules, key=len)[::-1])
        self._rules_of = {
            begin: [
                (one, rule)
                for one in self.begins
                if begin.startswith(one)
                for rule in self._rules[one]
            ]
            for begin in self.begins
        }
        words = (*self.begins, KEY_HEADER)
        self._first_letters = {word[:end] for word in words for end in range(1, len(word))}
        self._longest = max(map(len, self._first_letters))
        least = min(len(begin) + _least_in_run(rule) for begin, rule in self._pairs)
        self._run = f"{_RUN}{{{least},}}"
        self._marker_rules = rules.after
        self._hints = _WordSearch(
            [KEY_HEADER, *(hint for rule in rules.after for hint in rule.hints)]
        )

    @cached_property
    def _begin(self) -> re.Pattern[str]:
        return re.compile(_grouped_alternatives((begin, "") for begin in self.begins))

    @cached_property
    def _token(self) -> str:
        """A pattern for a possible token; applied to runs, not to whole texts."""
        loose = ((begin, f"{_RUN}{{{_least_in_run(rule)}}}") for begin, rule in self._pairs)
        return _grouped_alternatives(loose)

    def may_match(self, encoded: bytes) -> bool:
        """False only if no rule matches a text in this JSON. JSON never escapes parts of a hint."""
        runs = _compiled_bytes(self._run).findall(encoded)
        if runs and _compiled_bytes(self._token).search(b"\n".join(runs)):
            return True
        return self._hints.any_in(encoded)

    def find(self, text: str) -> Iterator[Span]:
        """All matches of all rules, unordered; they may overlap."""
        scan = TextScan(text)
        yield from self._tokens(scan)
        hints = self._hints.words_in(text)
        if not hints:
            return
        if KEY_HEADER in hints:
            for found in PRIVATE_KEY.finditer(text):
                yield Span(found.start(), found.end(), "private-key")
        for rule in self._marker_rules:
            if not hints.isdisjoint(rule.hints):
                yield from _find_marked_values(rule, scan)

    def find_prefix(self, text: str, at: int) -> int:
        """The first token prefix from `at` on; else the text's length."""
        found = self._begin.search(text, at)
        return len(text) if found is None else found.start()

    def find_partial_prefix(self, text: str, at: int) -> int:
        """Where, from `at` on, a truncated token prefix ends the text; else the text's length."""
        for size in range(min(self._longest, len(text) - at), 0, -1):
            if text[len(text) - size :] in self._first_letters:
                return len(text) - size
        return len(text)

    def find_partial_values(self, text: str, at: int) -> Iterator[int]:
        """The starts of values that reach the text's end, so that more may follow."""
        scan, hints = TextScan(text), self._hints.words_in(text)
        for rule in self._marker_rules:
            if hints.isdisjoint(rule.hints):
                continue
            for found in _compiled(rule.marker).finditer(text, at):
                if rule.reaches_end(scan, found.end()):
                    yield found.end()
                    break

    def _tokens(self, scan: TextScan) -> Iterator[Span]:
        runs = _compiled(self._run)
        found = runs.findall(scan.text)
        if not found or not _compiled(self._token).search("\n".join(found)):
            return
        for run in runs.finditer(scan.text):
            at = run.start()
            while (begin := self._begin.search(scan.text, at, run.end())) is not None:
                span = self._token_at(scan, begin, run.span())
                if span is not None:
                    yield span
                at = begin.start() + 1 if span is None else span.end

    def _token_at(self, scan: TextScan, found: re.Match[str], run: tuple[int, int]) -> Span | None:
        start = found.start()
        for begin, rule in self._rules_of[found[0]]:
            body = start + len(begin)
            end = rule.find_end(scan, body)
            if end is None:
                continue
            checked = end if rule.parts else min(end, start + _MAX_TOKEN_CHARS)
            if rule.digit and not scan.holds_digit(body, checked):
                continue
            if (
                len(begin) >= _SHORT_PREFIX_CHARS
                or rule.parts
                or _is_likely_token(scan.text, (start, checked), run, rule.kinds)
            ):
                return Span(start, end, rule.name)
        return None


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)


@cache
def _compiled_bytes(pattern: str) -> re.Pattern[bytes]:
    return re.compile(pattern.encode())


@cache
def secret_matcher() -> SecretMatcher:
    """The matcher of the data file's rules."""
    return SecretMatcher(load_secret_rules())


def is_word_start(text: str, at: int) -> bool:
    """True if no letter or digit precedes; an escape that ends with one does not count."""
    before = text[at - 1 : at]
    return (
        not (before.isascii() and before.isalnum())
        or _ESCAPE.search(text[max(0, at - 12) : at]) is not None
    )


def _is_likely_token(
    text: str, token: tuple[int, int], run: tuple[int, int], kinds: tuple[str, ...]
) -> bool:
    """True if a match with a short prefix is more than a part of ordinary words."""
    start, end = token
    if is_word_start(text, start):
        return True
    is_short = run[1] - run[0] <= _MAX_RUN_CHARS
    return is_short and all(_compiled(kind).search(text, start, end) for kind in kinds)


def _find_marked_values(rule: MarkerRule, scan: TextScan) -> Iterator[Span]:
    at, head = 0, _compiled(rule.head)
    while (found := head.search(scan.text, at)) is not None:
        start, first = found.span("hidden")
        end = rule.find_end(scan, start, first)
        if end is None:
            at = found.start() + 1  # a rejected value may contain another marker
            continue
        yield Span(start, end, rule.name)
        at = end


def _least_in_run(rule: TokenRule) -> int:
    """The minimum number of body characters in one run with the prefix."""
    inside = re.compile(f"[{rule.body}]")
    return rule.least if not inside.match("+") else min(rule.least, _MIN_RUN_CHARS)


def _grouped_alternatives(pairs: Iterator[tuple[str, str]]) -> str:
    """Group alternatives by their first character, which makes a search fast."""
    by_first: dict[str, list[str]] = {}
    for begin, rest in sorted(pairs, key=lambda pair: -len(pair[0])):
        by_first.setdefault(re.escape(begin[0]), []).append(re.escape(begin[1:]) + rest)
    return "|".join(f"{first}(?:{'|'.join(rests)})" for first, rests in sorted(by_first.items()))

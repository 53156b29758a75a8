"""Joins words into one line of shell text, and splits it again. Pure; no shell is called.

Source: the conventions of the `shlex` crate with which Codex displays commands, so that both
display a command in the same way.
"""

import re
from collections.abc import Iterable

from swarm.mailbox.base.short_quotes import quote_head

_BARE = re.compile(r"[A-Za-z0-9+\-./:@\]_]+")
_NOT_IN_SINGLE = frozenset("'\\^")
_NOT_IN_DOUBLE = frozenset("`$!^")
_ESCAPED_IN_DOUBLE = re.compile(r'(["\\])')
_SPLITTER = re.compile(
    r"""(?P<space>[ \t\n]+)|(?P<gone>\\\n)|\\(?P<escaped>.)|'(?P<single>[^']*)'"""
    r"""|"(?P<double>(?:\\.|[^"\\])*)"|(?P<plain>[^ \t\n\\'"]+)""",
    re.DOTALL,
)
_DOUBLE_ESCAPE = re.compile(r'\\(?:\n|([$`"\\]))')


def join_words(words: Iterable[str]) -> str:
    """One line that a shell splits into exactly these words.

    NUL cannot be quoted and becomes U+FFFD, so do not execute the result.
    """
    return " ".join(quote_word(word) for word in words)


def quote_command(words: Iterable[str]) -> str:
    """A command for a text about it: its first characters, and how many more there are."""
    return f"`{quote_head(join_words(words))}`"


def quote_word(word: str) -> str:
    """The word, bare where that is safe, else in single quotes, else in double quotes."""
    word = word.replace("\0", "\ufffd")
    if not word:
        return "''"
    parts: list[str] = []
    while word:
        taken, quoted = _quote_prefix(word)
        parts.append(quoted)
        word = word[taken:]
    return "".join(parts)


def split_words(text: str) -> list[str] | None:
    """Split as a POSIX shell would, without expanding anything; None if a quote is not closed.

    A backslash before a newline is removed but counts as the start of a word, as in Codex's
    display.
    """
    words: list[str] = []
    current: str | None = None
    at = 0
    while at < len(text):
        if current is None and text[at] == "#":  # a comment, to the end of the line
            at = len(text) if (end := text.find("\n", at)) < 0 else end
            continue
        match = _SPLITTER.match(text, at)
        if match is None:
            return None
        at = match.end()
        if match.lastgroup == "space":
            if current is not None:
                words.append(current)
            current = None
        else:
            current = (current or "") + _value(match)
    return words if current is None else [*words, current]


def _value(match: re.Match[str]) -> str:
    if match.lastgroup == "gone":
        return ""
    piece = match[match.lastgroup or 0]
    if match.lastgroup == "double":
        return _DOUBLE_ESCAPE.sub(lambda escape: escape[1] or "", piece)
    return piece


def _quote_prefix(word: str) -> tuple[int, str]:
    """Quote the longest start of the word that one kind of quotes, or none, can hold."""
    single = _length_without(word, _NOT_IN_SINGLE, skip=word.startswith("^"))
    double = 0 if word.startswith("^") else _length_without(word, _NOT_IN_DOUBLE, skip=False)
    longest = max(single, double)
    if _BARE.fullmatch(word, 0, longest):
        return longest, word[:longest]
    if single == longest:
        return single, f"'{word[:single]}'"
    return double, '"' + _ESCAPED_IN_DOUBLE.sub(r"\\\1", word[:double]) + '"'


def _length_without(word: str, banned: frozenset[str], *, skip: bool) -> int:
    for at in range(int(skip), len(word)):
        if word[at] in banned:
            return at
    return len(word)

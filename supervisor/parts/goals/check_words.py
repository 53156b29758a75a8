"""Which files a check consists of, by the words of its commands. No I/O.

It is a guess that errs towards more: what it finds is told when it changes, nothing else depends on
it. Whoever wants files to stay as they are protects them.
"""

import shlex
import tomllib
from collections.abc import Iterable
from fnmatch import fnmatchcase
from pathlib import Path

_TABLE = Path(__file__).with_name("check_files.toml")
_VERSION = "0123456789."  # at the end of a program's name, as in python3.11
_OPERATORS = frozenset("|&;<>()")
_MOST_WORDS = 2_000


def words_of(command: str) -> list[str]:
    """The words of a shell command, without its operators; as far as it can be read."""
    lexer = shlex.shlex(command, posix=True, punctuation_chars=True)
    lexer.whitespace_split, lexer.commenters = True, ""
    words: list[str] = []
    try:
        for word in lexer:
            if not set(word) <= _OPERATORS:
                words.append(word)
            if len(words) >= _MOST_WORDS:
                break
    except ValueError:  # an open quote
        return command.split()[:_MOST_WORDS]
    return words


def named_paths(commands: Iterable[str]) -> tuple[str, ...]:
    """Words that may be paths, as they are written: `tests/`, `./check.sh`, `--config=x.toml`."""
    found: dict[str, None] = {}
    for command in commands:
        for word in words_of(command):
            for part in (word, word.partition("=")[2]):
                if part and not part.startswith("-") and "\0" not in part:
                    found[part.partition("::")[0]] = None
    return tuple(found)


def patterns_for(commands: Iterable[str]) -> tuple[str, ...]:
    """The patterns of file names that belong to the programs of these commands."""
    table = tomllib.loads(_TABLE.read_text("utf-8"))
    found: dict[str, None] = {}
    for command in commands:
        for word in words_of(command):
            name = word.rpartition("/")[2].rstrip(_VERSION)
            found |= dict.fromkeys(table.get(name, ()))
    return tuple(found)


def is_part_of_check(name: str, patterns: tuple[str, ...]) -> bool:
    """True if a file of this name belongs to a check with these patterns."""
    return any(fnmatchcase(name, one) for one in patterns)

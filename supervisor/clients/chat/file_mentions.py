"""`@file` in the line that is typed: the word at the cursor, and the files that fit it. Pure."""

import re

from ...base.safe_text import clean_line

MOST_MATCHES = 50


_OPEN_QUOTE = re.compile(r'(?:^|[ \n\t])@"([^"\n]*)$')


def mention_at(text_before_cursor: str) -> str | None:
    """What stands after an `@` at the cursor, without its quote; None if it is in no mention."""
    if quoted := _OPEN_QUOTE.search(text_before_cursor):
        return quoted[1]
    start = max(text_before_cursor.rfind(blank) for blank in " \n\t") + 1
    word = text_before_cursor[start:]
    return word[1:] if word.startswith("@") and not word.startswith('@"') else None


def mention_length(text_before_cursor: str, typed: str) -> int:
    """Characters of the mention at the cursor, with its `@` and its quote."""
    return len(typed) + (2 if _OPEN_QUOTE.search(text_before_cursor) else 1)


def mention_of(path: str) -> str:
    """How a file is named in the line: `@a.py`, `@"my file.md"`."""
    return f'@"{path}"' if " " in path else f"@{path}"


def is_mentionable(path: str) -> bool:
    """True for a name that can be shown and typed as it is."""
    return bool(path) and path.isprintable() and '"' not in path and clean_line(path) == path


def rank_files(files: tuple[str, ...], typed: str) -> list[str]:
    """The best `MOST_MATCHES` of the files whose letters hold `typed` in order, best first.

    A match at the beginning of the name is best, then one anywhere in the name, then in the path,
    then scattered letters; shorter paths first.
    """
    wanted = typed.lower()
    ranked: list[tuple[int, int, str]] = []
    for path in files:
        rank = _rank(path.lower(), wanted)
        if rank >= 0:
            ranked.append((rank, len(path), path))
    ranked.sort()
    return [path for _, _, path in ranked[:MOST_MATCHES]]


def _rank(path: str, wanted: str) -> int:
    name = path.rpartition("/")[2]
    if name.startswith(wanted):
        return 0
    if wanted in name:
        return 1
    if wanted in path:
        return 2
    letters = iter(path)
    return 3 if all(letter in letters for letter in wanted) else -1

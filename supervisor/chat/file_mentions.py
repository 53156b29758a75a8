"""`@file` in the line that is typed: the word at the cursor, and the files that fit it. Pure."""

from ..console.safe_text import clean_line

MOST_MATCHES = 50


def mention_at(text_before_cursor: str) -> str | None:
    """What stands after an `@` at the cursor; None if the cursor is in no mention."""
    start = max(text_before_cursor.rfind(blank) for blank in " \n\t") + 1
    word = text_before_cursor[start:]
    return word[1:] if word.startswith("@") else None


def is_mentionable(path: str) -> bool:
    """True for a name that can be shown and typed as it is."""
    return bool(path) and path.isprintable() and " " not in path and clean_line(path) == path


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

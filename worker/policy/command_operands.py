"""Flags and operands of a command line, and the short form of a path. Pure, for display only."""

from collections.abc import Iterable, Sequence

_UNINFORMATIVE = frozenset({"build", "dist", "node_modules", "src"})


def flags(text: str) -> frozenset[str]:
    """A table of flags, written as one line."""
    return frozenset(text.split())


def operands(words: Iterable[str], valued: frozenset[str] = frozenset()) -> list[str]:
    """The words that are not flags.

    A flag in `valued` takes the next word as its value; after `--` every word is an operand.
    """
    found: list[str] = []
    rest = iter(words)
    for word in rest:
        if word == "--":
            return [*found, *rest]
        if word in valued:
            next(rest, None)
        elif not word.startswith("-"):
            found.append(word)
    return found


def first(words: Sequence[str]) -> str | None:
    """The first word, if there is one."""
    return words[0] if words else None


def value_of(words: Sequence[str], names: frozenset[str]) -> str | None:
    """The word after the first flag of `names`."""
    for at, word in enumerate(words[:-1]):
        if word in names:
            return words[at + 1]
    return None


def shorten(path: str) -> str:
    """The last informative component: `web/src/` → `web`."""
    trimmed = path.replace("\\", "/").rstrip("/")
    for part in reversed(trimmed.split("/")):
        if part and part not in _UNINFORMATIVE:
            return part
    return trimmed or path


def shorten_if_any(path: str | None) -> str | None:
    """`shorten`, or None for None."""
    return None if path is None else shorten(path)

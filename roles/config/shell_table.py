"""`[shell_environment_policy]`: what of it can never be meant. Pure.

Rule: a pattern that fits nothing a system could hold is a mistake, and a mistake in what keeps
secrets away is told before anything starts.
"""

from collections.abc import Iterator

from .positions import KeyPath
from .schema import ShellTable

_MOST_CHARS = 256
_MOST_PATTERNS = 1_000


def shell_mistakes(table: ShellTable) -> Iterator[tuple[KeyPath, str]]:
    """(key within the table, what is wrong with it)."""
    for key in ("exclude", "include_only"):
        patterns: tuple[str, ...] = getattr(table, key)
        if len(patterns) > _MOST_PATTERNS:
            yield (key,), f"more than {_MOST_PATTERNS} patterns"
        for pattern in patterns:
            if why := _why_not(pattern):
                yield (key,), f"{pattern!r} is no pattern for a variable's name: {why}"
    for name, value in table.set.items():
        if why := _why_not(name):
            yield ("set", name), f"{name!r} is no variable's name: {why}"
        elif "\0" in value:
            yield ("set", name), "a value cannot hold a NUL"


def _why_not(name: str) -> str:
    if not name.strip():
        return "it is empty"
    if len(name) > _MOST_CHARS:
        return f"it is longer than {_MOST_CHARS} characters"
    if "=" in name:
        return "no name holds a ="
    return "" if name.isprintable() else "it holds a control character"

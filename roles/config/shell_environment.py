"""Finds errors in `[shell_environment_policy]`. No I/O.

A pattern that can match no variable is a mistake. This table keeps secrets away from commands, so
its mistakes are reported before anything starts.
"""

from collections.abc import Iterator

from .key_positions import KeyPath
from .schema import ShellTable

_MAX_CHARS = 256
_MAX_PATTERNS = 1_000


def find_shell_table_errors(table: ShellTable) -> Iterator[tuple[KeyPath, str]]:
    """(key within the table, error text) for each error."""
    for key in ("exclude", "include_only"):
        patterns: tuple[str, ...] = getattr(table, key)
        if len(patterns) > _MAX_PATTERNS:
            yield (key,), f"more than {_MAX_PATTERNS} patterns"
        for pattern in patterns:
            if why := _name_error(pattern):
                yield (key,), f"{pattern!r} is no pattern for a variable's name: {why}"
    for name, value in table.set.items():
        if why := _name_error(name):
            yield ("set", name), f"{name!r} is no variable's name: {why}"
        elif "\0" in value:
            yield ("set", name), "a value cannot hold a NUL"


def _name_error(name: str) -> str:
    if not name.strip():
        return "it is empty"
    if len(name) > _MAX_CHARS:
        return f"it is longer than {_MAX_CHARS} characters"
    if "=" in name:
        return "no name holds a ="
    return "" if name.isprintable() else "it holds a control character"

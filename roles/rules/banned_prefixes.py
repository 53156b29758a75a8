"""Prefixes too broad for a saved rule: an interpreter, a shell, `env`, `sudo`, `git` alone. Pure.

Only the exact prefix is banned: `git pull` may be saved, `git` may not.
"""

from collections.abc import Sequence

_BANNED_PROGRAMS = ("pythonw", "pyw", "pypy", "pypy3", "git", "env", "sudo", "osascript")
_BANNED_FLAGS = {
    "python3": ("", "-", "-c"),
    "python": ("", "-", "-c"),
    "py": ("", "-3"),
    "bash": ("", "-lc"),
    "sh": ("", "-c", "-lc"),
    "zsh": ("", "-lc"),
    "/bin/zsh": ("", "-lc"),
    "/bin/bash": ("", "-lc"),
    "pwsh": ("", "-Command", "-c"),
    "powershell": ("", "-Command", "-c"),
    "powershell.exe": ("", "-Command", "-c"),
    "node": ("", "-e"),
    "perl": ("", "-e"),
    "ruby": ("", "-e"),
    "php": ("", "-r"),
    "lua": ("", "-e"),
}
BANNED_PREFIXES = frozenset(
    {(name,) for name in _BANNED_PROGRAMS}
    | {(name, flag) if flag else (name,) for name, flags in _BANNED_FLAGS.items() for flag in flags}
)


def is_banned(prefix: Sequence[str]) -> bool:
    """True if a rule that allows exactly this prefix would allow nearly anything."""
    return tuple(prefix) in BANNED_PREFIXES

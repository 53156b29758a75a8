"""Prefixes too broad to be remembered: an interpreter, a shell, `env`, `sudo`, `git` alone. Pure.

Only the exact prefix is banned: `git pull` may be remembered, `git` may not.
"""

from collections.abc import Sequence

_ALONE = ("pythonw", "pyw", "pypy", "pypy3", "git", "env", "sudo", "osascript")
_WITH = {
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
    {(name,) for name in _ALONE}
    | {(name, flag) if flag else (name,) for name, flags in _WITH.items() for flag in flags}
)


def is_banned(prefix: Sequence[str]) -> bool:
    """Whether a rule that allows exactly this prefix would allow nearly anything."""
    return tuple(prefix) in BANNED_PREFIXES

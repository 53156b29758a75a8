"""The condition of a hook (`if`): for which calls of a tool it runs. Pure.

`Bash(git *)` and `Edit(*.ts)`, as Claude writes rules. In doubt the condition holds: a guard that
runs once too often does no harm.
"""

import re
from collections.abc import Sequence
from fnmatch import fnmatchcase
from functools import lru_cache

MAX_CONDITION = 500
_FORM = re.compile(r"([A-Za-z0-9_*-]+)(?:\((.*)\))?", re.DOTALL)
_MAX_SUBJECT = 10_000


def is_condition(text: str) -> bool:
    """True for `Tool` and `Tool(pattern)`."""
    return len(text) <= MAX_CONDITION and _FORM.fullmatch(text.strip()) is not None


def condition_holds(
    condition: str, names: Sequence[str], subjects: Sequence[str] | None, *, cwd: str = ""
) -> bool:
    """True if a call is one that the condition names.

    Args:
        names: The tool's names.
        subjects: Commands, paths or texts of the call; None: they are not known.
        cwd: Paths below it are also matched relative to it.
    """
    parts = _FORM.fullmatch(condition.strip())
    if parts is None:
        return True
    tool, pattern = parts[1], parts[2]
    if not any(fnmatchcase(name, tool) for name in names):
        return False
    if pattern is None or pattern in ("", "*") or subjects is None:
        return True
    return any(_fits(pattern, text[:_MAX_SUBJECT], cwd) for text in subjects)


def _fits(pattern: str, text: str, cwd: str) -> bool:
    if pattern.endswith(":*"):  # the older form: a prefix
        return text.startswith(pattern[:-2])
    if pattern.endswith(" *") and text == pattern[:-2]:
        return True
    forms = {text, text.removeprefix(f"{cwd}/"), text.rpartition("/")[2]}
    wanted = pattern.removeprefix("./").replace("**/", "*")
    return any(_expression(wanted).match(one) is not None for one in forms)


@lru_cache(maxsize=256)
def _expression(pattern: str) -> re.Pattern[str]:
    """`*` is any text, and nothing else is special: commands are full of brackets."""
    return re.compile(".*".join(map(re.escape, pattern.split("*"))) + r"\Z", re.DOTALL)

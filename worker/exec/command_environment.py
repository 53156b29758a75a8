"""Builds the environment of a command. No I/O.

Variables whose names look like secrets are left out unless the user decides otherwise (Codex keeps
them by default). Variables that make a loader or a shell run other code before the command are
always left out: otherwise the reviewed command would not be the one that runs. Order and table: the
configuration sheet, 6.9.
"""

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache

from swarm.mailbox.protocol.spec import ShellEnvironmentPolicy

CORE_VARIABLES = frozenset(
    "PATH SHELL TMPDIR TEMP TMP HOME LANG LC_ALL LC_CTYPE LOGNAME USER".split()  # noqa: SIM905
)
DEFAULT_EXCLUDES = ("*KEY*", "*SECRET*", "*TOKEN*")
# Settings for a program without a user: no paging, no colour, a fixed language.
FORCED_VARIABLES: dict[str, str] = {
    "NO_COLOR": "1",
    "TERM": "dumb",
    "LANG": "C.UTF-8",
    "LC_CTYPE": "C.UTF-8",
    "LC_ALL": "C.UTF-8",
    "COLORTERM": "",
    "PAGER": "cat",
    "GIT_PAGER": "cat",
    "GH_PAGER": "cat",
    "SWARM_CI": "1",
}

# LD_PRELOAD, LD_AUDIT and the like; files that a shell reads by itself; functions that shadow
# commands. LD_LIBRARY_PATH stays: compilers and GPU tools need it, and it names folders, not code
# to run.
_CODE_INJECTING = re.compile(
    r"(?!LD_LIBRARY_PATH$)(?:LD_.*|DYLD_.*|BASH_ENV|ENV|SHELLOPTS|BASHOPTS|PROMPT_COMMAND|PS4"
    r"|GCONV_PATH|BASH_FUNC_.*)",
    re.DOTALL,
)
_SETTABLE = re.compile(r"[^=\0]+")


def command_environment(
    base: Mapping[str, str], policy: ShellEnvironmentPolicy, extra: Mapping[str, str]
) -> dict[str, str]:
    """Build the environment of a command.

    Args:
        base: The environment to inherit from, already without any provider's key.
        policy: Applied in the order inherit → default excludes → exclude → set → include_only.
        extra: Swarm's own marks and forced values; no rule of the policy drops them.

    Returns:
        A new dict. A variable that runs code before the command is kept only if the user wrote its
        name in `set`: that is their own decision.
    """
    inherited = {name: value for name, value in base.items() if _is_inherited(name, policy)}
    if not policy.ignore_default_excludes:
        inherited = _without(inherited, DEFAULT_EXCLUDES)
    inherited = _without(inherited, policy.exclude)
    chosen = {**inherited, **policy.set}
    if policy.include_only:
        keep = _matcher(tuple(policy.include_only))
        chosen = {name: value for name, value in chosen.items() if keep.fullmatch(name)}
    chosen.update(extra)
    return {
        name: value
        for name, value in chosen.items()
        if _SETTABLE.fullmatch(name) and "\0" not in value
    }


def _is_inherited(name: str, policy: ShellEnvironmentPolicy) -> bool:
    if _CODE_INJECTING.fullmatch(name):
        return False
    match policy.inherit:
        case "all":
            return True
        case "core":
            return name in CORE_VARIABLES
        case _:  # "none", and any unknown value: inherit nothing
            return False


def _without(variables: dict[str, str], patterns: Iterable[str]) -> dict[str, str]:
    drop = _matcher(tuple(patterns))
    return {name: value for name, value in variables.items() if not drop.fullmatch(name)}


@lru_cache(maxsize=64)
def _matcher(patterns: tuple[str, ...]) -> re.Pattern[str]:
    """Match whole names, any case; `*` is any run, `?` one character; no patterns match nothing."""
    if not patterns:
        return re.compile(r"(?!)")
    words = (re.escape(one).replace(r"\*", ".*").replace(r"\?", ".") for one in patterns)
    return re.compile("|".join(words), re.IGNORECASE | re.DOTALL)

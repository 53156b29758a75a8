"""Moves the caches of package managers into the private /tmp where their places are closed.

Most programs fail when they cannot write to their cache, even where nothing has to be fetched. The
private /tmp is one agent's: a cache that agents shared would let a command of one choose what
another one builds and runs. `package_caches.toml` beside this file lists the variables.
"""

import os
import tomllib
from collections.abc import Callable, Mapping
from functools import cache, lru_cache
from itertools import chain
from pathlib import Path
from typing import Literal

import msgspec

from swarm.mailbox.base.path_rules import CACHES_FOLDER, is_within

from .sandbox_plan import SandboxPlan

_FOUND_KEPT = 8  # plans and environments of one process, which seldom change


class PackageCache(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One line of the table, whose first lines say what the fields mean."""

    program: str
    variable: str
    place: str
    names: tuple[str, ...] = ()
    unless: str = ""  # another variable by which the person moved the place
    kept: Literal["never", "offline", "always"] = "never"


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    caches: tuple[PackageCache, ...]


@cache
def load_package_caches() -> tuple[PackageCache, ...]:
    """The table."""
    data = tomllib.loads(Path(__file__).with_name("package_caches.toml").read_text("utf-8"))
    return msgspec.convert(data, type=_File).caches


def cache_variables(plan: SandboxPlan, environment: Mapping[str, str]) -> dict[str, str]:
    """The variables that move caches for a command of this plan. Looks at the places themselves.

    What a person has set stays, if the command can write there.
    """
    tmp = "/tmp" if plan.stack == "bwrap" else plan.tmp_dir
    if not plan.is_sandboxed or tmp is None or not plan.tmp_writable:
        return {}
    given = tuple((name, environment[name]) for name in _asked() if environment.get(name))
    return dict(_moved(given, plan, tmp))


@cache
def _asked() -> tuple[str, ...]:
    """The variables that count, in the order of the table."""
    of_table = ((one.variable, *one.names, one.unless) for one in load_package_caches())
    return ("HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME", *filter(None, chain(*of_table)))


@lru_cache(maxsize=_FOUND_KEPT)
def _moved(
    given: tuple[tuple[str, str], ...], plan: SandboxPlan, tmp: str
) -> tuple[tuple[str, str], ...]:
    return tuple(
        decide_moved(
            load_package_caches(),
            dict(given),
            folder=f"{tmp}/{CACHES_FOLDER}",
            offline=not plan.network and plan.proxied is None,
            is_writable=lambda path: _is_writable(os.path.realpath(path), plan),
        ).items()
    )


def decide_moved(
    caches: tuple[PackageCache, ...],
    given: Mapping[str, str],
    *,
    folder: str,
    offline: bool,
    is_writable: Callable[[str], bool],
    is_there: Callable[[str], bool] = os.path.isdir,
) -> dict[str, str]:
    """Which variables to set.

    Args:
        given: The variables of the command that count here.
        folder: Where the caches go, each by its variable's name.
        offline: Whether the command has no network.
        is_writable: Whether the command can write at an absolute path.
        is_there: Whether something is there that can be read.
    """
    moved: dict[str, str] = {}
    for one in caches:
        named = [given[name] for name in (one.variable, *one.names) if name in given]
        place = named[0] if named else _place(one.place, given)
        if (one.unless and one.unless in given) or not place.startswith("/"):
            continue  # a word like `off`, or moved by other means
        is_kept = one.kept == "always" or (one.kept == "offline" and offline)
        if is_writable(place) or (is_kept and is_there(place)):
            continue
        variables = (one.variable, *(name for name in one.names if name in given))
        moved |= dict.fromkeys(variables, f"{folder}/{one.variable.lower()}")
    return moved


def _place(text: str, given: Mapping[str, str]) -> str:
    home = given.get("HOME", "")
    top, _, rest = text.partition("/")
    folders = {
        "HOME": home,
        "CACHE": given.get("XDG_CACHE_HOME") or (f"{home}/.cache" if home else ""),
        "DATA": given.get("XDG_DATA_HOME") or (f"{home}/.local/share" if home else ""),
    }
    return f"{folders[top]}/{rest}" if folders[top] else ""


def _is_writable(path: str, plan: SandboxPlan) -> bool:
    """Whether the plan lets a command make files at this canonical path."""
    shown_tmp = "/tmp" if plan.stack == "bwrap" else plan.tmp_dir or ""
    opened = [one for one in (*plan.writable, shown_tmp) if one and is_within(path, one)]
    shut = (*plan.protected, *plan.missing, *plan.hidden, *plan.denied, *plan.visible)
    closing = [one for one in shut if is_within(path, one)]
    return bool(opened) and len(max(opened, key=len)) >= len(max(closing, key=len, default=""))

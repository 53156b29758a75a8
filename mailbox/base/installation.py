"""Where this copy of swarm lies: its packages, its Python environment, the command itself.

An agent that could write there would rewrite the program that holds it, so these places are closed
to the commands of every run.
"""

import os
import sys
from collections.abc import Iterable
from functools import cache
from importlib.util import find_spec

from ..protocol.values.base import Value
from ..protocol.values.limits import DangerFullAccess, SandboxPolicy
from .path_rules import is_within

_PACKAGES = ("swarm.mailbox", "swarm.roles", "swarm.worker", "swarm.supervisor")
_MOST_NAMED = 6


class InstallationExposure(Value):
    """How the installation lies to the folders that agents may write; canonical paths."""

    closed: tuple[str, ...] = ()  # inside of them, and closed to agents
    open: tuple[str, ...] = ()  # agents may write there: no sandbox, or the person's own word
    everywhere: bool = False  # there is no sandbox, which is said in one warning of its own


@cache
def installation_paths() -> tuple[str, ...]:
    """Canonical paths of all that this process and its children are loaded from; they exist."""
    found = [sys.prefix, sys.base_prefix, sys.executable, sys.argv[0] if sys.argv else ""]
    found += [entry for entry in sys.path if entry.startswith("/")]
    for name in _PACKAGES:
        spec = find_spec(name)
        found += list(spec.submodule_search_locations or ()) if spec is not None else []
    real = dict.fromkeys(os.path.realpath(one) for one in found if one.startswith("/"))
    kept = [one for one in real if os.path.exists(one)]  # noqa: PTH110
    return tuple(one for one in kept if not _is_inside_other(one, kept))


def _is_inside_other(path: str, others: Iterable[str]) -> bool:
    return any(path != other and is_within(path, other) for other in others)


def find_exposure(
    policy: SandboxPolicy, roots: Iterable[str], paths: Iterable[str]
) -> InstallationExposure:
    """What of these paths agents could write. All paths are canonical; nothing is read.

    A path that is itself a root, or holds one, cannot be closed: a person has named it.
    """
    paths = tuple(paths)
    if isinstance(policy, DangerFullAccess):
        return InstallationExposure(open=paths, everywhere=True)
    roots = tuple(roots)
    inside = [one for one in paths if any(is_within(one, root) for root in roots)]
    return InstallationExposure(
        closed=tuple(one for one in inside if one not in roots),
        open=tuple(one for one in inside if one in roots),
    )


def describe_exposure(found: InstallationExposure) -> str:
    """What a person is told at the start; "" if nothing needs saying."""
    if found.everywhere:
        return ""
    if found.open:
        return (
            f"agents may rewrite swarm itself ({_list(found.open)}), and so what it does from now "
            "on, also in your own commands; install it outside of the folders that agents write"
        )
    if found.closed:
        return (
            "the swarm that runs here is part of this project, so agents can read it and not "
            f"change it: {_list(found.closed)}. If they are to work on it: --add-dir FOLDER opens "
            "one, and a swarm that is installed elsewhere closes none"
        )
    return ""


def _list(paths: tuple[str, ...]) -> str:
    more = len(paths) - _MOST_NAMED
    return ", ".join(paths[:_MOST_NAMED]) + (f" and {more} more" if more > 0 else "")

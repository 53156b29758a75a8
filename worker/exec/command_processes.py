"""Finds out which command a process belongs to, even when its parents are gone.

Ownership is read from the kernel (the session) and from a mark in the process's environment at its
start. A process that shows neither has no owner.
"""

import os
import signal
from collections.abc import Collection, Mapping
from contextlib import suppress
from pathlib import Path

from swarm.mailbox.process_tree import children_of, descendants_of, is_zombie, live_descendants_of

COMMAND_VARIABLE = "SWARM_COMMAND"  # in every command's environment: LAUNCHER-TOKEN


def command_mark(token: int) -> str:
    """The value of `COMMAND_VARIABLE` for a command of this launcher."""
    return f"{os.getpid()}-{token}"


def processes_of(token: int, firsts: Mapping[int, int], alive: Collection[int]) -> list[int]:
    """The live processes of a command, and orphans that no command in `alive` owns.

    An empty result is certain: no process of the command lives.

    Args:
        firsts: Each command's first process → its token.
        alive: Tokens of commands that run or are being killed.
    """

    def is_ours(child: int) -> bool:
        return _owner(child, firsts, alive) in (None, token)

    return live_descendants_of(os.getpid(), is_ours)


def processes_by_command(firsts: Mapping[int, int], alive: Collection[int]) -> dict[int, list[int]]:
    """`processes_of` for every token in `alive`, in one walk.

    This is a snapshot: processes may be missing.
    """
    trees: dict[int, list[int]] = {token: [] for token in alive}
    for child in children_of(os.getpid()):
        found = [one for one in (child, *descendants_of(child)) if not is_zombie(one)]
        owner = _owner(child, firsts, alive)
        for token in trees if owner is None else (owner,):
            trees.setdefault(token, []).extend(found)
    return trees


def _owner(child: int, firsts: Mapping[int, int], alive: Collection[int]) -> int | None:
    """The token of the command that owns a child of this launcher; None if the owner is unknown."""
    owner = firsts.get(child)
    if owner is None:
        owner = firsts.get(_session(child)) or _marked_token(child)
        owner = owner if owner in alive else None
    return owner


def has_children() -> bool:
    """Whether this process has children; reaps those that have ended."""
    try:
        while os.waitpid(-1, os.WNOHANG) != (0, 0):
            pass
    except ChildProcessError:
        return False
    return True


def outside_group(pids: Collection[int], group: int) -> list[int]:
    """The processes of `pids` that a signal to `group` would not reach."""
    return [pid for pid in pids if _group(pid) != group]


def kill_groups(pids: Collection[int]) -> None:
    """SIGKILL the process groups of `pids`, all of which descend from this launcher.

    A process group lies within one session, and every command starts its own session: so no other
    process is in these groups.
    """
    own = os.getpgrp()
    for group in {_group(pid) for pid in pids} - {own, -1}:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(group, signal.SIGKILL)


def _group(pid: int) -> int:
    try:
        return os.getpgid(pid)
    except ProcessLookupError:
        return -1


def _session(pid: int) -> int:
    try:
        return os.getsid(pid)
    except ProcessLookupError:
        return -1


def _marked_token(pid: int) -> int | None:
    prefix = f"{COMMAND_VARIABLE}={os.getpid()}-".encode()
    try:
        marks = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
        return next((int(mark[len(prefix) :]) for mark in marks if mark.startswith(prefix)), None)
    except (OSError, ValueError):
        return None

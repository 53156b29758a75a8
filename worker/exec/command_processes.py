"""Finds out which command a process belongs to, even when its parents are gone.

Ownership is read from the kernel (the session) and from a mark in the process's environment at its
start. A process that shows neither (`env -i setsid …`) may belong to every command that started
before it: it is killed with the first of these to end, and never with a command that began later.
"""

import os
import signal
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path

from swarm.mailbox.base.process_tree import (
    children_of,
    descendants_of,
    is_zombie,
    live_descendants_of,
)

_START_TICKS = 19  # field of /proc/PID/stat after the name
COMMAND_VARIABLE = "SWARM_COMMAND"  # in every command's environment: LAUNCHER-TOKEN


def command_mark(token: int) -> str:
    """The value of `COMMAND_VARIABLE` for a command of this launcher."""
    return f"{os.getpid()}-{token}"


class CommandTable:
    """What a launcher knows of its commands; tells which processes are theirs."""

    def __init__(self) -> None:
        self.tokens: dict[int, int] = {}  # pid of a command's first process → token
        self.pids: dict[int, int] = {}  # the reverse; removed once reaped
        self.dying: set[int] = set()  # tokens whose trees are being killed
        self._started: dict[int, int] = {}  # token → start of that process, until its tree is gone

    def add(self, token: int, pid: int) -> None:
        """A command has a first process, which is not reaped yet."""
        self.tokens[pid], self.pids[token] = token, pid
        self._started[token] = start_ticks(pid)

    def drop_tree(self, token: int) -> None:
        """No process of the command is left."""
        self.dying.discard(token)
        self._started.pop(token, None)

    def processes_of(self, token: int) -> list[int]:
        """The live processes of a command, with orphans that show no owner and may be its own.

        An empty result is certain: no process of the command lives.
        """
        return live_descendants_of(os.getpid(), lambda child: token in self._owners(child))

    def processes_by_command(self) -> dict[int, list[int]]:
        """`processes_of` for every command that runs or is being killed, in one walk.

        This is a snapshot: processes may be missing.
        """
        trees: dict[int, list[int]] = {token: [] for token in {*self.pids, *self.dying}}
        for child in children_of(os.getpid()):
            found = [one for one in (child, *descendants_of(child)) if not is_zombie(one)]
            for token in self._owners(child):
                trees.setdefault(token, []).extend(found)
        return trees

    def _owners(self, child: int) -> Collection[int]:
        """The token of the command that owns a child of this launcher; else all that may own it."""
        if (owner := self.tokens.get(child)) is not None:
            return (owner,)
        owner = self.tokens.get(_session(child)) or _marked_token(child)
        if owner is not None and owner in self._started:
            return (owner,)
        started = start_ticks(child)
        return [token for token, began in self._started.items() if began <= started]


def start_ticks(pid: int) -> int:
    """When the process started, in clock ticks since boot; 0 when it is gone."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return 0
    return int(stat.rpartition(b") ")[2].split()[_START_TICKS])


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

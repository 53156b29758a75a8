"""What the orphans of ended commands used, such as the first process inside bubblewrap."""

import resource
import time
from collections.abc import Iterable
from functools import reduce

import msgspec

from .launcher_protocol import CommandUsage

_EARLY_S, _MOST_EARLY = 0.1, 8


class OrphanUsage:
    """Of one launcher, which adopts and reaps the orphans."""

    def __init__(self) -> None:
        self._owners: dict[int, int] = {}  # pid → token of the command that left it behind
        self._used: dict[int, CommandUsage] = {}  # by token
        self._early: list[
            tuple[float, CommandUsage]
        ] = []  # of unknown ones, with when they were reaped

    def note(self, token: int, orphans: Iterable[int]) -> None:
        """These are there now that a command's first process has ended; new ones are its own."""
        for pid in orphans:
            self._owners.setdefault(pid, token)

    def reaped(self, pid: int, used: resource.struct_rusage) -> None:
        """An orphan has ended; of an unknown one it is kept for a moment, for `take_early`."""
        token = self._owners.pop(pid, None)
        if token is not None:
            before = self._used.get(token, CommandUsage())
            self._used[token] = add_usage(before, usage_of(used))
        else:
            self._early = [*self._early[-_MOST_EARLY:], (time.monotonic(), usage_of(used))]

    def take_early(self) -> CommandUsage:
        """What orphans used that were reaped just before the first process of their command.

        A process that ends hands its children over before it can be reaped itself: one that is dead
        by then may be reaped first, and nothing tells whose it was.
        """
        since = time.monotonic() - _EARLY_S
        found = [usage for at, usage in self._early if at >= since]
        self._early = []
        return reduce(add_usage, found, CommandUsage())

    def take(self, token: int) -> CommandUsage:
        """What the orphans of this command used; call it when all are dead."""
        for pid in [pid for pid, owner in self._owners.items() if owner == token]:
            del self._owners[pid]
        return self._used.pop(token, CommandUsage())


def usage_of(used: resource.struct_rusage, *, peak_bytes: int = 0) -> CommandUsage:
    """Of a reaped process and the children that it reaped; `peak_bytes`: seen otherwise."""
    cpu_s = round(used.ru_utime + used.ru_stime, 3)
    return CommandUsage(cpu_s=cpu_s, peak_bytes=max(used.ru_maxrss * 1024, peak_bytes))


def add_usage(one: CommandUsage, other: CommandUsage) -> CommandUsage:
    """Of one command's processes together."""
    cpu_s, peak_bytes = one.cpu_s + other.cpu_s, max(one.peak_bytes, other.peak_bytes)
    return msgspec.structs.replace(one, cpu_s=round(cpu_s, 3), peak_bytes=peak_bytes)

"""What the orphans of ended commands used, such as the first process inside bubblewrap."""

import resource
from collections.abc import Iterable

import msgspec

from .launcher_protocol import CommandUsage


class OrphanUsage:
    """Of one launcher, which adopts and reaps the orphans."""

    def __init__(self) -> None:
        self._owners: dict[int, int] = {}  # pid → token of the command that left it behind
        self._used: dict[int, CommandUsage] = {}  # by token

    def note(self, token: int, orphans: Iterable[int]) -> None:
        """These are there now that a command's first process has ended; new ones are its own."""
        for pid in orphans:
            self._owners.setdefault(pid, token)

    def reaped(self, pid: int, used: resource.struct_rusage) -> None:
        """An orphan has ended; of an unknown one nothing is kept."""
        token = self._owners.pop(pid, None)
        if token is not None:
            before = self._used.get(token, CommandUsage())
            self._used[token] = add_usage(before, usage_of(used))

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

"""What running commands use, looked at four times a second, and which of them use too much.

Guards: it looks only while a bounded command runs. Cheap figures first; only what seems to be over
its bound is measured again with shared pages counted once, so that nobody is killed for memory
that his forks share. The launcher does the killing.
"""

import math
import os
import time
from collections.abc import Callable, Iterable
from contextlib import suppress

import msgspec

from swarm.mailbox.protocol.limits import ResourceLimits

from .cgroup import Cgroup, enter_cgroup
from .orders import Overrun

_LOOK_S = 0.25
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


class _Watched(msgspec.Struct):
    limits: ResourceLimits
    ends_at: float | None
    overrun: Overrun | None = None


class Watchdog:
    """Of one launcher. `begin` and `end` bracket each command; `look` when `wait_ms` says so."""

    def __init__(
        self, clock: Callable[[], float] = time.monotonic, *, may_come_first: bool = True
    ) -> None:
        self._clock, self._may_come_first = clock, may_come_first
        self._watched: dict[int, _Watched] = {}
        self._look_at = 0.0
        self._cgroup: Cgroup | None = None
        self._has_tried = False

    def begin(self, token: int, limits: ResourceLimits) -> None:
        """A command without bounds is not watched."""
        if limits == ResourceLimits():
            return
        now = self._clock()
        if not self._watched:
            if self._may_come_first:
                _come_first(is_first=True)
            self._look_at = now + _LOOK_S
        ends_at = None if limits.command_s is None else now + limits.command_s
        self._watched[token] = _Watched(limits, ends_at)

    def end(self, token: int, *, was_killed: bool = False) -> Overrun | None:
        """Forget it; returns what it was killed for, by us or by the kernel."""
        watched = self._watched.pop(token, None)
        if watched is None:
            return None
        if not self._watched and self._may_come_first:
            _come_first(is_first=False)
        return watched.overrun or (self._cgroup.new_kill() if was_killed and self._cgroup else None)

    def prepare(self, limits: ResourceLimits) -> None:
        """Before the first bounded command: the kernel's own bounds, where it gives them."""
        if not self._has_tried and limits != ResourceLimits():
            self._has_tried = True
            self._cgroup = enter_cgroup(limits)

    def stand_down(self) -> None:
        """Before everything is killed: hundreds of launchers that come first would keep the
        processor from the dying. Not while a bomb has to be outrun.
        """
        if self._may_come_first and all(one.overrun is None for one in self._watched.values()):
            _come_first(is_first=False)

    def close(self) -> None:
        """When every command is dead."""
        if self._cgroup is not None:
            self._cgroup.leave()

    def wait_ms(self) -> int | None:
        """How long nothing has to be looked at; None: for ever."""
        living = [one for one in self._watched.values() if one.overrun is None]
        if not living:
            return None
        soonest = min([self._look_at, *(one.ends_at for one in living if one.ends_at is not None)])
        return max(0, int((soonest - self._clock()) * 1000) + 1)

    def look(self, tree_of: Callable[[int], Iterable[int]]) -> list[int]:
        """The commands to be killed now, each once. `tree_of` gives a command's processes."""
        now, found = self._clock(), list[int]()
        for token, one in self._watched.items():
            if one.ends_at is not None and now >= one.ends_at and one.overrun is None:
                bound = math.ceil(one.limits.command_s or 0)
                one.overrun = Overrun(limit="command_seconds", allowed=bound, measured=bound)
                found.append(token)
        if now < self._look_at or not self._watched:
            return found
        self._look_at = now + _LOOK_S
        trees = {
            token: frozenset(tree_of(token))
            for token, one in self._watched.items()
            if one.overrun is None
        }
        for token, tree in trees.items():
            limits = self._watched[token].limits
            if over := _over(
                tree, "command", limits.command_processes, limits.command_memory_bytes
            ):
                self._watched[token].overrun = over
                found.append(token)
        left = {token: tree for token, tree in trees.items() if token not in found}
        return found + self._too_much_together(left)

    def _too_much_together(self, trees: dict[int, frozenset[int]]) -> list[int]:
        """All that run are over the agent's bound: its largest command goes."""
        if not trees:
            return []
        limits = next(self._watched[token].limits for token in trees)
        everyone = frozenset[int]().union(*trees.values())
        over = _over(everyone, "agent", limits.agent_processes, limits.agent_memory_bytes)
        if over is None:
            return []
        by_memory = over.limit == "agent_memory"
        victim = max(trees, key=lambda one: _resident(trees[one]) if by_memory else len(trees[one]))
        self._watched[victim].overrun = over
        return [victim]


def _come_first(*, is_first: bool) -> None:
    """Before ordinary processes, or like them again: thousands of sessions would leave us nothing.

    Only a root user may; for any other the kernel itself bounds the number of his processes. What
    this process starts is ordinary.
    """
    policy = (os.SCHED_RR if is_first else os.SCHED_OTHER) | os.SCHED_RESET_ON_FORK
    with suppress(OSError):
        os.sched_setscheduler(0, policy, os.sched_param(1 if is_first else 0))


def _over(
    tree: frozenset[int], whose: str, processes: int | None, memory: int | None
) -> Overrun | None:
    if processes is not None and len(tree) > processes:
        return Overrun(limit=f"{whose}_processes", allowed=processes, measured=len(tree))
    if memory is None or _resident(tree) <= memory:
        return None
    measured = sum(_own_share(pid) for pid in tree)
    if measured <= memory:
        return None
    return Overrun(limit=f"{whose}_memory", allowed=memory, measured=measured)


def _resident(tree: Iterable[int]) -> int:
    """Bytes, shared pages counted in every process."""
    return sum(_resident_of(pid) for pid in tree)


def _resident_of(pid: int) -> int:
    words = _read(f"/proc/{pid}/statm").split()
    return int(words[1]) * _PAGE_BYTES if len(words) > 1 else 0


def _own_share(pid: int) -> int:
    """Bytes, each shared page divided among its users, and what was swapped out."""
    total = 0
    lines = _read(f"/proc/{pid}/smaps_rollup").splitlines()
    for line in lines:
        if line.startswith((b"Pss:", b"SwapPss:")):
            total += int(line.split()[1]) * 1024
    return total if lines else _resident_of(pid)  # not ours to read: the rougher figure


def _read(path: str) -> bytes:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return b""
    try:
        return os.read(fd, 8192)
    except OSError:  # it ended just now
        return b""
    finally:
        os.close(fd)

"""Measures what running commands use and finds those that exceed their limits.

It measures only while a limited command runs, as often as `watchdog_schedule` says, all commands in
one walk. Cheap figures come first. Only what seems to exceed its limit is measured again with
shared pages divided among their users, so no command is killed for memory that its forks share. The
launcher does the killing.
"""

import math
import os
import time
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress

import msgspec

from swarm.mailbox.protocol.values.limits import ResourceLimits

from .cgroup import Cgroup, enter_cgroup
from .launcher_protocol import Overrun
from .process_usage import proportional_bytes, read_machine_load, resident_sum
from .watchdog_schedule import MachineLoad, ResourceHeadroom, WatchdogSchedule

Trees = Callable[[], Mapping[int, Collection[int]]]


class _Watched(msgspec.Struct):
    limits: ResourceLimits
    ends_at: float | None
    oom_kills: int  # in the cgroup, before it started or of other commands
    overrun: Overrun | None = None
    peak_bytes: int = 0  # the most that was seen


class Watchdog:
    """One launcher's watchdog. `watch` and `unwatch` bracket a command; see `next_check_ms`."""

    def __init__(
        self,
        clock: Callable[[], float] = time.monotonic,
        *,
        read: Callable[[], MachineLoad | None] = read_machine_load,
        may_come_first: bool = True,
        enter: Callable[[ResourceLimits], Cgroup | None] = enter_cgroup,
    ) -> None:
        self._clock, self._read, self._may_raise_priority = clock, read, may_come_first
        self._enter_cgroup = enter
        self._is_prioritized = False
        self._watched: dict[int, _Watched] = {}
        self._schedule = WatchdogSchedule()
        self._cgroup: Cgroup | None = None
        self._has_tried = False

    def watch(self, token: int, limits: ResourceLimits) -> None:
        """Watch a command, unless it has no limits."""
        if limits == ResourceLimits():
            return
        now = self._clock()
        self._schedule.note_start(now, is_first=not self._watched)
        ends_at = None if limits.command_s is None else now + limits.command_s
        self._watched[token] = _Watched(limits, ends_at, self._oom_kills())

    def peak_bytes(self, token: int) -> int:
        """The most memory that a watched command was seen to use; shared pages count each time."""
        watched = self._watched.get(token)
        return 0 if watched is None else watched.peak_bytes

    def unwatch(self, token: int, *, was_killed: bool = False) -> Overrun | None:
        """Stop watching; return the overrun for which swarm or the kernel killed it, if any."""
        watched = self._watched.pop(token, None)
        if watched is None:
            return None
        if not self._watched:
            self._set_priority(is_first=False)
        if watched.overrun is None and was_killed:
            return self._take_oom_kill(watched)
        return watched.overrun

    def _oom_kills(self) -> int:
        return 0 if self._cgroup is None else self._cgroup.oom_kills()

    def _take_oom_kill(self, killed: _Watched) -> Overrun | None:
        """The overrun of a killed command, if the kernel killed one in its time.

        The kernel counts its kills and does not name them. So one before the command's start is
        not told of it, and each is told of one command only.
        """
        if self._cgroup is None or self._oom_kills() <= killed.oom_kills:
            return None
        for other in self._watched.values():
            other.oom_kills += 1
        return self._cgroup.oom_overrun()

    def prepare(self, limits: ResourceLimits) -> None:
        """Before the first limited command: set the kernel's own limits where possible."""
        if not self._has_tried and limits != ResourceLimits():
            self._has_tried = True
            self._cgroup = self._enter_cgroup(limits)

    def drop_priority(self) -> None:
        """Return to ordinary priority, before everything is killed.

        Hundreds of prioritized launchers would keep the processor from the dying processes. The
        priority stays while an overrun is being killed, so that a fork bomb can be outrun.
        """
        if all(one.overrun is None for one in self._watched.values()):
            self._set_priority(is_first=False)

    def close(self) -> None:
        """Leave the cgroup, when every command is dead."""
        if self._cgroup is not None:
            self._cgroup.leave()

    def next_check_ms(self) -> int | None:
        """Milliseconds until the next check; None: no check is needed."""
        living = [one for one in self._watched.values() if one.overrun is None]
        if not living:
            return None
        soonest = min(
            [self._schedule.next_at, *(one.ends_at for one in living if one.ends_at is not None)]
        )
        return max(0, int((soonest - self._clock()) * 1000) + 1)

    def check(self, trees_of: Trees) -> list[int]:
        """The commands to be killed now, each once. `trees_of` gives each command's processes."""
        now, found = self._clock(), list[int]()
        for token, one in self._watched.items():
            if one.ends_at is not None and now >= one.ends_at and one.overrun is None:
                bound = math.ceil(one.limits.command_s or 0)
                one.overrun = Overrun(limit="command_seconds", allowed=bound, measured=bound)
                found.append(token)
        if now < self._schedule.next_at or all(one.overrun for one in self._watched.values()):
            return found
        machine = self._read()
        if not self._schedule.is_due(now, machine):
            return found
        if self._schedule.has_grown:
            # Measuring a fork bomb takes long, and it grows meanwhile.
            self._set_priority(is_first=True)
        trees = {
            token: frozenset(tree)
            for token, tree in trees_of().items()
            if token in self._watched and self._watched[token].overrun is None
        }
        found += self._find_overruns(trees)
        room, is_near = _remaining_headroom(trees, self._watched)
        self._schedule.note_check(now, room, machine)
        self._set_priority(is_first=is_near or any(one.overrun for one in self._watched.values()))
        return found

    def _find_overruns(self, trees: Mapping[int, frozenset[int]]) -> list[int]:
        found = list[int]()
        for token, tree in trees.items():
            limits = self._watched[token].limits
            if over := _exceeded_limit(
                tree, "command", limits.command_processes, limits.command_memory_bytes
            ):
                self._watched[token].overrun = over
                found.append(token)
        left = {token: tree for token, tree in trees.items() if token not in found}
        return found + self._find_agent_overrun(left)

    def _find_agent_overrun(self, trees: dict[int, frozenset[int]]) -> list[int]:
        """If all commands together exceed the agent's limit, choose the largest one."""
        if not trees:
            return []
        limits = next(self._watched[token].limits for token in trees)
        everyone = frozenset[int]().union(*trees.values())
        over = _exceeded_limit(everyone, "agent", limits.agent_processes, limits.agent_memory_bytes)
        if over is None:
            return []
        by_memory = over.limit == "agent_memory"
        victim = max(
            trees, key=lambda one: resident_sum(trees[one]) if by_memory else len(trees[one])
        )
        self._watched[victim].overrun = over
        return [victim]

    def _set_priority(self, *, is_first: bool) -> None:
        """Take real-time priority while a limit is near, or drop it again.

        Thousands of sessions would leave the launcher no processor time. Only root may do this; for
        any other user the kernel limits the number of processes. Children get ordinary priority.
        """
        if is_first == self._is_prioritized or not self._may_raise_priority:
            return
        self._is_prioritized = is_first
        policy = (os.SCHED_RR if is_first else os.SCHED_OTHER) | os.SCHED_RESET_ON_FORK
        with suppress(OSError):
            os.sched_setscheduler(0, policy, os.sched_param(1 if is_first else 0))


def _exceeded_limit(
    tree: frozenset[int], whose: str, processes: int | None, memory: int | None
) -> Overrun | None:
    if processes is not None and len(tree) > processes:
        return Overrun(limit=f"{whose}_processes", allowed=processes, measured=len(tree))
    if memory is None or resident_sum(tree) <= memory:
        return None
    measured = sum(proportional_bytes(pid) for pid in tree)
    if measured <= memory:
        return None
    return Overrun(limit=f"{whose}_memory", allowed=memory, measured=measured)


def _remaining_headroom(
    trees: Mapping[int, frozenset[int]], watched: Mapping[int, _Watched]
) -> tuple[ResourceHeadroom, bool]:
    """The least headroom of all; and whether half of a limit on processes is used up.

    Notes the memory of each command that has a limit on it.
    """
    everyone = frozenset[int]().union(*trees.values())
    memory = processes = float("inf")
    is_near = False
    for tree, one, of_command in (
        *((tree, watched[token], True) for token, tree in trees.items()),
        *((everyone, watched[token], False) for token in [*trees][:1]),
    ):
        limits = one.limits
        most = limits.command_processes if of_command else limits.agent_processes
        if most is not None:
            processes = min(processes, most - len(tree))
            is_near = is_near or 2 * len(tree) > most
        bound = limits.command_memory_bytes if of_command else limits.agent_memory_bytes
        if bound is not None:
            used = resident_sum(tree)
            memory = min(memory, bound - used)
            if of_command:
                one.peak_bytes = max(one.peak_bytes, used)
    return ResourceHeadroom(memory, processes), is_near

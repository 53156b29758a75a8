"""Decides when the watchdog measures again: soon where a limit may be near, else rarely. No I/O.

A check costs some file reads for each process of each command. Between two checks, two figures of
the whole machine tell whether one is needed: what a process tree takes, the machine lacks. If other
programs free the same amount at the same moment, the growth stays hidden until the next check,
which comes in any case.
"""

from typing import NamedTuple

# Between two checks: while something grows; while nothing does.
SHORT_INTERVAL_S, LONG_INTERVAL_S = 0.25, 5.0
_CALM_AFTER_S = 1.0  # interval reached after ever longer ones: nothing grew for two seconds
# Once it is calm, the soonest moment at which a limit could be reached sets the next wake-up:
# waking up is what costs, not the two figures.
_MOST_BYTES_PER_S, _MOST_FORKS_PER_S = 4 << 30, 2_000
_LONGEST_TICK_S = 2.0
_SHARE = 4  # a loss of a quarter of the headroom needs a check
_STEADY = 16  # growth below this part of the headroom between two checks is steady


class MachineLoad(NamedTuple):
    """The whole machine: available memory, and the number of tasks."""

    available_bytes: int
    tasks: int


class ResourceHeadroom(NamedTuple):
    """What the command or agent nearest to a limit may still take."""

    memory_bytes: float = float("inf")
    processes: float = float("inf")


class WatchdogSchedule:
    """Ask `is_due` at `next_at`; call `note_check` after each check."""

    def __init__(self) -> None:
        self.next_at = 0.0
        self._check_at = 0.0
        self._interval_s = SHORT_INTERVAL_S
        self._headroom = ResourceHeadroom(0, 0)
        self._last_load: MachineLoad | None = None
        self.has_grown = False  # whether the last `is_due` found growth

    def note_start(self, now: float, *, is_first: bool) -> None:
        """A command begins; nothing is known of it."""
        self._interval_s = SHORT_INTERVAL_S
        soon = now + SHORT_INTERVAL_S
        self._check_at = soon if is_first else min(self._check_at, soon)
        self.next_at = soon if is_first else min(self.next_at, soon)

    def is_due(self, now: float, machine: MachineLoad | None) -> bool:
        """True if it is time for a check. `machine` None: no figures, so checks come soon."""
        if now < self.next_at:
            return False
        self.has_grown = self._has_grown(machine)
        if machine is None or now >= self._check_at or self.has_grown:
            return True
        self.next_at = min(self._check_at, now + self._poll_interval_s())
        return False

    def note_check(self, now: float, room: ResourceHeadroom, machine: MachineLoad | None) -> None:
        """A check was made, and `room` is left."""
        taken = ResourceHeadroom(
            self._headroom.memory_bytes - room.memory_bytes,
            self._headroom.processes - room.processes,
        )
        is_steady = (
            machine is not None
            and min(room) > 0
            and taken.memory_bytes * _STEADY <= room.memory_bytes
            and taken.processes * _STEADY <= room.processes
        )
        self._interval_s = (
            min(2 * self._interval_s, LONG_INTERVAL_S) if is_steady else SHORT_INTERVAL_S
        )
        self._headroom, self._last_load = room, machine
        self._check_at = now + self._interval_s
        self.next_at = min(self._check_at, now + self._poll_interval_s())

    def _poll_interval_s(self) -> float:
        """Seconds between two readings of the machine's figures."""
        if self._interval_s <= _CALM_AFTER_S:
            return SHORT_INTERVAL_S
        room = self._headroom
        soonest = min(room.memory_bytes / _MOST_BYTES_PER_S, room.processes / _MOST_FORKS_PER_S)
        return max(SHORT_INTERVAL_S, min(soonest, _LONGEST_TICK_S))

    def _has_grown(self, machine: MachineLoad | None) -> bool:
        if machine is None or self._last_load is None:
            return False
        gone = self._last_load.available_bytes - machine.available_bytes
        more = machine.tasks - self._last_load.tasks
        return (
            gone * _SHARE > self._headroom.memory_bytes or more * _SHARE > self._headroom.processes
        )

"""`python -P command.py PAGE run …`: the real command, whose wire, clock and disk obey a page.

Everything else is the real thing. What is forked from this process is disturbed with it; what is
started cold begins here too: `command.py PAGE cold-server|cold-child …`.
"""

import os
import random
import sys
import time
from collections.abc import Iterable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))  # scripts, not a package

from knobs import Knobs
from stacks import dump_on_signal

from swarm.mailbox import wire


class _Dice:
    """A generator of random numbers for each process: forks do not share their parent's."""

    def __init__(self) -> None:
        self._pid, self._random = 0, random.Random()

    def roll(self) -> float:
        if self._pid != os.getpid():
            self._pid = os.getpid()
            self._random = random.Random(f"{os.environ.get('CHAOS_SEED')}/{self._pid}")
        return self._random.random()


def disturb_wire(knobs: Knobs) -> None:
    """Every mailbox of this process and its forks loses, doubles and delays what the page says."""
    dice = _Dice()

    def fate() -> tuple[float, ...]:
        drop, double, delay = knobs.drop, knobs.double, knobs.delay
        if not drop + double + delay:
            return (0.0,)
        lot = dice.roll()
        if lot < drop:
            return ()
        if lot < drop + double:
            return (0.0, dice.roll() * knobs.late_s)
        if lot < drop + double + delay:
            return (dice.roll() * knobs.late_s + 0.0001,)
        return (0.0,)

    wire.disturb(fate)


def disturb_clock(knobs: Knobs) -> None:
    """The wall clock is as far off as the page says. Trio's own clock cannot jump."""
    now, now_ns = time.time, time.time_ns
    time.time = lambda: now() + knobs.clock_s
    time.time_ns = lambda: now_ns() + int(knobs.clock_s * 1e9)


def disturb_disk(knobs: Knobs) -> None:
    """Each write of the journal takes longer."""
    from swarm.supervisor.journal.files import JournalFiles

    append = JournalFiles.append

    def slowly(files: JournalFiles, name: str, lines: Iterable[bytes]) -> None:
        if pause_s := knobs.disk_s:
            time.sleep(pause_s)
        append(files, name, lines)

    JournalFiles.append = slowly  # type: ignore[method-assign, assignment]


def start_cold_here(page: str) -> None:
    """A process that is not forked is disturbed as well."""
    from swarm.supervisor import ignition

    programs = ignition.Programs(
        cold_forkserver=(__file__, page, "cold-server"), cold_child=(__file__, page, "cold-child")
    )
    ignition.Programs = lambda: programs  # type: ignore[assignment, misc]


def main() -> None:
    """Be the command, or what it starts cold."""
    page, role = sys.argv[1:3]
    knobs = Knobs(Path(page))
    disturb_wire(knobs)
    disturb_clock(knobs)
    dump_on_signal(Path(page).parent)
    if role == "cold-server":
        from swarm.worker import forkserver

        sys.argv[1:3] = []
        forkserver.main()
    elif role == "cold-child":
        from swarm.worker import cold

        sys.argv[1:3] = []
        cold.main()
    else:
        from swarm.supervisor.cli.entry import main as command

        disturb_disk(knobs)
        start_cold_here(page)
        sys.argv[1:2] = []
        command()


if __name__ == "__main__":
    main()

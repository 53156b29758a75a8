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

from fault_controls import FaultControls
from stack_dump import dump_on_signal

from swarm.mailbox.delivery import fault_injection


class _ProcessRandom:
    """A generator of random numbers for each process: forks do not share their parent's."""

    def __init__(self) -> None:
        self._pid, self._random = 0, random.Random()

    def random(self) -> float:
        if self._pid != os.getpid():
            self._pid = os.getpid()
            self._random = random.Random(f"{os.environ.get('CHAOS_SEED')}/{self._pid}")
        return self._random.random()


def inject_network_faults(knobs: FaultControls) -> None:
    """Every mailbox of this process and its forks loses, doubles and delays what the page says."""
    dice = _ProcessRandom()

    def fate() -> tuple[float, ...]:
        drop, double, delay = knobs.drop_share, knobs.duplicate_share, knobs.delay_share
        if not drop + double + delay:
            return (0.0,)
        lot = dice.random()
        if lot < drop:
            return ()
        if lot < drop + double:
            return (0.0, dice.random() * knobs.max_delay_s)
        if lot < drop + double + delay:
            return (dice.random() * knobs.max_delay_s + 0.0001,)
        return (0.0,)

    fault_injection.inject_faults(fate)


def inject_clock_offset(knobs: FaultControls) -> None:
    """The wall clock is as far off as the page says. Trio's own clock cannot jump."""
    now, now_ns = time.time, time.time_ns
    time.time = lambda: now() + knobs.clock_s
    time.time_ns = lambda: now_ns() + int(knobs.clock_s * 1e9)


def inject_disk_delay(knobs: FaultControls) -> None:
    """Each write of the journal takes longer."""
    from swarm.supervisor.journal.journal_files import JournalFiles

    append = JournalFiles.append

    def slowly(files: JournalFiles, name: str, lines: Iterable[bytes]) -> None:
        if pause_s := knobs.disk_s:
            time.sleep(pause_s)
        append(files, name, lines)

    JournalFiles.append = slowly  # type: ignore[method-assign, assignment]


def inject_into_cold_starts(page: str) -> None:
    """A process that is not forked is disturbed as well."""
    from swarm.supervisor.processes import early_start

    programs = early_start.ChildPrograms(
        cold_forkserver=(__file__, page, "cold-server"), cold_child=(__file__, page, "cold-child")
    )
    early_start.ChildPrograms = lambda: programs  # type: ignore[assignment, misc]


def main() -> None:
    """Be the command, or what it starts cold."""
    page, role = sys.argv[1:3]
    knobs = FaultControls(Path(page))
    inject_network_faults(knobs)
    inject_clock_offset(knobs)
    dump_on_signal(Path(page).parent)
    if role == "cold-server":
        from swarm.worker.process import fork_server

        sys.argv[1:3] = []
        fork_server.main()
    elif role == "cold-child":
        from swarm.worker.process import cold_entry

        sys.argv[1:3] = []
        cold_entry.main()
    else:
        from swarm.supervisor.clients.cli.entry import main as command

        inject_disk_delay(knobs)
        inject_into_cold_starts(page)
        sys.argv[1:2] = []
        command()


if __name__ == "__main__":
    main()

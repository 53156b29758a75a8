"""What orphans of a command used is counted for it, in whatever order they are reaped."""

import os
import time

from swarm.worker.exec import orphan_usage
from swarm.worker.exec.launcher_protocol import CommandUsage
from swarm.worker.exec.orphan_usage import OrphanUsage


def ended_child() -> tuple[int, object]:
    """A process that used some processor time, and what the kernel says of it."""
    pid = os.fork()
    if pid == 0:
        began = time.process_time()
        while time.process_time() - began < 0.03:
            pass
        os._exit(0)
    _, _, used = os.wait4(pid, 0)
    return pid, used


def test_an_orphan_that_was_there_at_the_end_counts_for_its_command():
    orphans = OrphanUsage()
    pid, used = ended_child()
    orphans.note(7, [pid])
    orphans.reaped(pid, used)
    assert orphans.take(7).cpu_s >= 0.02
    assert orphans.take(7) == CommandUsage()


def test_one_that_is_reaped_before_its_commands_first_process_counts_once():
    orphans = OrphanUsage()
    orphans.reaped(*ended_child())
    assert orphans.take_early().cpu_s >= 0.02
    assert orphans.take_early() == CommandUsage()


def test_one_of_long_before_counts_for_nobody(monkeypatch):
    orphans = OrphanUsage()
    orphans.reaped(*ended_child())
    monkeypatch.setattr(orphan_usage, "_EARLY_S", -1.0)
    assert orphans.take_early() == CommandUsage()

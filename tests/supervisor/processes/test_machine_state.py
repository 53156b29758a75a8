"""What is left of the machine: every figure may be missing, or stand there in an unknown form."""

import os
import subprocess
import sys

import pytest

from swarm.supervisor.processes import machine_state
from swarm.supervisor.processes.machine_facts import MachineState
from swarm.supervisor.processes.machine_state import (
    TreeUsage,
    parse_pressure,
    read_machine_state,
    read_tree_usage,
)

FILES = {
    "/proc/meminfo": "MemTotal:  8000 kB\nMemAvailable:    4000 kB\n",
    "/proc/loadavg": "1.50 1.00 0.50 2/300 1234\n",
    "/proc/pressure/cpu": "some avg10=22.33 avg60=24.75 avg300=12.90 total=57\nfull avg10=0.00",
    "/proc/pressure/memory": "some avg10=3.00 avg60=0.37\nfull avg10=1.00 avg60=0.18",
    "/proc/pressure/io": "some avg10=9.00 avg60=0.00\nfull avg10=4.00 avg60=0.00",
}
PROCESSORS = len(os.sched_getaffinity(0))


def read_from(files):
    return read_machine_state(lambda path: files.get(path, ""))


def test_all_figures_are_read():
    assert read_from(FILES) == MachineState(
        processors=PROCESSORS, available_bytes=4_096_000, cpu_pressure=22.33, memory_pressure=3.0,
        io_pressure=4.0, load=1.5,
    )  # fmt: skip


def test_a_kernel_that_tells_nothing_leaves_the_figures_open():
    assert read_from({}) == MachineState(processors=PROCESSORS)


@pytest.mark.parametrize("limit_file", ["max", "current"])
def test_a_container_has_no_more_memory_than_its_group(limit_file):
    group = {"/sys/fs/cgroup/memory.max": "3000000", "/sys/fs/cgroup/memory.current": "1000000"}
    assert read_from({**FILES, **group}).available_bytes == 2_000_000
    group[f"/sys/fs/cgroup/memory.{limit_file}"] = "max"
    assert read_from({**FILES, **group}).available_bytes == 4_096_000


@pytest.mark.parametrize(
    "text", ["", "some", "some avg10=", "some avg10=x", "some avg10=-1", "some avg10=nan", "\0\0"]
)
def test_a_pressure_in_an_unknown_form_is_none(text):
    assert parse_pressure(text, "some") is None


def test_this_machine_has_processors_and_memory():
    state = read_machine_state()
    assert state.processors >= 1
    assert state.available_bytes


_WORKS = (
    "import os, sys, time\n"
    "if os.fork() == 0:\n"
    "    while time.process_time() < 0.3: pass\n"
    "    os._exit(0)\n"
    "os.wait()\n"
    "print('worked', flush=True)\n"
    "sys.stdin.read()\n"
)


def test_a_tree_is_measured_with_the_children_that_it_reaped_and_within_a_bound(monkeypatch):
    """The process that worked has ended; what it used counts for its parent."""
    with subprocess.Popen(
        [sys.executable, "-c", _WORKS], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as child:
        assert child.stdout.readline() == b"worked\n"
        usage = read_tree_usage(os.getpid())
        assert usage.is_whole
        assert usage.cpu_s >= 0.25  # the kernel counts in hundredths
        assert usage.resident_bytes > 1 << 20
        monkeypatch.setattr(machine_state, "MOST_PROCESSES", 0)
        assert read_tree_usage(os.getpid()) == TreeUsage(is_whole=False)
        child.stdin.close()
    assert read_tree_usage(0) == TreeUsage()


def test_a_tree_works_while_one_of_its_processes_runs():
    program = "print('runs', flush=True)\nwhile True: pass\n"
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE) as child:
        try:
            assert child.stdout.readline() == b"runs\n"
            assert read_tree_usage(os.getpid()).is_working
        finally:
            child.kill()

"""What is left of the machine: every figure may be missing, or stand there in an unknown form."""

import os

import pytest

from swarm.supervisor.leases.lease_scheduler import MachineState
from swarm.supervisor.leases.machine_state import (
    parse_pressure,
    read_machine_state,
    resident_bytes_below,
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
    assert resident_bytes_below(os.getpid()) >= 0

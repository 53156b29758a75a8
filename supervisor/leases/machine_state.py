"""Reads what is left of this machine from /proc, with one system call a figure.

A figure that the kernel does not tell, or tells in a form that is not known, is None.
"""

import os
from collections.abc import Callable

from swarm.mailbox.process_tree import descendants_of

from .lease_scheduler import MachineState

ReadText = Callable[[str], str]
_MOST_BYTES = 8192
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
# What a container may use, and uses: cgroup version 2, then 1.
_CONTAINER_FILES = (
    ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"),
    (
        "/sys/fs/cgroup/memory/memory.limit_in_bytes",
        "/sys/fs/cgroup/memory/memory.usage_in_bytes",
    ),
)


def read_text(path: str) -> str:
    """The start of a file of the kernel; "" if it cannot be read."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return ""
    try:
        return os.read(fd, _MOST_BYTES).decode("ascii", "replace")
    except OSError:  # PSI can be switched off while its files stay
        return ""
    finally:
        os.close(fd)


def read_machine_state(read: ReadText = read_text) -> MachineState:
    """Read every figure."""
    return MachineState(
        processors=len(os.sched_getaffinity(0)) or 1,
        available_bytes=_available_bytes(read),
        cpu_pressure=parse_pressure(read("/proc/pressure/cpu"), "some"),
        memory_pressure=parse_pressure(read("/proc/pressure/memory"), "some"),
        io_pressure=parse_pressure(read("/proc/pressure/io"), "full"),
        load=_number(read("/proc/loadavg").partition(" ")[0]),
    )


def parse_pressure(text: str, kind: str) -> float | None:
    """`avg10` of the line `kind` ("some", "full") of a file of /proc/pressure."""
    for line in text.splitlines():
        words = line.split()
        if words[:1] == [kind]:
            shares = (word.removeprefix("avg10=") for word in words if word.startswith("avg10="))
            return _number(next(shares, ""))
    return None


def resident_bytes_below(pid: int) -> int:
    """Resident memory of all processes below this one; pages that they share count each time."""
    total = 0
    for child in descendants_of(pid):
        fields = read_text(f"/proc/{child}/statm").split()
        total += int(fields[1]) * _PAGE_BYTES if len(fields) > 1 and fields[1].isdecimal() else 0
    return total


def _available_bytes(read: ReadText) -> int | None:
    found: list[int] = []
    for line in read("/proc/meminfo").splitlines():
        name, _, rest = line.partition(":")
        if name == "MemAvailable" and rest.split()[:1] and rest.split()[0].isdecimal():
            found.append(int(rest.split()[0]) * 1024)
    for limit_file, used_file in _CONTAINER_FILES:
        limit, used = read(limit_file).strip(), read(used_file).strip()
        if limit.isdecimal() and used.isdecimal():
            found.append(max(0, int(limit) - int(used)))
    return min(found, default=None)


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if 0 <= value < float("inf") else None

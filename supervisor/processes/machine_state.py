"""Reads what is left of this machine from /proc, with one system call a figure.

A figure that the kernel does not tell, or tells in a form that is not known, is None.
"""

import os
from collections.abc import Callable
from pathlib import Path

from swarm.mailbox.base.process_tree import descendants_of, resident_bytes
from swarm.mailbox.protocol.values.base import Value

from .machine_facts import MachineState

ReadText = Callable[[str], str]
_MOST_BYTES = 8192
_TICKS = os.sysconf("SC_CLK_TCK")
MOST_PROCESSES = 512  # of one tree that are looked at
# Of /proc/PID/stat after the name: state; utime, stime, cutime, cstime.
_STATE, _TIMES = slice(0, 1), slice(11, 15)
_WORKING = (["R"], ["D"])
# The limit of a container in cgroup version 2, then 1; a missing file means no limit.
_CGROUP_LIMIT_FILES = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")
# What a container may use, and uses.
_CONTAINER_FILES = (
    ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"),
    (
        "/sys/fs/cgroup/memory/memory.limit_in_bytes",
        "/sys/fs/cgroup/memory/memory.usage_in_bytes",
    ),
)


def memory_bytes(bounds: tuple[str, ...] = _CGROUP_LIMIT_FILES) -> int:
    """The machine's memory, or the container's limit if that is less."""
    found = [os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")]
    for name in bounds:
        try:
            text = Path(name).read_text("ascii").strip()
        except (OSError, UnicodeDecodeError):
            continue
        if text.isdecimal() and int(text) > 0:  # `max` means no limit
            found.append(int(text))
    return min(found)


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


class TreeUsage(Value):
    """What the processes below one process use."""

    resident_bytes: int = 0  # pages that they share count each time
    cpu_s: float = 0.0  # since they began, also of their children that they reaped
    is_working: bool = False  # one of them runs, or waits for a disk, at this moment
    is_whole: bool = True  # False: there are more processes than were looked at


def read_tree_usage(pid: int) -> TreeUsage:
    """Look at the first 512 processes below this one. Blocks for some milliseconds."""
    tree = descendants_of(pid, most=MOST_PROCESSES + 1)
    resident, ticks, is_working = 0, 0, False
    for one in tree[:MOST_PROCESSES]:
        resident += resident_bytes(one)
        stat = read_text(f"/proc/{one}/stat").rpartition(") ")[2].split()
        ticks += sum(_counts(stat[_TIMES]))
        is_working = is_working or stat[_STATE] in _WORKING
    return TreeUsage(
        resident_bytes=resident,
        cpu_s=ticks / _TICKS,
        is_working=is_working,
        is_whole=len(tree) <= MOST_PROCESSES,
    )


def _counts(fields: list[str]) -> list[int]:
    return [int(one) for one in fields if one.isdecimal()]


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

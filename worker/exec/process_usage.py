"""Reads from /proc what processes and the machine use, with plain system calls.

A file that is gone or not readable gives no figure, and never an error.
"""

import os
from collections.abc import Iterable

from swarm.mailbox.base.process_tree import resident_bytes

from .watchdog_schedule import MachineLoad


def read_machine_load() -> MachineLoad | None:
    """None where /proc lacks either figure."""
    memory, load = read_proc_file("/proc/meminfo"), read_proc_file("/proc/loadavg").split()
    available = _kilobytes(memory, b"MemAvailable:")
    if available is None or len(load) < 4:
        return None
    swap = _kilobytes(memory, b"SwapFree:") or 0  # swapped-out memory counts as taken too
    tasks = load[3].partition(b"/")[2]
    return MachineLoad((available + swap) * 1024, int(tasks)) if tasks.isdigit() else None


def _kilobytes(text: bytes, name: bytes) -> int | None:
    at = text.find(name)
    word = text[at + len(name) :].split(None, 1)[:1] if at >= 0 else []
    return int(word[0]) if word and word[0].isdigit() else None


def resident_sum(tree: Iterable[int]) -> int:
    """Bytes; shared pages are counted in every process."""
    return sum(resident_bytes(pid) for pid in tree)


def proportional_bytes(pid: int) -> int:
    """Bytes, each shared page divided among its users, plus what was swapped out."""
    total = 0
    lines = read_proc_file(f"/proc/{pid}/smaps_rollup").splitlines()
    for line in lines:
        if line.startswith((b"Pss:", b"SwapPss:")):
            total += int(line.split()[1]) * 1024
    return total if lines else resident_bytes(pid)  # not readable: use the rougher figure


def read_proc_file(path: str) -> bytes:
    """The first 8 KiB; empty if the file cannot be read."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return b""
    try:
        return os.read(fd, 8192)
    except OSError:  # the process has just ended
        return b""
    finally:
        os.close(fd)

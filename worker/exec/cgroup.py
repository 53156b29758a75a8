"""A cgroup for the commands of one agent, where this user may create one.

Cgroup version 2 only, and only below a folder that is writable and already delegates the memory and
pids controllers: no group of others is moved or changed. The launcher enters the cgroup before its
first command, so every command is inside from its first instruction on. The watchdog runs in any
case and enforces what the cgroup cannot.
"""

import os
from contextlib import suppress
from pathlib import Path

from swarm.mailbox.protocol.values.limits import ResourceLimits

from .launcher_protocol import Overrun

_NEEDED = {"memory", "pids"}
_PREFIX = "swarm-"


class Cgroup:
    """The cgroup of this process and of all that it starts; made by `enter_cgroup`."""

    def __init__(self, folder: Path, home: Path, memory_bytes: int | None) -> None:
        self._folder, self._original_group, self._memory_bytes = folder, home, memory_bytes

    def oom_kills(self) -> int:
        """How many processes of this cgroup the kernel has killed for their memory, so far."""
        return _count(self._folder / "memory.events", "oom_kill")

    def oom_overrun(self) -> Overrun | None:
        """What such a kill means; None without a limit on memory."""
        if self._memory_bytes is None:
            return None
        peak = _number(self._folder / "memory.peak") or self._memory_bytes
        return Overrun(limit="agent_memory", allowed=self._memory_bytes, measured=peak)

    def leave(self) -> None:
        """Return to the original cgroup and remove this one; call it when all commands are dead."""
        with suppress(OSError):
            _write(self._original_group / "cgroup.procs", "0")
            self._folder.rmdir()


def find_parent_cgroup(proc: Path = Path("/proc/self")) -> tuple[Path, Path] | None:
    """The cgroup where groups may be made, and the current one; None if there is none."""
    mount, home = _mount_of(proc), _current_group_of(proc)
    if mount is None or home is None:
        return None
    here = Path(f"{mount}/{home}".rstrip("/"))
    above = here.parent if here != mount else None
    # A cgroup that has processes of its own cannot delegate controllers, so look at its parent.
    if above is None or not {*_read_words(above / "cgroup.subtree_control")} >= _NEEDED:
        return None
    writable = os.access(above, os.W_OK) and os.access(above / "cgroup.procs", os.W_OK)
    return (above, here) if writable else None


def enter_cgroup(limits: ResourceLimits, proc: Path = Path("/proc/self")) -> Cgroup | None:
    """Make a cgroup with the agent's limits and enter it; None where that is not possible."""
    found = find_parent_cgroup(proc)
    if found is None or (limits.agent_memory_bytes is None and limits.agent_processes is None):
        return None
    above, here = found
    for left in above.glob(f"{_PREFIX}*"):
        with suppress(OSError):
            left.rmdir()  # left by a killed launcher; a cgroup in use cannot be removed
    folder = above / f"{_PREFIX}{os.getpid()}"
    try:
        folder.mkdir()
        if limits.agent_memory_bytes is not None:
            _write(folder / "memory.max", str(limits.agent_memory_bytes))
        if limits.agent_processes is not None:
            _write(folder / "pids.max", str(limits.agent_processes + 1))  # + 1: the launcher
        _write(folder / "cgroup.procs", "0")
    except OSError:
        with suppress(OSError):
            folder.rmdir()
        return None
    return Cgroup(folder, here, limits.agent_memory_bytes)


def _mount_of(proc: Path) -> Path | None:
    """The path where cgroup version 2 is mounted from its root."""
    for line in _text(proc / "mountinfo").splitlines():
        left, _, right = line.partition(" - ")
        fields = left.split()
        if right.startswith("cgroup2 ") and len(fields) > 4 and fields[3] == "/":
            return Path(fields[4])
    return None


def _current_group_of(proc: Path) -> str | None:
    for line in _text(proc / "cgroup").splitlines():
        if line.startswith("0::/") and ".." not in line:
            return line.removeprefix("0::/")
    return None


def _read_words(file: Path) -> list[str]:
    return _text(file).split()


def _number(file: Path) -> int:
    text = _text(file).strip()
    return int(text) if text.isdecimal() else 0


def _count(file: Path, key: str) -> int:
    for line in _text(file).splitlines():
        name, _, value = line.partition(" ")
        if name == key and value.isdecimal():
            return int(value)
    return 0


def _text(file: Path) -> str:
    try:
        return file.read_text("utf-8", "replace")
    except OSError:
        return ""


def _write(file: Path, text: str) -> None:
    fd = os.open(file, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(fd, text.encode("ascii"))
    finally:
        os.close(fd)

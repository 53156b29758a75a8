"""Memory of the processes that serve a model on this machine."""

import os
from contextlib import suppress
from ipaddress import ip_address
from pathlib import Path
from urllib.parse import urlsplit

from swarm.mailbox.base.process_tree import resident_bytes

_PROC = Path("/proc")
_LISTEN = "0A"


def server_memory_bytes(base_url: str) -> int | None:
    """Resident memory of the server that listens at this port, and of all processes below it; None
    if it is not known: the server is elsewhere, or its process belongs to another user.
    """
    parts = urlsplit(base_url)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    if not _is_here(parts.hostname or ""):
        return None
    sockets = _listening_sockets(port)
    owners = {pid for pid in _pids() if _holds_one(pid, sockets)} if sockets else set[int]()
    if not owners:
        return None
    parents = {pid: _parent(pid) for pid in _pids()}
    return sum(resident_bytes(pid) for pid in parents if _is_below(pid, owners, parents))


def child_memory_bytes() -> int:
    """Resident memory of all processes below this one."""
    own = os.getpid()
    parents = {pid: _parent(pid) for pid in _pids()}
    below = (pid for pid in parents if pid != own and _is_below(pid, {own}, parents))
    return sum(map(resident_bytes, below))


def _is_here(host: str) -> bool:
    with suppress(ValueError):
        return ip_address(host).is_loopback
    return host == "localhost"


def _listening_sockets(port: int) -> set[str]:
    """Inodes of the sockets that listen at this port."""
    found: set[str] = set()
    for table in ("tcp", "tcp6"):
        with suppress(OSError):
            for line in (_PROC / "net" / table).read_text().splitlines()[1:]:
                fields = line.split()
                if fields[3] == _LISTEN and int(fields[1].rpartition(":")[2], 16) == port:
                    found.add(fields[9])
    return found


def _pids() -> list[int]:
    return [int(entry.name) for entry in _PROC.iterdir() if entry.name.isdigit()]


def _holds_one(pid: int, inodes: set[str]) -> bool:
    wanted = {f"socket:[{inode}]" for inode in inodes}
    with suppress(OSError):
        for fd in (_PROC / str(pid) / "fd").iterdir():
            with suppress(OSError):
                if str(fd.readlink()) in wanted:
                    return True
    return False


def _parent(pid: int) -> int:
    with suppress(OSError, ValueError, IndexError):
        return int((_PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()[1])
    return 0


def _is_below(pid: int, owners: set[int], parents: dict[int, int]) -> bool:
    for _ in range(64):
        if pid in owners:
            return True
        pid = parents.get(pid, 0)
    return False

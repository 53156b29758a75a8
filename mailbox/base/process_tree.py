"""Finds, weighs and kills the descendants of a process through /proc. Linux only.

A subreaper that calls `kill_descendants` on itself leaves no descendant alive: it adopts and finds
even a `setsid nohup` grandchild, and SIGKILL also ends stopped processes.

The kernel hands a process's children to the subreaper before the process becomes a zombie. So a
scan that finds no live process below the subreaper, while none was reaped, has missed none, unless
the subreaper adopted a process after the scan began. In that case `live_descendants_of` scans
again.
"""

import os
import signal
import time
from collections.abc import Callable, Collection
from contextlib import suppress
from pathlib import Path

_MAX_ROUNDS = 256  # a fork bomb inside a pid limit ends long before
_EMPTY_ROUNDS = 3  # a snapshot can miss a process while it is being adopted
_FIRST_PAUSE_S, _MAX_PAUSE_S = 0.0005, 0.01
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_STATE, _THREADS = 0, 17  # fields of /proc/PID/stat after the name


def resident_bytes(pid: int | str) -> int:
    """Resident memory of a process, or of this one ("self"); 0 if there is none."""
    try:  # plain calls: the heartbeat of an idle agent must cost little
        fd = os.open(f"/proc/{pid}/statm", os.O_RDONLY | os.O_CLOEXEC)
        try:
            return int(os.read(fd, 256).split()[1]) * _PAGE_BYTES
        finally:
            os.close(fd)
    except (OSError, ValueError, IndexError):
        return 0


def children_of(pid: int) -> list[int]:
    """The direct children of all threads of `pid`; [] when it is gone."""
    found: list[int] = []
    with suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            with suppress(OSError):
                found += map(int, (task / "children").read_text().split())
    return found


def descendants_of(pid: int, *, most: int | None = None) -> list[int]:
    """All descendants, parents before their children. A snapshot: more may start meanwhile.

    `most` bounds the result and the work; None: no bound.
    """
    return _with_descendants(children_of(pid), most)


def _with_descendants(row: list[int], most: int | None = None) -> list[int]:
    found: list[int] = []
    while row and (most is None or len(found) < most):
        found += row[:most]
        row = [child for parent in row[:most] for child in children_of(parent)]
    return found[:most]


def live_descendants_of(pid: int, is_ours: Callable[[int], bool] | None = None) -> list[int]:
    """The live processes below `pid`, parents before their children.

    If `pid` is this process and it is a subreaper, an empty result is certain.

    Args:
        is_ours: Says whether a child of `pid`, with all below it, counts. None: all count.
    """
    children = children_of(pid)
    while True:
        ours = [child for child in children if is_ours is None or is_ours(child)]
        alive = [one for one in _with_descendants(ours) if not is_zombie(one)]
        again = children_of(pid)
        if alive or set(again) <= set(children):
            return alive
        children = again


def is_zombie(pid: int) -> bool:
    """True if `pid` has ended and waits to be reaped, or is gone.

    The kernel also reports a process as a zombie when its first thread has ended but others run.
    Such a process has not ended.
    """
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return True
    fields = stat.rpartition(b") ")[2].split()
    return fields[_STATE] == b"X" or (fields[_STATE] == b"Z" and int(fields[_THREADS]) <= 1)


def kill_descendants_once(pid: int, *, spare: Collection[int] = ()) -> set[int]:
    """SIGKILL all processes below `pid`, except its children `spare` and those below them.

    Never waits. Returns the pids found; they may start children before they die.
    """
    alive = set(live_descendants_of(pid, lambda child: child not in spare))
    for one in alive:
        with suppress(ProcessLookupError, PermissionError):  # a command may have become root's
            os.kill(one, signal.SIGKILL)
    return alive


def kill_descendants(pid: int, *, spare: Collection[int] = ()) -> int:
    """SIGKILL all processes below `pid` until none lives, except `spare` and those below them.

    Each round finds processes that were started or adopted since the last one; several empty rounds
    end the loop. If a round finds only processes that were killed before, it pauses, longer each
    time: many callers may scan at once, and dying processes need the processor. Returns how many
    were found. Zombies are left to their parents.
    """
    known = set[int]()
    empty, pause_s = 0, _FIRST_PAUSE_S
    for _ in range(_MAX_ROUNDS):
        alive = kill_descendants_once(pid, spare=spare)
        empty = 0 if alive else empty + 1
        if empty == _EMPTY_ROUNDS:
            break
        if alive and alive <= known:
            time.sleep(pause_s)
            pause_s = min(2 * pause_s, _MAX_PAUSE_S)
        known |= alive
    return len(known)

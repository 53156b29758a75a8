"""Who descends from a process, read from /proc, and ending all of them. Linux only.

A subreaper that calls `kill_descendants` on itself leaves nothing alive: a `setsid nohup`
grandchild is adopted by it and found, a stopped process dies of SIGKILL like any other.
"""

import os
import signal
import time
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path

_MOST_ROUNDS = 256  # a fork bomb inside a pid limit ends long before
_EMPTY_ROUNDS = 3  # a snapshot can miss a process that is just being adopted
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.0005, 0.01


def children_of(pid: int) -> list[int]:
    """The direct children of all threads of `pid`; [] when it is gone."""
    found: list[int] = []
    with suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            with suppress(OSError):
                found += map(int, (task / "children").read_text().split())
    return found


def descendants_of(pid: int) -> list[int]:
    """All living descendants, parents before their children. A snapshot: more may be born."""
    found: list[int] = []
    row = children_of(pid)
    while row:
        found += row
        row = [child for parent in row for child in children_of(parent)]
    return found


def is_zombie(pid: int) -> bool:
    """True if `pid` has ended and waits to be reaped, or is gone."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return True
    return stat.rpartition(b") ")[2][:1] in (b"Z", b"X")


def strike_descendants(pid: int, *, spare: Collection[int] = ()) -> set[int]:
    """SIGKILL whoever lives below `pid` now, but `spare` and what is below those. Never waits.

    Returns whom it found; they take a moment to die, and meanwhile they may have had children.
    """
    spared = set(spare).union(*(descendants_of(one) for one in spare)) if spare else set[int]()
    alive = {one for one in descendants_of(pid) if one not in spared and not is_zombie(one)}
    for one in alive:
        with suppress(ProcessLookupError, PermissionError):  # a command may have become root's
            os.kill(one, signal.SIGKILL)
    return alive


def kill_descendants(pid: int, *, spare: Collection[int] = ()) -> int:
    """SIGKILL every descendant of `pid` but `spare` (and what is below those) until none lives.

    Each round finds who was born or adopted since; it ends after several rounds that found nobody.
    Where a round finds only who is dying already it waits a little, and longer each time: hundreds
    may look at once, and the dying need the processor too.
    Returns how many were found. Zombies are left to their parents.
    """
    known = set[int]()
    empty, pause_s = 0, _FIRST_PAUSE_S
    for _ in range(_MOST_ROUNDS):
        alive = strike_descendants(pid, spare=spare)
        empty = 0 if alive else empty + 1
        if empty == _EMPTY_ROUNDS:
            break
        if alive and alive <= known:
            time.sleep(pause_s)
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
        known |= alive
    return len(known)

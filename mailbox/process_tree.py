"""Who descends from a process, read from /proc, and ending all of them. Linux only.

A subreaper that calls `kill_descendants` on itself leaves nothing alive: a `setsid nohup`
grandchild is adopted by it and found, a stopped process dies of SIGKILL like any other.

A process hands its children to the subreaper before it becomes a zombie. So whoever has looked at
all below it, has reaped nobody meanwhile and found nobody alive has missed nobody, unless somebody
was handed to it after it had begun: then it looks again (`live_descendants_of`).
"""

import os
import signal
import time
from collections.abc import Callable, Collection
from contextlib import suppress
from pathlib import Path

_MAX_ROUNDS = 256  # a fork bomb inside a pid limit ends long before
_EMPTY_ROUNDS = 3  # a snapshot can miss a process that is just being adopted
_FIRST_PAUSE_S, _MAX_PAUSE_S = 0.0005, 0.01
_STATE, _THREADS = 0, 17  # fields of /proc/PID/stat after the name


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
    return _with_descendants(children_of(pid))


def _with_descendants(row: list[int]) -> list[int]:
    found: list[int] = []
    while row:
        found += row
        row = [child for parent in row for child in children_of(parent)]
    return found


def live_descendants_of(pid: int, is_ours: Callable[[int], bool] | None = None) -> list[int]:
    """Who lives below `pid`, parents before their children.

    Where `pid` is this process, a subreaper, an empty answer is certain.

    Args:
        is_ours: Tells of a child of `pid` whether it and what is below it count. None: all do.
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

    A process whose first thread has ended is called a zombie by the kernel, too, while others of
    its threads run: it has not ended.
    """
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return True
    fields = stat.rpartition(b") ")[2].split()
    return fields[_STATE] == b"X" or (fields[_STATE] == b"Z" and int(fields[_THREADS]) <= 1)


def kill_descendants_once(pid: int, *, spare: Collection[int] = ()) -> set[int]:
    """SIGKILL whoever lives below `pid` now, but its children `spare` and what is below those.

    Never waits. Returns whom it found; they take a moment to die, and meanwhile they may have had
    children.
    """
    alive = set(live_descendants_of(pid, lambda child: child not in spare))
    for one in alive:
        with suppress(ProcessLookupError, PermissionError):  # a command may have become root's
            os.kill(one, signal.SIGKILL)
    return alive


def kill_descendants(pid: int, *, spare: Collection[int] = ()) -> int:
    """SIGKILL all below `pid`, but its children `spare` and what is below those, until none lives.

    Each round finds who was born or adopted since; it ends after several rounds that found nobody.
    Where a round finds only who is dying already it waits a little, and longer each time: hundreds
    may look at once, and the dying need the processor too.
    Returns how many were found. Zombies are left to their parents.
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

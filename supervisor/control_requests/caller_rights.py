"""Which processes may steer a run: a person's, but none that descends from any run.

The kernel says what a process descends from. A run's processes name themselves in their titles,
which only they can change. Whatever a command does to its own title, variables or place in the tree
can only take rights away. A process that cannot be inspected has none.
"""

import os
import select
from pathlib import Path
from typing import NamedTuple

TITLE_PREFIX = "swarm: "  # starts the titles of all processes of a run, and of `swarm sandbox`
_COMMAND_VARIABLES = (b"SWARM_COMMAND=", b"SWARM_THREAD_ID=")  # in the environment of every command
_NAMESPACES = ("user", "pid")
_SECCOMP_FILTER_MODE = "2"  # /proc's value for filter mode
_MAX_ANCESTORS = 4096


class CallerFacts(NamedTuple):
    """What is known of a living process."""

    ancestors: tuple[int, ...]  # itself, its parent and so on
    titles: tuple[str, ...]  # their titles
    is_marked: bool
    is_confined: bool  # more than this process
    is_elsewhere: bool  # in another container


def refusal_for(pid: int | None) -> str:
    """Why a process has no rights at a run's sockets; "" for one that has.

    A process that ended before it was inspected has none: it may have been any process.
    """
    if pid == os.getpid():
        return ""  # the console in this very process
    if pid is None:
        return "the system does not say who asks; ask again from a terminal of this machine"
    try:
        pidfd = os.pidfd_open(pid)
    except OSError:
        return "whoever asked has gone"
    try:
        standing = inspect_caller(pid)
        alive = select.poll()
        alive.register(pidfd, select.POLLIN)
        if alive.poll(0):  # it has ended: its pid may be reused by now
            return "whoever asked has gone"
    except OSError:
        return (
            "the process that asks, or one that it descends from, cannot be looked at; ask as the "
            "user of the run, where /proc shows all processes"
        )
    finally:
        os.close(pidfd)
    return judge_caller(standing, os.getpid())


def judge_caller(standing: CallerFacts, supervisor: int) -> str:
    """The decision alone, without I/O; see `refusal_for`."""
    if supervisor in standing.ancestors or any(
        one.startswith(TITLE_PREFIX) for one in standing.titles
    ):
        return "a process of a run may not steer any"
    if standing.is_marked:
        return "a process that a command of a run has left behind may not steer any"
    if standing.is_confined:
        return "a confined process may not steer a run; ask from outside of its sandbox"
    if standing.is_elsewhere:
        return "a process of another container may not steer a run; ask from where it was started"
    return ""


def inspect_caller(pid: int) -> CallerFacts:
    """Raises OSError if the process or one of its ancestors cannot be inspected."""
    ancestors, titles = _ancestry(pid)
    variables = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    return CallerFacts(
        ancestors=ancestors,
        titles=titles,
        is_marked=any(one.startswith(_COMMAND_VARIABLES) for one in variables),
        is_confined=_is_confined(_status(pid), _status(os.getpid())),
        is_elsewhere=any(
            not Path(f"/proc/{pid}/ns/{name}").samefile(f"/proc/self/ns/{name}")
            for name in _NAMESPACES
        ),
    )


def _ancestry(pid: int) -> tuple[tuple[int, ...], tuple[str, ...]]:
    """Its ancestors and their titles; each was its child's parent when its title was read."""
    ancestors, titles = [pid], [_title(pid)]
    parent = _parent(pid)
    for _ in range(_MAX_ANCESTORS):
        if parent == 0:
            return tuple(ancestors), tuple(titles)
        try:
            title, above = _title(parent), _parent(parent)
        except OSError:
            if _parent(ancestors[-1]) == parent:  # it lives, and is hidden from us
                raise
            title, above = "", 0
        if (now := _parent(ancestors[-1])) != parent:  # it died; another adopted its child
            parent = now
            continue
        ancestors.append(parent)
        titles.append(title)
        parent = above
    raise OSError("there is no end of ancestors")


def _title(pid: int) -> str:
    raw = Path(f"/proc/{pid}/cmdline").read_bytes()
    return raw.replace(b"\0", b" ").decode(errors="replace")


def _parent(pid: int) -> int:
    return int(_status(pid)["PPid"])


def _status(pid: int) -> dict[str, str]:
    lines = Path(f"/proc/{pid}/status").read_text(errors="replace").splitlines()
    fields = (line.partition(":") for line in lines)
    return {name: value.strip() for name, _, value in fields}


def _is_confined(theirs: dict[str, str], ours: dict[str, str]) -> bool:
    """True if it has a permanent seccomp filter that this process does not have."""
    if theirs["NoNewPrivs"] != "1" or theirs["Seccomp"] != _SECCOMP_FILTER_MODE:
        return False
    counted = (int(one.get("Seccomp_filters", "0")) for one in (theirs, ours))
    return ours["NoNewPrivs"] != "1" or next(counted) > next(counted)

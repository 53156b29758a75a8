"""Starts a Python child without the fork-server: the fallback when there is none.

Always with `-P`: the working directory is the user's project, and a trio.py there must not be
imported. posix_spawn needs neither a thread nor an object that must be waited for.
"""

import fcntl
import os
import signal
import sys
from collections.abc import Sequence

from .process_types import SpawnError

_FIRST_FREE_FD = 64  # moves the descriptors out of the way of their final numbers
_DEFAULT_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD, signal.SIGPIPE)


def spawn_cold(program: Sequence[str], fds: Sequence[int], *, stderr_fd: int) -> int:
    """Start `python -P PROGRAM 3 4 …` in a process group of its own; return its pid.

    Args:
        program: Arguments of the interpreter, for example ("-m", "swarm.worker.process.cold_entry",
            title).
        fds: Become descriptors 3, 4 … in the child, numbered at the end of its arguments. Not
            closed here.
        stderr_fd: Where its stdout and stderr go. Not closed here.

    Raises SpawnError if the system refuses. The caller reaps the child.
    """
    moved: list[int] = []
    try:
        nothing = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        moved.append(nothing)
        moved += (
            fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, _FIRST_FREE_FD) for fd in (stderr_fd, *fds)
        )
        actions = [(os.POSIX_SPAWN_DUP2, nothing, 0)]
        actions += [(os.POSIX_SPAWN_DUP2, moved[1], number) for number in (1, 2)]
        actions += [(os.POSIX_SPAWN_DUP2, fd, 3 + place) for place, fd in enumerate(moved[2:])]
        numbers = [str(3 + place) for place in range(len(fds))]
        return os.posix_spawn(
            sys.executable,
            [sys.executable, "-P", *program, *numbers],
            os.environ,
            file_actions=actions,
            setpgroup=0,
            setsigmask=(),
            setsigdef=_DEFAULT_SIGNALS,
        )
    except OSError as error:
        raise SpawnError(f"cannot start {sys.executable}: {error.strerror}") from error
    finally:
        for fd in moved:
            os.close(fd)

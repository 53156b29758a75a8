"""The lifeline: a pipe whose only writer is the supervisor. When it closes, every process ends.

The kernel signals the close with SIGCONT to the whole process group, which also wakes stopped
processes; a Python signal handler runs even where the Trio loop hangs. Three parties kill the tree
and each one suffices: the process itself, the helper that it forked (same group), and the
fork-server.
"""

import fcntl
import os
import select
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from typing import NoReturn

from swarm.mailbox.base.after_fork import set_handler
from swarm.mailbox.base.process_tree import kill_descendants, live_descendants_of

_SIGCONT, _SIGIO = int(signal.SIGCONT), int(signal.SIGIO)
_KILL_LIMIT_S = 0.8
# Time for the fork-server, which ends hundreds of processes sooner than they do one by one.
_FORK_SERVER_HEAD_START_S = 0.05


class _HeldLifeline:
    """The lifeline of this process. A forked helper inherits it and acts for its parent too."""

    def __init__(self) -> None:
        self._fd = -1
        self._inode = 0  # of the pipe: a helper may have closed the descriptor, its number reused
        self._pid = self._parent = 0
        self._at_end: Callable[[], None] | None = None

    def hold(self, fd: int, *, at_end: Callable[[], None] | None = None) -> None:
        """End this process, its group's helpers and all their descendants when the lifeline closes.

        The signal needs an open file description of this process's own; the one behind `fd` is
        shared with every other process of the run. `at_end` runs first and must not block. A second
        call replaces the first.
        """
        if self._pid == os.getpid():
            os.close(self._fd)
        own = os.open(f"/proc/self/fd/{fd}", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        self._fd, self._inode = own, os.fstat(own).st_ino
        self._pid, self._parent, self._at_end = os.getpid(), os.getppid(), at_end
        for number in (_SIGCONT, _SIGIO):  # `cold_entry.py` armed SIGIO
            set_handler(number, self._on_signal)
        leads_group = os.getpgrp() == os.getpid()
        fcntl.fcntl(own, fcntl.F_SETOWN, -os.getpgrp() if leads_group else os.getpid())
        fcntl.fcntl(own, fcntl.F_SETSIG, _SIGCONT)
        fcntl.fcntl(own, fcntl.F_SETFL, os.O_NONBLOCK | os.O_ASYNC)
        if is_lifeline_closed(own):  # the lifeline closed before the signal was armed
            self.kill_tree()

    def kill_tree(self) -> NoReturn:
        """SIGKILL all descendants and this process; a helper also kills its parent's tree.

        A process whose parent is still the one that forked it first gives the parent a moment to
        kill it.
        """
        me, holder = os.getpid(), self._pid
        if self._at_end is not None:
            self._at_end()
        elif holder == me and os.getppid() == self._parent:
            time.sleep(_FORK_SERVER_HEAD_START_S)
        if holder not in (0, me) and os.getppid() == holder:
            kill_descendants(holder, spare={me})
            kill_all_below(me)
            with suppress(ProcessLookupError):
                os.kill(holder, signal.SIGKILL)
        kill_all_below(me)
        os.kill(me, signal.SIGKILL)
        raise AssertionError("SIGKILL returned")

    def _on_signal(self, number: int, frame: object) -> None:
        with suppress(OSError):  # the descriptor may be closed in a helper
            if os.fstat(self._fd).st_ino == self._inode and is_lifeline_closed(self._fd):
                self.kill_tree()  # otherwise something else sent SIGCONT


_held = _HeldLifeline()
hold_lifeline, kill_tree_and_self = _held.hold, _held.kill_tree


def is_lifeline_closed(fd: int) -> bool:
    """True once the writer is gone. Never waits."""
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    return any(events & (select.POLLHUP | select.POLLERR) for _, events in poll.poll(0))


def has_process_ended(pidfd: int) -> bool:
    """True once the process of this pidfd has ended. Never waits."""
    poll = select.poll()
    poll.register(pidfd, select.POLLIN)
    return bool(poll.poll(0))


async def watch_lifeline(fd: int) -> None:
    """Wait until the lifeline closes, then kill the tree and this process. Runs beside the work."""
    # Imported here: a process that binds to the lifeline must not spend its first 80 ms on it.
    import trio

    while not is_lifeline_closed(fd):
        await trio.lowlevel.wait_readable(fd)
    kill_tree_and_self()


def kill_all_below(pid: int) -> None:
    """SIGKILL all descendants of `pid` until none lives, with those forked or adopted meanwhile."""
    deadline = time.monotonic() + _KILL_LIMIT_S
    while True:
        kill_descendants(pid)
        if not live_descendants_of(pid) or time.monotonic() > deadline:
            return
        time.sleep(0.001)

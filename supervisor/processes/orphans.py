"""Kills and reaps orphans that this process (a subreaper) adopted.

While a fork-server lives it does this itself. After one was lost, the agents that it forked become
children of this process, and so do their commands when those agents die. Subprocesses of this
process share its process group; commands never do.
"""

import os
import signal
from collections.abc import Collection
from contextlib import suppress

from swarm.mailbox.process_tree import children_of, is_zombie, kill_descendants_once


def reap_orphans(known: Collection[int]) -> int:
    """Kill and reap every child of this process that is neither in `known` nor in our group.

    Returns how many there were. A later call reaps those that take a moment to die.
    """
    ours, found = os.getpgrp(), 0
    for pid in children_of(os.getpid()):
        with suppress(ProcessLookupError, ChildProcessError):
            if pid in known or os.getpgid(pid) == ours:
                continue
            found += 1
            if not is_zombie(pid):
                kill_descendants_once(pid)
                os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, os.WNOHANG)
    return found

"""What an adopted agent leaves behind when it dies: this process, a subreaper, is its parent now.

While a fork-server lives this is its work. After one was lost, agents it forked are our children,
and so become their commands. Our own subprocesses share our process group; commands never do.
"""

import os
import signal
from collections.abc import Collection
from contextlib import suppress

from swarm.mailbox.process_tree import children_of, is_zombie, kill_descendants_once


def reap_orphans(known: Collection[int]) -> int:
    """Kill and reap every child of this process that is neither in `known` nor in our group.

    Returns how many there were. What takes a moment to die is reaped by a later sweep.
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

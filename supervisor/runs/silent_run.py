"""Ends a run whose supervisor answers nobody: SIGTERM to its process, then SIGKILL.

For `swarm kill`. A supervisor that stands still hears no request; its process is known from a file
that no command of the run can write, and is signalled only while it is certainly that one.
"""

import os
import select
import signal
from contextlib import suppress

from swarm.mailbox.base.errors import SwarmError
from swarm.mailbox.base.ids import short_id

from .folder_watch import process_start_ticks, read_owner
from .paths import RunPaths

_TERM_S = 20.0  # longer than the fork-server's own ladder, which ends it after ten looks
_KILL_S = 10.0


def end_silent_run(here: RunPaths) -> str:
    """Return what was done. Raises SwarmError if the process is not known, or does not end."""
    short = short_id(here.folder.name)
    pidfd = _open_owner(here)
    if pidfd is None:
        raise SwarmError(
            f"run {short} answers nobody, and which process holds it cannot be read; find it with "
            f"`pgrep -af {short}` and end it"
        )
    try:
        for number, seconds in ((signal.SIGTERM, _TERM_S), (signal.SIGKILL, _KILL_S)):
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(pidfd, number)
            if select.select([pidfd], [], [], seconds)[0]:
                return f"ended by {number.name}; `swarm resume {short}` goes on with it"
    finally:
        os.close(pidfd)
    raise SwarmError(f"run {short} does not end: its process hangs in the kernel")


def _open_owner(here: RunPaths) -> int | None:
    """A pidfd of the process that holds the run."""
    owner = read_owner(here.owner_file)
    if owner is None or owner.folder != str(here.folder):
        return None
    try:
        pidfd = os.pidfd_open(owner.pid)
    except OSError:
        return None
    with suppress(OSError):  # looked at after it was opened: the pid cannot be another one's now
        if process_start_ticks(owner.pid) == owner.started:
            return pidfd
    os.close(pidfd)
    return None

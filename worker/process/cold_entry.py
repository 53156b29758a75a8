"""Entry of a cold process: `python -P -m swarm.worker.process.cold_entry TITLE SPEC_FD LIFELINE_FD
[KEYS_FD]`.

The process binds itself to the lifeline before it imports anything large, so it ends with its
supervisor even while a busy machine takes seconds to load the imports.
"""

import fcntl
import os
import select
import sys


def bind_to_lifeline(lifeline_fd: int) -> None:
    """Make the kernel end this process by SIGIO when the lifeline closes, until `hold_lifeline`
    handles that signal. The descriptor opened for this stays open.
    """
    own = os.open(f"/proc/self/fd/{lifeline_fd}", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    fcntl.fcntl(own, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(own, fcntl.F_SETFL, os.O_NONBLOCK | os.O_ASYNC)
    poll = select.poll()
    poll.register(own, select.POLLIN)
    if poll.poll(0):  # the lifeline closed before SIGIO was armed
        sys.exit(1)


def main() -> None:
    """Bind this process to the lifeline, then run its spec; descriptors are given as numbers."""
    title, *numbers = sys.argv[1:]
    spec_fd, lifeline_fd, *rest = map(int, numbers)
    for fd in (spec_fd, lifeline_fd, *rest):
        os.set_inheritable(fd, False)
    bind_to_lifeline(lifeline_fd)

    from .boot import run_cold_started  # imported after binding: this import takes long

    run_cold_started(title, spec_fd, rest[0] if rest else None, lifeline_fd)


if __name__ == "__main__":
    main()

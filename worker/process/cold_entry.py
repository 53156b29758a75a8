"""The cold entry: `python -P -m swarm.worker.process.cold_entry TITLE SPEC_FD LIFELINE_FD
[KEYS_FD]`.

Guards: before anything large is imported the process is bound to the life-line, so that it is gone
with its supervisor also while a busy machine takes seconds to load it.
"""

import fcntl
import os
import select
import sys


def bind_to_lifeline(lifeline_fd: int) -> None:
    """Let the kernel end this process by SIGIO at the life-line's end, until `hold_lifeline` takes
    that signal up. The descriptor that does it stays open.
    """
    own = os.open(f"/proc/self/fd/{lifeline_fd}", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    fcntl.fcntl(own, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(own, fcntl.F_SETFL, os.O_NONBLOCK | os.O_ASYNC)
    poll = select.poll()
    poll.register(own, select.POLLIN)
    if poll.poll(0):  # it ended before
        sys.exit(1)


def main() -> None:
    """Bind this process, then be what its spec says; descriptors are given as numbers."""
    title, *numbers = sys.argv[1:]
    spec_fd, lifeline_fd, *rest = map(int, numbers)
    for fd in (spec_fd, lifeline_fd, *rest):
        os.set_inheritable(fd, False)
    bind_to_lifeline(lifeline_fd)

    from .boot import run_cold_started  # late: this is what takes its time

    run_cold_started(title, spec_fd, rest[0] if rest else None, lifeline_fd)


if __name__ == "__main__":
    main()

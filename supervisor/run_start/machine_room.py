"""Looks, before a run begins, whether this process may open what the run needs.

libzmq ends the whole process where it gets no descriptor or no thread, so that is tried before.
"""

import os
import threading

from swarm.mailbox.base.errors import SwarmError
from swarm.mailbox.base.foreign_failures import explain_failure

_DESCRIPTORS = 24  # of the mailbox, its sockets and the journal, before there is an agent
_THREADS = 3  # two of libzmq, and one for files


class NoRoom(SwarmError):
    """The machine refuses what every run needs; nothing was started."""


def check_room() -> None:
    """Raises NoRoom, which says what to raise."""
    opened: list[int] = []
    threads: list[threading.Thread] = []
    leave = threading.Event()
    try:
        opened.extend(os.eventfd(0) for _ in range(_DESCRIPTORS))
        for _ in range(_THREADS):
            threads.append(threading.Thread(target=leave.wait, daemon=True))
            threads[-1].start()
    except (OSError, RuntimeError) as error:
        if threads and not threads[-1].is_alive():
            threads.pop()
        if (words := explain_failure(error)) is None:
            raise
        raise NoRoom(f"a run cannot begin: {words}") from error
    finally:
        leave.set()
        for thread in threads:
            thread.join()
        for fd in opened:
            os.close(fd)

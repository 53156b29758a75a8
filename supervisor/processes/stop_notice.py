"""Tells the fork-server of each stop signal, also while this process's event loop stands still.

Python runs a signal's handler between two steps of its own, so never within a long search or a
stuck call. What `faulthandler` writes for a signal needs no interpreter: it goes into a pipe whose
other end the fork-server holds.
"""

import faulthandler
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager

_STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_WITHOUT_LOOP = (signal.SIG_DFL, signal.SIG_IGN, signal.default_int_handler, None)


class StopNotice:
    """The reading end of the pipe, and when the run shall be over."""

    def __init__(self, signal_fd: int, deadline_s: float | None) -> None:
        self.signal_fd, self.deadline_s = signal_fd, deadline_s


@contextmanager
def open_stop_notice(deadline_s: float | None) -> Iterator[StopNotice]:
    """Have stop signals write into a pipe. Only those that already have a handler, which then runs.

    `deadline_s`: seconds from now on after which this process must be able to answer.
    """
    reader, writer = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    handled = [one for one in _STOP_SIGNALS if signal.getsignal(one) not in _WITHOUT_LOOP]
    try:
        for number in handled:
            faulthandler.register(number, file=writer, all_threads=False, chain=True)
        yield StopNotice(reader, deadline_s)
    finally:
        for number in handled:
            faulthandler.unregister(number)
        os.close(reader)
        os.close(writer)

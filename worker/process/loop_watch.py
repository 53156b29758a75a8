"""Ends a supervisor whose event loop stands still after somebody asked for the run's end.

A handler of a signal runs only where Python does, so a supervisor that is busy or stuck hears
neither SIGTERM nor its deadline. Its signals also write to a pipe, which needs no interpreter, and
the fork-server reads that pipe: from a stop signal on, and from the deadline on, the loop has to
answer. One that does not for ten looks is killed; the rest of the run ends by the lifeline. Waits
for nothing itself: the fork-server's loop calls it.
"""

import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

_LOOK_S = 1.0
_MOST_UNANSWERED = 10  # looks, not seconds: a machine that was held up has looked only once
_ASKED_FOR_S = 600.0  # after a signal: a run that goes on need not answer for ever
_READ_BYTES = 64 * 1024


class LoopWatch:
    """The watch over one supervisor. Owns its pidfd and the pipe's end."""

    def __init__(self, pid: int, pidfd: int, signal_fd: int, deadline_s: float | None) -> None:
        self.pid, self._pidfd, self.signal_fd = pid, pidfd, signal_fd
        self._deadline = None if deadline_s is None else time.monotonic() + deadline_s
        self._asks_until = 0.0
        self._next_look = self._deadline
        self._last_look = 0.0
        self._unanswered = 0

    def read_signals(self) -> bool:
        """A signal arrived: look soon. False: the pipe is closed, and nothing will come.

        One signal is written in many pieces, and each may be read alone: the looks stay apart.
        """
        with suppress(BlockingIOError):
            if not os.read(self.signal_fd, _READ_BYTES):
                return False
        now = time.monotonic()
        self._asks_until = now + _ASKED_FOR_S
        self._next_look = max(now, self._last_look + _LOOK_S)
        return True

    def note_answer(self) -> None:
        """The loop has answered."""
        self._unanswered = 0

    def wait_ms(self) -> int | None:
        """How long the next look has time; None: nothing is to be looked at."""
        if self._next_look is None:
            return None
        return max(0, int((self._next_look - time.monotonic()) * 1000) + 1)

    def look(self, ask: Callable[[], None]) -> None:
        """Ask the loop, if it is time; kill the supervisor if it has not answered for long."""
        now = time.monotonic()
        if self._next_look is None or now < self._next_look:
            return
        self._last_look = now
        is_over = self._deadline is not None and now >= self._deadline
        self._next_look = now + _LOOK_S if is_over or now < self._asks_until else self._deadline
        if _is_stopped(self.pid):  # by SIGSTOP or Ctrl-Z, which is no fault of its loop
            return
        if self._unanswered >= _MOST_UNANSWERED:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)
            return
        self._unanswered += 1
        ask()

    def close(self) -> None:
        """Close what it owns."""
        os.close(self._pidfd)
        os.close(self.signal_fd)


def _is_stopped(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]
    except (OSError, IndexError):
        return False
    return state in {"T", "t"}

"""One started process: waits for its end by pidfd, gets its exit status, reads its stderr.

Its present parent reaps it: either the fork-server, which reports the status, or this process.
"""

import os
import signal
from collections.abc import Awaitable, Callable
from contextlib import suppress

import msgspec
import trio

from swarm.mailbox.process_tree import kill_descendants_once

from .fork_server_client import ExitReport, reap
from .process_types import ProcessEnd, describe_end
from .stderr_tail import StderrTail

_REPORT_LIMIT_S = 2.0
_STDERR_TIMEOUT_S = 0.2
_PROCESS_GROUP = 4  # PIDFD_SIGNAL_PROCESS_GROUP, Linux 6.9


class ChildProcess:
    """Implements `Child`. Its pidfd is open exactly until its end is known."""

    def __init__(self, *, pid: int, pidfd: int, stderr_fd: int, report: ExitReport | None) -> None:
        self._pid, self._pidfd = pid, pidfd
        self._report = report  # None: this process is its parent
        self._warm = report is not None
        self._stderr = StderrTail(stderr_fd)
        self._ended: ProcessEnd | None = None
        self._done = trio.Event()

    @property
    def pid(self) -> int:
        return self._pid

    @property
    def pidfd(self) -> int:
        return self._pidfd

    @property
    def warm(self) -> bool:
        return self._warm

    @property
    def ended(self) -> ProcessEnd | None:
        return self._ended

    @property
    def stderr_text(self) -> str:
        """Its stderr so far, the last 64 KiB."""
        return self._stderr.text

    @property
    def is_own_child(self) -> bool:
        """True if this process is its parent, from the start or by adoption."""
        return self._report is None or self._report.is_lost

    def mark_warm(self) -> None:
        """Note that the entry process forked it, with its libraries imported."""
        self._warm = True

    async def wait_ended(self) -> ProcessEnd:
        await self._done.wait()
        assert self._ended is not None
        return self._ended

    def signal_group(self, number: int) -> None:
        if self._ended is not None:
            return
        with suppress(ProcessLookupError, PermissionError):
            try:
                signal.pidfd_send_signal(self._pidfd, number, None, _PROCESS_GROUP)
            except OSError as error:
                if isinstance(error, ProcessLookupError):
                    raise
                os.killpg(self._pid, number)  # an older kernel

    def kill_group(self) -> None:
        """Kill the group and all descendants; stop the process first, so that it starts no more.

        A process started at this very moment soon becomes an orphan: its adopter kills it
        (`wait_ended`).
        """
        if self._ended is not None:
            return
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._pidfd, signal.SIGSTOP)
            kill_descendants_once(self._pid)
        self.signal_group(signal.SIGKILL)
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)

    async def watch(self, on_end: Callable[["ChildProcess"], Awaitable[None]]) -> None:
        """Run once, as a task: returns when the process has ended and its status is known.

        `on_end` is called before any waiter of `wait_ended` wakes; it is bounded.
        """
        status: int | None = None
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._stderr.read_all)
                await trio.lowlevel.wait_readable(self._pidfd)
                status = await self._learn_status()
                await on_end(self)
                await self._stderr.wait_end(limit_s=_STDERR_TIMEOUT_S)
                nursery.cancel_scope.cancel()
        finally:  # also when cancelled: no waiter hangs, no descriptor leaks
            end = describe_end(status)
            self._ended = msgspec.structs.replace(end, stderr_tail=self._stderr.text)
            os.close(self._pidfd)
            self._done.set()

    async def _learn_status(self) -> int | None:
        if self._report is not None:
            with trio.move_on_after(_REPORT_LIMIT_S):
                await self._report.received.wait()
            if not self._report.is_lost:
                return self._report.status
        self.signal_group(signal.SIGKILL)  # still a zombie, so its group id is not reused
        return reap(self._pidfd)

"""One started process: waits for its end by pidfd, gets its exit status, reads its stderr.

Its present parent reaps it: either the fork-server, which reports the status, or this process.
"""

import os
import signal
from collections.abc import Awaitable, Callable
from contextlib import suppress

import msgspec
import trio

from swarm.mailbox.base.foreign_failures import explain_abort
from swarm.mailbox.base.process_tree import kill_descendants_once

from .process_types import STDERR_KEPT_BYTES, ProcessEnd, describe_end

_REPORT_LIMIT_S = 2.0
_STDERR_TIMEOUT_S = 0.2
_PROCESS_GROUP = 4  # PIDFD_SIGNAL_PROCESS_GROUP, Linux 6.9
_CHUNK_BYTES = 16 * 1024


class StderrTail:
    """Keeps the last 64 KiB of a process's stderr. Owns the reading end of the pipe."""

    def __init__(self, fd: int) -> None:
        self._stream = trio.lowlevel.FdStream(fd)
        self._kept = bytearray()
        self._at_end = trio.Event()

    async def read_all(self) -> None:
        """Return when no process holds the writing end any more; closes the reading end."""
        async with self._stream:
            try:
                while chunk := await self._stream.receive_some(_CHUNK_BYTES):
                    self._kept += chunk
                    if len(self._kept) > 2 * STDERR_KEPT_BYTES:
                        del self._kept[:-STDERR_KEPT_BYTES]
            finally:
                self._at_end.set()

    async def wait_end(self, *, limit_s: float) -> str:
        """The tail, once the pipe ended or `limit_s` passed: an orphan may still hold the pipe."""
        with trio.move_on_after(limit_s):
            await self._at_end.wait()
        return self.text

    @property
    def text(self) -> str:
        """The tail as it is now; a cut or broken character becomes U+FFFD."""
        return bytes(self._kept[-STDERR_KEPT_BYTES:]).decode(errors="replace")


class ExitReport:
    """The fork-server's report of one child's end; made before the child can end."""

    def __init__(self) -> None:
        self.received = trio.Event()
        self.status: int | None = None  # as from waitpid
        self.is_lost = False  # the server is gone and reaped: this process is the parent now

    def receive(self, status: int) -> None:
        """The fork-server reports how the child ended."""
        self.status = status
        self.received.set()

    def lose(self) -> None:
        """The fork-server is gone, and reports nothing any more."""
        self.is_lost = True
        self.received.set()


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
    def is_alive(self) -> bool:
        return self._ended is None

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
            end, said = describe_end(status), self._stderr.text
            if end.signal is not None and (words := explain_abort(said)) is not None:
                end = msgspec.structs.replace(end, reason=f"{end.reason}: {words}")
            self._ended = msgspec.structs.replace(end, stderr_tail=said)
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


def reap(pidfd: int) -> int | None:
    """Reap an ended child; its waitpid status, or None if it is not this process's to reap."""
    try:
        seen = os.waitid(os.P_PIDFD, pidfd, os.WEXITED | os.WNOHANG)
    except ChildProcessError:
        return None
    if seen is None:
        return None
    return seen.si_status << 8 if seen.si_code == os.CLD_EXITED else seen.si_status & 0x7F

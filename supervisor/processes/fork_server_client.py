"""The supervisor's end of the fork-server channel: orders out, reports in, with their fds."""

import os
import signal
import socket
from array import array
from collections.abc import Sequence
from contextlib import suppress
from typing import NamedTuple

import msgspec
import trio

from swarm.mailbox.protocol.forking import (
    AnyForkReport,
    GuardProcess,
    LoopAnswered,
    LoopAsked,
    ProcessExited,
    ProcessStarted,
    ServerReady,
    StartFailed,
    StartProcess,
    WatchSupervisor,
    decode_fork_report,
    encode_fork,
)

from .child_process import ExitReport, StderrTail, reap
from .early_start import LaunchedProcess
from .process_types import ProcessEnd, SpawnError
from .stop_notice import StopNotice

_PACKET_BYTES = 64 * 1024
_EXIT_TIMEOUT_S = 1.5
_ONE_FD = socket.CMSG_SPACE(array("i").itemsize)


class ForkServerGone(SpawnError):
    """The fork-server died or does not answer; it may have carried out its last order."""


class ForkedProcess(NamedTuple):
    """A process that the server forked; the receiver closes the pidfd."""

    pid: int
    pidfd: int
    report: ExitReport


class _Pending:
    def __init__(self) -> None:
        self.done = trio.Event()
        self.outcome: ForkedProcess | StartFailed | None = None
        self.wanted = True


class ForkServerClient:
    """One fork-server, as the supervisor sees it. `run` must run as a task."""

    def __init__(self, launched: LaunchedProcess) -> None:
        self.pid, self.pidfd = launched.pid, launched.pidfd
        self.stderr = StderrTail(launched.stderr_fd)
        self.ended = trio.Event()  # it takes no more orders
        self.gone = trio.Event()  # reaped; only now are its children ours
        self.ready = trio.Event()  # all is imported, or it ended
        self._last_report_at = trio.current_time()
        self._socket = trio.socket.from_stdlib_socket(launched.channel)
        self._sending = trio.Lock()
        self._finished = trio.Event()
        self._pending: dict[int, _Pending] = {}
        self._reports: dict[int, ExitReport] = {}  # by pid, of processes not reaped yet
        self._last_request = 0

    async def start(
        self, order: StartProcess, fds: Sequence[int], *, silence_s: float
    ) -> ForkedProcess:
        """Have it fork once. The caller closes `fds`; `order.request` is set here.

        If the caller stops waiting, the child is killed as soon as it is reported. Raises
        SpawnError when the server refuses; ForkServerGone when it is dead or sends nothing at all
        for `silence_s`. It serves orders in turn, so a server that answers other orders is only
        busy.
        """
        self._last_request += 1
        number, title = self._last_request, order.title
        self._pending[number] = pending = _Pending()
        order = msgspec.structs.replace(order, request=number)
        try:
            await self._send(encode_fork(order), fds)
            await self._wait_answer(pending, silence_s)
        except BaseException:
            pending.wanted = False
            if isinstance(pending.outcome, ForkedProcess):
                _kill(pending.outcome.pidfd)
            raise
        match pending.outcome:
            case ForkedProcess() as forked:
                return forked
            case StartFailed(reason=reason):
                raise SpawnError(f"the fork-server could not start {title!r}: {reason}")
            case None:
                raise ForkServerGone(f"the fork-server ended while it started {title!r}")

    async def _wait_answer(self, pending: _Pending, silence_s: float) -> None:
        asked_at = trio.current_time()
        while not pending.done.is_set():
            silent_at = max(asked_at, self._last_report_at) + silence_s
            if trio.current_time() >= silent_at:
                raise ForkServerGone(f"the fork-server said nothing for {silence_s:g} s")
            with trio.move_on_at(silent_at):
                await pending.done.wait()

    async def guard(self, pid: int, pidfd: int) -> None:
        """Have it end this process, too, when the lifeline closes."""
        await self._send(encode_fork(GuardProcess(pid=pid)), (pidfd,))

    async def watch_this_process(self, notice: StopNotice) -> None:
        """Have it end this process if the loop stands still once a signal or the deadline came."""
        order = encode_fork(WatchSupervisor(pid=os.getpid(), deadline_s=notice.deadline_s))
        pidfd = os.pidfd_open(os.getpid())
        try:
            await self._send(order, (pidfd, notice.signal_fd))
        finally:
            os.close(pidfd)

    async def run(self) -> None:
        """Read reports until the server is gone and reaped, or until cancelled.

        On return every pending start has failed, and every missing exit report is marked as lost.
        """
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self.stderr.read_all)
                await self._read_reports()
                self._fail_pending()
                await self._reap_server()
                await self.stderr.wait_end(limit_s=0.2)
                nursery.cancel_scope.cancel()
        finally:
            self._fail_pending()
            for lost in self._reports.values():
                lost.lose()
            self._finished.set()

    async def wait_ended(self) -> ProcessEnd:
        """Return once `run` has done its last work."""
        await self._finished.wait()
        return ProcessEnd(reason="the fork-server ended", stderr_tail=self.stderr.text)

    def _fail_pending(self) -> None:
        self.ended.set()
        self.ready.set()
        self._socket.close()
        for pending in self._pending.values():
            pending.done.set()
        self._pending.clear()

    def request_exit(self) -> None:
        """Have it end all its descendants and exit."""
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    def signal_group(self, number: int) -> None:
        """Signal the server alone: what it forked has groups of its own."""
        if not self.gone.is_set():
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(self.pidfd, number)

    def kill_group(self) -> None:
        """SIGKILL a server that does not answer. The processes that it forked live on."""
        self.signal_group(signal.SIGKILL)

    async def _reap_server(self) -> None:
        """It closed its channel, so it should exit; if it does not, it is killed."""
        with trio.move_on_after(_EXIT_TIMEOUT_S):
            await trio.lowlevel.wait_readable(self.pidfd)
        self.kill_group()
        await trio.lowlevel.wait_readable(self.pidfd)
        reap(self.pidfd)
        os.close(self.pidfd)
        self.gone.set()

    async def _read_reports(self) -> None:
        while True:
            try:
                packet, beside, _, _ = await self._socket.recvmsg(
                    _PACKET_BYTES, _ONE_FD, socket.MSG_CMSG_CLOEXEC
                )
            except OSError:
                return
            fds = [fd for _, _, data in beside for fd in array("i", data)]
            if not packet:
                return
            self._last_report_at = trio.current_time()
            try:
                report: AnyForkReport = decode_fork_report(packet)
            except msgspec.DecodeError:
                return  # another protocol: treated as gone
            match report:
                case ProcessStarted(request=request, pid=pid):
                    self._reports[pid] = exit_report = ExitReport()
                    self._resolve(request, _forked_process(pid, fds, exit_report))
                case StartFailed(request=request):
                    self._resolve(request, report)
                case ProcessExited(pid=pid, status=status):
                    self._reports.pop(pid).receive(status)
                case ServerReady():
                    self.ready.set()
                case LoopAsked():
                    with suppress(ForkServerGone):
                        await self._send(encode_fork(LoopAnswered()), ())

    def _resolve(self, request: int, outcome: ForkedProcess | StartFailed) -> None:
        pending = self._pending.pop(request)
        pending.outcome = outcome
        if not pending.wanted and isinstance(outcome, ForkedProcess):
            _kill(outcome.pidfd)
        pending.done.set()

    async def _send(self, packet: bytes, fds: Sequence[int]) -> None:
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array("i", fds))]
        try:
            async with self._sending:
                await self._socket.sendmsg([packet], rights)
        except (OSError, trio.ClosedResourceError) as error:
            raise ForkServerGone("the fork-server is gone") from error


def _forked_process(
    pid: int, fds: Sequence[int], report: ExitReport
) -> ForkedProcess | StartFailed:
    """The forked process; if it came without a pidfd, kill it, since it could not be watched.

    That happens when this process has no descriptor left. Its pid is not reused yet: the server
    reaps it only after it has reported the start.
    """
    if fds:
        return ForkedProcess(pid, fds[0], report)
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
    return StartFailed(request=0, reason="this process has no file descriptor left (ulimit -n)")


def _kill(pidfd: int) -> None:
    with suppress(ProcessLookupError):
        signal.pidfd_send_signal(pidfd, signal.SIGKILL)
    os.close(pidfd)

"""The launcher process: starts commands, reaps them, and leaves none behind.

Guards: single-threaded, no Trio, no ZeroMQ; it outlives neither its agent nor the run. When its
socket or the life-line closes, everything below it is killed and it exits. As a child subreaper it
adopts what a command left behind; an orphan that belongs to no living command, or hides where it
comes from, is killed at the next sweep.
"""

import contextlib
import gc
import os
import select
import signal
import socket
import time
import traceback
from collections import deque
from typing import NoReturn

from setproctitle import setproctitle

from swarm.mailbox.forked import (
    DEFAULT,
    IGNORE,
    become_subreaper,
    close_all_but,
    complain_to,
    set_handler,
    settle_child,
)
from swarm.mailbox.lineage import children_of, descendants_of, strike_descendants

from ..sandbox.guard import remove_placeholder
from . import spawn
from .brokered import await_brokers
from .child import ForkedChild, become_command, hear_child
from .kin import MARK, has_children, kill_groups, mark_of, outside_group, tree_of, trees_of
from .orders import (
    AnyOrder,
    AnyReply,
    CommandLimits,
    Ended,
    KillOrder,
    Launched,
    LaunchOrder,
    NotLaunched,
    Overrun,
    Ping,
    Pong,
    SignalOrder,
    TreeGone,
    receive_order,
    send_reply,
)
from .pin import Pin, read_pin
from .watchdog import Watchdog

_SWEEP_AGAIN_MS = 2
_LAST_SWEEP_S = 2.0
_TITLE_BYTES = 4096


class Keeper:
    """One launcher's state. Nothing here waits but `run`."""

    def __init__(self, sock: socket.socket, lifeline_fd: int | None, pin: Pin | None) -> None:
        self._sock, self._lifeline, self._pin = sock, lifeline_fd, pin
        self._tokens: dict[int, int] = {}  # pid of a command's first process → token
        self._pids: dict[int, int] = {}  # and back; gone once reaped
        self._wrapped: set[int] = set()
        self._starting: dict[int, ForkedChild] = {}  # by the report's descriptor
        self._dying: set[int] = set()  # tokens whose trees are being killed
        self._outbox: deque[AnyReply] = deque()
        self._placeholders: set[str] = set()
        self._watchdog = Watchdog()
        self._poll = select.poll()

    def run(self) -> None:
        """Returns when the agent or the run is gone."""
        awake, wake = socket.socketpair()
        for end in (awake, wake, self._sock):
            end.setblocking(False)
        signal.set_wakeup_fd(wake.fileno(), warn_on_full_buffer=False)
        try:
            self._serve(awake)
        finally:
            signal.set_wakeup_fd(-1)

    def _serve(self, awake: socket.socket) -> None:
        self._poll.register(awake, select.POLLIN)
        self._poll.register(self._sock, select.POLLIN)
        if self._lifeline is not None:
            self._poll.register(self._lifeline, select.POLLIN)
        while True:
            for fd, _ in self._poll.poll(
                _SWEEP_AGAIN_MS if self._dying else self._watchdog.wait_ms()
            ):
                if fd == self._sock.fileno():
                    if not self._take_orders():
                        return
                elif fd == self._lifeline:
                    return
                elif fd in self._starting:
                    self._started(fd)
                else:
                    if signal.SIGTERM in _drained(awake):
                        return
                    self._reap()
            self._dying.update(self._watchdog.look(self._trees))
            if self._dying:
                self._sweep()
            self._flush()

    def end(self) -> None:
        """Kill everything below, until nothing is left (or it cannot die: a stuck disk)."""
        self._watchdog.stand_down()
        deadline = time.monotonic() + _LAST_SWEEP_S
        while has_children() and time.monotonic() < deadline:
            strike_descendants(os.getpid())
            time.sleep(0.001)
        self._watchdog.close()
        await_brokers(_LAST_SWEEP_S)
        for path in self._placeholders:
            remove_placeholder(path)

    def _take_orders(self) -> bool:
        while True:
            try:
                received = receive_order(self._sock)
            except BlockingIOError:
                return True
            except OSError:
                return False
            if received is None:
                return False
            order, fds = received
            self._obey(order, fds)
            for fd in fds:
                os.close(fd)

    def _obey(self, order: AnyOrder, fds: list[int]) -> None:
        match order:
            case LaunchOrder():
                self._launch(order, fds)
            case SignalOrder(token=token, number=number):
                self._signal(token, number)
            case KillOrder(token=token):
                self._dying.add(token)
            case Ping():
                self._reply(Pong())

    def _launch(self, order: LaunchOrder, fds: list[int]) -> None:
        if self._pin is not None:
            allowed = self._pin.applied(order, fds)
            if allowed is None:
                self._reply(NotLaunched(token=order.token, errno=1, step="pinned"))
                return
            order = allowed
        self._watchdog.prepare(order.resources)
        order.environment[MARK] = mark_of(order.token)
        self._placeholders.update(order.placeholders)
        if order.wrapped:
            self._wrapped.add(order.token)
        if spawn.has_to_fork(order):
            self._fork(order, fds)
            return
        try:
            pid = spawn.spawn_command(order, fds)
        except spawn.SpawnFailed as failure:
            self._wrapped.discard(order.token)
            self._reply(NotLaunched(token=order.token, errno=failure.number, step=failure.step))
            return
        self._tokens[pid], self._pids[order.token] = order.token, pid
        self._watchdog.begin(order.token, order.resources)
        self._reply(Launched(token=order.token, pid=pid))

    def _fork(self, order: LaunchOrder, fds: list[int]) -> None:
        """For limits of its own; a pipe that closes says it is its program."""
        report, written = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        report.setblocking(False)
        try:
            pid = spawn.fork_command(
                order, fds, lambda now: become_command(now, fds, written.fileno())
            )
        except OSError as error:
            report.close()
            written.close()
            self._reply(NotLaunched(token=order.token, errno=error.errno or 0, step="fork"))
            return
        written.close()
        self._tokens[pid], self._pids[order.token] = order.token, pid
        self._watchdog.begin(order.token, order.resources)
        self._starting[report.fileno()] = ForkedChild(order, pid, report)
        self._poll.register(report, select.POLLIN)

    def _started(self, report: int) -> None:
        """The child became its command (end of file) or said why not; once per launch."""
        start = self._starting[report]
        said, listener = hear_child(start.report)
        if listener is not None and start.order.confinement is not None:
            spawn.answer_calls(listener, start.order.confinement)
            return  # its end is still to come
        del self._starting[report]
        self._poll.unregister(report)
        start.report.close()
        token, pid = start.order.token, start.pid
        if not said:
            self._reply(Launched(token=token, pid=pid))
            return
        number, _, step = said.decode().partition(" ")
        self._forget(pid)
        self._reply(NotLaunched(token=token, errno=int(number), step=step))

    def _reap(self) -> None:
        with contextlib.suppress(ChildProcessError):
            while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                self._ended(*ended)

    def _ended(self, pid: int, status: int) -> None:
        for report in [fd for fd, start in self._starting.items() if start.pid == pid]:
            while report in self._starting:
                self._started(report)  # a short life: its end came before its beginning was read
        token = self._tokens.get(pid)
        if token is None:
            return  # an adopted orphan, or one that never became a command
        code = os.waitstatus_to_exitcode(status)
        overrun = self._forget(pid, was_killed=code in (-signal.SIGKILL, 128 + signal.SIGKILL))
        leftovers = any(child not in self._tokens for child in children_of(os.getpid()))
        self._reply(
            Ended(
                token=token,
                exit_code=code if code >= 0 else None,
                signal=-code if code < 0 else None,
                leftovers=leftovers,
                overrun=overrun,
            )
        )

    def _forget(self, pid: int, *, was_killed: bool = False) -> Overrun | None:
        """Returns what the command was killed for, if it was."""
        token = self._tokens.pop(pid)
        self._pids.pop(token)
        self._wrapped.discard(token)
        return self._watchdog.end(token, was_killed=was_killed)

    def _tree(self, token: int) -> list[int]:
        return tree_of(token, self._tokens, {*self._pids, *self._dying})

    def _trees(self) -> dict[int, list[int]]:
        return trees_of(self._tokens, {*self._pids, *self._dying})

    def _signal(self, token: int, number: int) -> None:
        pid = self._pids.get(token)
        if pid is None:
            return
        if token in self._wrapped:
            # bwrap and its init would die of it and take the command along unasked.
            spared = {pid, *children_of(pid)}
            targets = [one for one in descendants_of(pid) if one not in spared]
        else:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(pid, number)
            targets = outside_group(descendants_of(pid), pid)
        for one in targets:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(one, number)

    def _sweep(self) -> None:
        """One round of killing for every dying token; those of whom nothing lives are done."""
        self._reap()
        for token in tuple(self._dying):
            victims = self._tree(token)
            kill_groups(victims)  # first: at one stroke, so that no fork escapes
            for pid in victims:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            if not victims and token not in self._pids:
                self._dying.discard(token)
                self._reply(TreeGone(token=token))

    def _reply(self, reply: AnyReply) -> None:
        self._outbox.append(reply)

    def _flush(self) -> None:
        events = select.POLLIN
        while self._outbox:
            try:
                send_reply(self._sock, self._outbox[0])
            except BlockingIOError:
                events |= select.POLLOUT
                break
            except OSError:
                break  # the agent is gone; the next poll says so
            self._outbox.popleft()
        self._poll.modify(self._sock, events)


def _drained(sock: socket.socket) -> bytes:
    with contextlib.suppress(BlockingIOError):
        return sock.recv(4096)
    return b""


def become_launcher(
    sock: socket.socket,
    lifeline_fd: int | None,
    stderr_fd: int | None = None,
    spec_fd: int | None = None,
    title: str = "",
    *,
    waits: bool = False,
) -> NoReturn:
    """The bare forked process's whole life; does not return.

    Args:
        sock: Orders and replies; its other end is the agent's.
        lifeline_fd: The run's; None: nobody watches.
        stderr_fd: Where it may complain; None: its standard files are right already.
        spec_fd: The agent's sealed spec, for the pin of a locked role; None: never pinned.
        title: What `ps` shows; "": it stays as it is.
        waits: Its first packet brings standard files, spec and title (`tell_early`).
    """
    code = 1
    try:
        os.setpgid(0, 0)
        if stderr_fd is not None:
            signal.set_wakeup_fd(-1)  # the fork-server's
            complain_to(stderr_fd)
        kept = (fd for fd in (lifeline_fd, spec_fd) if fd is not None)
        close_all_but({0, 1, 2, sock.fileno(), *kept})
        if title:
            setproctitle(title)
        if waits and _is_called(sock, lifeline_fd):
            spec_fd = _learn(sock)
        if _is_called(sock, lifeline_fd):
            settle_child()
            _keep(sock, lifeline_fd, spec_fd)
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


def _learn(sock: socket.socket) -> int:
    """Take what `tell_early` sends; the descriptor of the spec. Raises OSError: the agent died."""
    title, fds, _, _ = socket.recv_fds(sock, _TITLE_BYTES, 2, socket.MSG_CMSG_CLOEXEC)
    if len(fds) != len(("stderr", "spec")):
        raise OSError("its agent ended")
    stderr_fd, spec_fd = fds
    complain_to(stderr_fd)
    os.close(stderr_fd)
    setproctitle(title.decode(errors="replace"))
    return spec_fd


def _is_called(sock: socket.socket, lifeline_fd: int | None) -> bool:
    """Sleep until the first order, in one system call; False when the agent or the run is gone.

    Every page touched before is a copy of its own, and most agents never run a command.
    """
    poll = select.poll()
    poll.register(sock, select.POLLIN)
    if lifeline_fd is not None:
        poll.register(lifeline_fd, select.POLLIN)
    return all(events == select.POLLIN for _, events in poll.poll())


def _keep(sock: socket.socket, lifeline_fd: int | None, spec_fd: int | None) -> None:
    """Get ready for commands and serve."""
    become_subreaper()
    os.set_inheritable(sock.fileno(), False)  # no command may ever speak for the agent
    if lifeline_fd is not None:
        os.set_inheritable(lifeline_fd, False)
    spawn.limit_process(CommandLimits())
    gc.disable()  # nothing cyclic is made; collecting would touch every shared page
    gc.freeze()
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    set_handler(signal.SIGINT, IGNORE)
    set_handler(signal.SIGHUP, IGNORE)
    set_handler(signal.SIGCONT, DEFAULT)  # the fork-server's handler, if any
    for number in (signal.SIGTERM, signal.SIGCHLD):
        set_handler(number, _ignore)  # the wake-up socket tells
    pin = None if spec_fd is None else read_pin(spec_fd)
    keeper = Keeper(sock, lifeline_fd, pin)
    try:
        keeper.run()
    finally:
        keeper.end()


def _ignore(number: int, frame: object) -> None:
    """A handler, since an ignored signal would not reach the wake-up socket."""

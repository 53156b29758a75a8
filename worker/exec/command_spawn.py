"""Starts a command from the launcher with posix_spawn, four times as fast as forking Python.

A confined command is spawned by a thread that has confined itself first: such confinement belongs
to a thread and passes to what it starts. For Landlock alone the thread ends right after. The kernel
kills bwrap when the thread that started it ends, so for bwrap one thread stays, and sleeps except
while it spawns; the launcher waits for it. The system calls of a command that wait for an answer
are answered by unconfined threads of the launcher (`sandbox/syscall_dispatcher.py`).
"""

import os
import resource
import signal
import threading
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from queue import SimpleQueue
from typing import NoReturn

import msgspec

from swarm.mailbox.base.after_fork import valid_signals

from ..sandbox.bwrap import ROUTE_FD, SECCOMP_FD
from ..sandbox.connect_broker import connect_handlers, is_own_by_mount
from ..sandbox.landlock import apply_landlock, drop_capabilities, forbid_new_privileges
from ..sandbox.landlock_rules import terminal_grant
from ..sandbox.notify_filter import CONNECT_CALLS, build_notify_filter, install_notify_filter
from ..sandbox.prepared_command import Confinement
from ..sandbox.seccomp import install_filter
from ..sandbox.syscall_dispatcher import SyscallDispatcher
from .brokered_spawn import start_under_broker
from .launcher_protocol import CommandLimits, LaunchOrder

_DEFAULTED_SIGNALS = sorted(valid_signals() - {signal.SIGKILL, signal.SIGSTOP})
_FileAction = tuple[int, int, int] | tuple[int, int, str, int, int]


class SpawnFailed(Exception):
    """The program never ran; `step` is cwd, sandbox or exec."""

    def __init__(self, number: int, step: str) -> None:
        super().__init__(number, step)
        self.number, self.step = number, step


_ConfineResult = int | SpawnFailed | None  # a listener, or None


def spawn_command(order: LaunchOrder, fds: Sequence[int]) -> int:
    """Start the command in its own session; return its pid. Raises SpawnFailed.

    It inherits the launcher's resource limits, see `set_process_limits`.
    """
    try:
        os.chdir(order.cwd)
    except (OSError, ValueError) as error:
        raise SpawnFailed(getattr(error, "errno", 0) or 22, "cwd") from error
    try:
        if order.confinement is None:
            return _spawn(order, fds)
        if order.wrapped and order.confinement.broker is None:
            return _spawner_thread(order.confinement).spawn(order, fds)
        return _spawn_confined(order, fds, order.confinement)
    finally:
        os.chdir("/")  # keep no file system busy


def set_process_limits(limits: CommandLimits) -> None:
    """Limit this process and all that it will start, for good. Raises OSError, ValueError."""
    for kind, value in (
        (resource.RLIMIT_DATA, limits.memory_bytes),
        (resource.RLIMIT_NPROC, limits.processes),
        (resource.RLIMIT_CPU, limits.cpu_s),
        (resource.RLIMIT_FSIZE, limits.file_bytes),
        (resource.RLIMIT_CORE, 0),
    ):
        if value is not None:
            most = _capped(value, resource.getrlimit(kind)[1])
            resource.setrlimit(kind, (most, most))
    if limits.open_files is not None:  # a soft limit: programs that need more raise it themselves
        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        resource.setrlimit(resource.RLIMIT_NOFILE, (_capped(limits.open_files, hard), hard))


def _capped(value: int, hard: int) -> int:
    return value if hard == resource.RLIM_INFINITY else min(value, hard)


def confine_self(confinement: Confinement, *, terminal_fd: int | None = None) -> int | None:
    """Confine the calling thread and all that it will start, for good. Raises OSError.

    The command's terminal, if it has one, is granted in addition. Returns the listener of the calls
    that wait for an answer, for `serve_syscalls` in a thread that is not confined.
    """
    forbid_new_privileges()
    if confinement.drop_capabilities:
        drop_capabilities()
    if confinement.landlock is not None:
        rules = confinement.landlock
        if terminal_fd is not None:
            grants = (*rules.grants, terminal_grant(terminal_fd))
            rules = msgspec.structs.replace(rules, grants=grants)
        apply_landlock(rules)
    if confinement.seccomp:
        install_filter(confinement.seccomp)
    if confinement.connect is None:
        return None
    return install_notify_filter(build_notify_filter(CONNECT_CALLS))


def serve_syscalls(listener: int, confinement: Confinement) -> None:
    """Answer the calls of `listener` as long as this process lives.

    The listener is closed when no process is left under its filter.
    """
    rules = confinement.connect
    assert rules is not None
    held = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())  # not for its threads
    try:
        _dispatcher().add_listener(listener, connect_handlers(rules, is_own_by_mount(rules)))
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, held)


@cache
def _dispatcher() -> SyscallDispatcher:
    return SyscallDispatcher()


class _SpawnerThread:
    """A thread that confines itself once, then spawns each order it receives."""

    def __init__(self, confinement: Confinement) -> None:
        self._confinement = confinement
        self._orders = SimpleQueue[tuple[LaunchOrder, Sequence[int]]]()
        self._outcomes = SimpleQueue[int | SpawnFailed]()
        begun = SimpleQueue[_ConfineResult]()
        held = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())  # not for it
        try:
            threading.Thread(target=self._serve, args=(begun,), daemon=True).start()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, held)
        if isinstance(listener := begun.get(), int):
            serve_syscalls(listener, confinement)

    def spawn(self, order: LaunchOrder, fds: Sequence[int]) -> int:
        self._orders.put((order, fds))
        outcome = self._outcomes.get()
        if isinstance(outcome, SpawnFailed):
            raise outcome
        return outcome

    def _serve(self, begun: SimpleQueue[_ConfineResult]) -> None:
        confined: _ConfineResult = SpawnFailed(0, "sandbox")
        try:
            confined = _try_confine(self._confinement)
        finally:
            begun.put(confined)
        while True:
            order, fds = self._orders.get()
            outcome: int | SpawnFailed = SpawnFailed(0, "exec")
            try:
                outcome = confined if isinstance(confined, SpawnFailed) else _try_spawn(order, fds)
            finally:  # whatever happens, unblock the launcher
                self._outcomes.put(outcome)


@cache
def _spawner_thread(confinement: Confinement) -> _SpawnerThread:
    """One thread for each of the two kinds of confinement around bwrap.

    It would not survive a fork; but only launchers use it, and they fork no process that does.
    """
    return _SpawnerThread(confinement)


def needs_fork(order: LaunchOrder) -> bool:
    """True where posix_spawn cannot start the command.

    posix_spawn holds the GIL until the program runs, so the broker could not answer a call that the
    child makes before, such as opening its terminal.
    """
    is_brokered = order.confinement is not None and order.confinement.broker is not None
    return order.limits != CommandLimits() or (is_brokered and order.take_terminal)


def fork_command(
    order: LaunchOrder, fds: Sequence[int], become: Callable[[LaunchOrder], NoReturn]
) -> int:
    """Fork; the child continues with `become`. Returns its pid. Raises OSError.

    A brokered command is confined before the fork, and its order then carries no confinement.
    """
    confinement = order.confinement

    def fork() -> int:
        pid = os.fork()
        if pid == 0:
            become(order)
        return pid

    if confinement is None or confinement.broker is None:
        return fork()
    order = msgspec.structs.replace(order, confinement=None)
    terminal_fd = fds[0] if order.take_terminal else None
    return start_under_broker(
        confinement, lambda: _confine_brokered(confinement, terminal_fd=terminal_fd), fork
    )


def _confine_brokered(confinement: Confinement, *, terminal_fd: int | None = None) -> None:
    """Confine the thread without the notify filter, because a thread can have only one.

    Raises OSError.
    """
    bare = msgspec.structs.replace(confinement, connect=None, broker=None)
    confine_self(bare, terminal_fd=terminal_fd)


def _spawn_confined(order: LaunchOrder, fds: Sequence[int], confinement: Confinement) -> int:
    if confinement.broker is not None:
        try:
            return start_under_broker(
                confinement, lambda: _confine_brokered(confinement), lambda: _spawn(order, fds)
            )
        except OSError as error:
            raise SpawnFailed(error.errno or 0, "sandbox") from error
    outcome: list[int | SpawnFailed] = []
    listeners: list[int] = []

    def confine_and_spawn() -> None:
        confined = _try_confine(confinement, terminal_fd=fds[0] if order.take_terminal else None)
        if isinstance(confined, SpawnFailed):
            outcome.append(confined)
            return
        if confined is not None:
            listeners.append(confined)
        outcome.append(_try_spawn(order, fds))

    thread = threading.Thread(target=confine_and_spawn)
    thread.start()
    thread.join()
    for listener in listeners:
        serve_syscalls(listener, confinement)
    match outcome:
        case [int() as pid]:
            return pid
        case [SpawnFailed() as failure]:
            raise failure
        case _:  # the thread failed: nothing was started
            raise SpawnFailed(0, "sandbox")


def _try_confine(confinement: Confinement, *, terminal_fd: int | None = None) -> _ConfineResult:
    """Confine the calling thread: its listener of waiting calls, None, or the failure."""
    try:
        return confine_self(confinement, terminal_fd=terminal_fd)
    except OSError as error:
        return SpawnFailed(error.errno or 0, "sandbox")


def _try_spawn(order: LaunchOrder, fds: Sequence[int]) -> int | SpawnFailed:
    try:
        return _spawn(order, fds)
    except SpawnFailed as failure:
        return failure


def _spawn(order: LaunchOrder, fds: Sequence[int]) -> int:
    try:
        return os.posix_spawn(
            _find_program(order),
            order.argv,
            order.environment,
            file_actions=_file_actions(order, fds),
            setsid=not order.keep_session,
            setsigdef=_DEFAULTED_SIGNALS,
            setsigmask=(),
        )
    except OSError as error:
        raise SpawnFailed(error.errno or 0, "exec") from error
    except ValueError as error:  # a NUL byte in an argument
        raise SpawnFailed(22, "exec") from error


def _file_actions(order: LaunchOrder, fds: Sequence[int]) -> list[_FileAction]:
    """Put the standard files (and bwrap's two) in place.

    Targets ascend, and no source is below 3, so none is overwritten before it is copied.
    """
    if order.take_terminal:
        # The first terminal that a session leader opens becomes its controlling terminal.
        name = os.ttyname(fds[0])
        actions: list[_FileAction] = [(os.POSIX_SPAWN_OPEN, 0, name, os.O_RDWR, 0)]
        return [*actions, (os.POSIX_SPAWN_DUP2, 0, 1), (os.POSIX_SPAWN_DUP2, 0, 2)]
    targets = (0, 1, 2, SECCOMP_FD, ROUTE_FD)
    return [(os.POSIX_SPAWN_DUP2, fd, to) for fd, to in zip(fds, targets, strict=False)]


def _find_program(order: LaunchOrder) -> str:
    """Find the program as execvp does, by the command's own PATH.

    Raises FileNotFoundError, which the caller reports as a failed exec.
    """
    name = order.argv[0]
    if "/" in name:
        return name
    for folder in order.environment.get("PATH", "/usr/bin:/bin").split(":"):
        path = Path(order.cwd, folder, name)
        if os.access(path, os.X_OK) and path.is_file():
            return str(path)
    raise FileNotFoundError(2, "not found", name)

"""Starts a command whose file calls are brokered (`sandbox/file_broker.py`), from the launcher.

Two threads: the broker thread confines itself to everything that the command may have or have done
for it, and stays to answer its calls. The broker thread makes a second thread, which adds the
command's own, narrower rules, starts the command and ends. The command's Landlock domain is nested
below the broker's, so the kernel lets the broker read the command's memory, and never the reverse.

The broker has no capabilities, and its own working folder and umask. All signals are blocked in
both threads.
"""

import ctypes
import os
import select
import signal
import threading
from collections.abc import Callable, Mapping
from queue import SimpleQueue

import msgspec

from ..sandbox.commit_broker import CommitBroker
from ..sandbox.connect_broker import ConnectRules, connect_handlers, is_own_by_mount
from ..sandbox.file_broker import FileBroker
from ..sandbox.file_policy import FilePolicy, path_access
from ..sandbox.landlock import apply_landlock, drop_capabilities, forbid_new_privileges, has_scopes
from ..sandbox.notify_filter import (
    CONNECT_CALLS,
    FILE_CALLS,
    build_notify_filter,
    install_notify_filter,
)
from ..sandbox.path_resolution import path_of_fd
from ..sandbox.prepared_command import BrokerConfig, Confinement
from ..sandbox.syscall_dispatcher import (
    ContinueSyscall,
    PendingSyscall,
    SyscallAnswer,
    SyscallDispatcher,
    SyscallHandler,
)

_CLONE_FS = 0x200
_NAME = "file-broker"
_libc = ctypes.CDLL(None, use_errno=True)


def start_under_broker(
    confinement: Confinement, confine: Callable[[], None], start: Callable[[], int]
) -> int:
    """Call `start` in a thread that `confine` has confined; return the pid that it returns.

    From then on the broker answers the system calls of that thread and of all that it starts.
    Raises what either callable raises, OSError.
    """
    outcome = SimpleQueue[int | BaseException]()
    held = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    try:
        stay = _BrokerThread(confinement, confine, start, outcome)
        threading.Thread(target=stay.run, daemon=True, name=_NAME).start()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, held)
    result = outcome.get()
    if isinstance(result, BaseException):
        raise result
    return result


def wait_for_brokers(limit_s: float) -> None:
    """Wait until the brokers have removed what they must remove, at most `limit_s` each.

    Call it when no process is left that could make a brokered call.
    """
    for thread in threading.enumerate():
        if thread.name == _NAME:
            thread.join(limit_s)


class _BrokerThread:
    """The thread that answers calls as long as a process could make one."""

    def __init__(
        self,
        confinement: Confinement,
        confine: Callable[[], None],
        start: Callable[[], int],
        outcome: "SimpleQueue[int | BaseException]",
    ) -> None:
        assert confinement.broker is not None
        self._confinement, self._brokered = confinement, confinement.broker
        self._confine, self._start, self._outcome = confine, start, outcome
        self._listeners = SimpleQueue[int | None]()

    def run(self) -> None:
        try:
            self._serve_calls()
        except BaseException as error:  # before anything began: unblock the launcher
            self._outcome.put(error)

    def _serve_calls(self) -> None:
        is_wrapped = self._brokered.rules is None
        if is_wrapped:  # bwrap needs what the broker gives up
            self._start_command_thread()
        forbid_new_privileges()
        drop_capabilities()
        _unshare_working_folder()
        if self._brokered.rules is not None:
            apply_landlock(self._brokered.rules)
        broker, handlers = _handlers(self._confinement, self._brokered)
        if not is_wrapped:
            self._start_command_thread()
        if (listener := self._listeners.get()) is not None:
            os.chdir("/")  # keep no file system busy
            try:
                SyscallDispatcher().serve_listener(listener, handlers)
            finally:
                broker.close()

    def _start_command_thread(self) -> None:
        threading.Thread(target=self._start_command, daemon=True).start()

    def _start_command(self) -> None:
        listener = wrapped = None
        try:
            self._confine()
            _unshare_working_folder()
            names: tuple[str, ...] = FILE_CALLS
            if self._brokered.rules is not None or self._confinement.connect is not None:
                names += CONNECT_CALLS
            listener = install_notify_filter(build_notify_filter(names))
            self._listeners.put(listener)
            result: int | BaseException = (pid := self._start())
            if self._brokered.rules is None:
                wrapped = os.pidfd_open(pid)  # before the launcher may reap it
        except BaseException as error:  # whatever happens, unblock the launcher
            result = error
        if listener is None:
            self._listeners.put(None)
        self._outcome.put(result)
        if wrapped is not None:
            _wait_ended(wrapped)


def _wait_ended(pidfd: int) -> None:
    """Wait for bwrap, which the kernel kills when the thread that started it ends.

    A thread that stayed longer would keep the listener open, as it has the filter itself, and the
    broker alive.
    """
    poll = select.poll()
    poll.register(pidfd, select.POLLIN)
    poll.poll()
    os.close(pidfd)


def _handlers(
    confinement: Confinement, brokered: BrokerConfig
) -> tuple[FileBroker | CommitBroker, Mapping[str, SyscallHandler]]:
    commits = CommitBroker(brokered.policy)
    if brokered.rules is None:
        connect: Mapping[str, SyscallHandler] = {}
        if confinement.connect is not None:
            connect = connect_handlers(confinement.connect, is_own_by_mount(confinement.connect))
        going_on: dict[str, SyscallHandler] = dict.fromkeys(FILE_CALLS, _continue_call)
        return commits, {**going_on, **commits.handlers(), **connect}
    files = FileBroker(brokered.policy)
    plain = files.handlers()
    both = plain
    if brokered.policy.repositories:
        both = {
            **plain,
            **{n: _chain_handlers(one, plain[n]) for n, one in commits.handlers().items()},
        }
    wanted = confinement.connect or ConnectRules()
    judged = msgspec.structs.replace(wanted, scoped=has_scopes())  # by the broker's own rules
    return files, {**both, **_own_connect_handlers(brokered.policy, judged)}


def _continue_call(_: PendingSyscall) -> SyscallAnswer:
    return ContinueSyscall()


def _chain_handlers(one: SyscallHandler, other: SyscallHandler) -> SyscallHandler:
    """Call the first handler; if it lets the call continue, the second one decides."""

    def handle(call: PendingSyscall) -> SyscallAnswer:
        answer = one(call)
        return other(call) if isinstance(answer, ContinueSyscall) else answer

    return handle


def _own_connect_handlers(policy: FilePolicy, rules: ConnectRules) -> Mapping[str, SyscallHandler]:
    def is_own(socket: int, _root: int) -> bool:
        return path_access(policy, path_of_fd(socket)) == "open"

    return connect_handlers(rules, is_own)


def _unshare_working_folder() -> None:
    """Give this thread its own working folder and umask."""
    if _libc.unshare(_CLONE_FS) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"unshare: {os.strerror(number)}")

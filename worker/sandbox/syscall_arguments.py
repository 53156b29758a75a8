"""Reads the arguments of a waiting system call, for both file brokers."""

import errno
from collections.abc import Callable

from .path_resolution import NotResolved
from .syscall_dispatcher import ContinueSyscall, PendingSyscall, SyscallAnswer, SyscallHandler

AT_FDCWD = (1 << 32) - 100  # AT_FDCWD, as an unsigned word


def continue_if_unresolved(handler: Callable[[PendingSyscall], SyscallAnswer]) -> SyscallHandler:
    """A handler that leaves to the kernel's own rules what cannot be resolved."""

    def handle(call: PendingSyscall) -> SyscallAnswer:
        try:
            return handler(call)
        except NotResolved:
            return ContinueSyscall()

    return handle


def read_path_argument(call: PendingSyscall, index: int) -> bytes:
    """The path of an argument. Raises NotResolved: the caller's memory is protected, or no path."""
    try:
        return call.read_path(index)
    except OSError as error:
        raise NotResolved from error


def check_caller_alive(call: PendingSyscall) -> None:
    """Check that what was opened by the caller's pid was the caller's. Raises OSError."""
    if not call.is_valid():
        raise ProcessLookupError(errno.ESRCH, "the caller has gone")


def caller_umask(call: PendingSyscall) -> int:
    """The caller's umask. Raises OSError."""
    with open(f"/proc/{call.pid}/status", "rb") as status:  # noqa: PTH123
        for line in status:
            if line.startswith(b"Umask:"):
                return int(line.split()[1], 8)
    raise ProcessLookupError(errno.ESRCH, "the caller has gone")

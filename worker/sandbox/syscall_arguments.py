"""What a waiting call says, as both brokers of files read it."""

import errno
from collections.abc import Callable

from .path_resolution import NotResolved
from .syscall_dispatcher import ContinueSyscall, PendingSyscall, SyscallAnswer, SyscallHandler

AT_FDCWD = (1 << 32) - 100  # AT_FDCWD, as a word


def continue_if_unresolved(handler: Callable[[PendingSyscall], SyscallAnswer]) -> SyscallHandler:
    """What cannot be resolved is left to the kernel's own rules."""

    def handle(call: PendingSyscall) -> SyscallAnswer:
        try:
            return handler(call)
        except NotResolved:
            return ContinueSyscall()

    return handle


def read_path_argument(call: PendingSyscall, index: int) -> bytes:
    """Raises NotResolved: a process that guards its memory, or no path at all."""
    try:
        return call.read_path(index)
    except OSError as error:
        raise NotResolved from error


def check_caller_alive(call: PendingSyscall) -> None:
    """What was opened by the caller's number was the caller's. Raises OSError."""
    if not call.is_valid():
        raise ProcessLookupError(errno.ESRCH, "the caller has gone")


def caller_umask(call: PendingSyscall) -> int:
    """Raises OSError."""
    with open(f"/proc/{call.pid}/status", "rb") as status:  # noqa: PTH123
        for line in status:
            if line.startswith(b"Umask:"):
                return int(line.split()[1], 8)
    raise ProcessLookupError(errno.ESRCH, "the caller has gone")

"""What a waiting call says, as both brokers of files read it."""

import errno
from collections.abc import Callable

from .notifier import Answer, GoOn, Handler, WaitingCall
from .resolve import NotResolved

HERE = (1 << 32) - 100  # AT_FDCWD, as a word


def or_go_on(handler: Callable[[WaitingCall], Answer]) -> Handler:
    """What cannot be resolved is left to the kernel's own rules."""

    def handle(call: WaitingCall) -> Answer:
        try:
            return handler(call)
        except NotResolved:
            return GoOn()

    return handle


def words_of(call: WaitingCall, index: int) -> bytes:
    """Raises NotResolved: a process that guards its memory, or no path at all."""
    try:
        return call.read_path(index)
    except OSError as error:
        raise NotResolved from error


def check_alive(call: WaitingCall) -> None:
    """What was opened by the caller's number was the caller's. Raises OSError."""
    if not call.is_valid():
        raise ProcessLookupError(errno.ESRCH, "the caller has gone")


def umask_of(call: WaitingCall) -> int:
    """Raises OSError."""
    with open(f"/proc/{call.pid}/status", "rb") as status:  # noqa: PTH123
        for line in status:
            if line.startswith(b"Umask:"):
                return int(line.split()[1], 8)
    raise ProcessLookupError(errno.ESRCH, "the caller has gone")

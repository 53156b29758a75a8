"""Between fork and exec: the forked child becomes the command, or reports why it could not.

Only for commands that `command_spawn.needs_fork` names; all others are spawned
(`command_spawn.py`).

The code is single-threaded and short, never returns and never raises. Only the three standard files
(and bwrap's two) are open in the command, since all others close on exec.
"""

import array
import contextlib
import fcntl
import os
import signal
import socket
import termios
from typing import NamedTuple, NoReturn

from swarm.mailbox.base.after_fork import DEFAULT_HANDLER, set_handler

from ..sandbox.bwrap import ROUTE_FD, SECCOMP_FD
from .command_spawn import confine_self, set_process_limits
from .launcher_protocol import LaunchOrder

_NEVER_INHERIT_IGNORED = (
    signal.SIGPIPE, signal.SIGXFSZ, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGTERM,
    signal.SIGCHLD, signal.SIGTTOU, signal.SIGTTIN, signal.SIGTSTP, signal.SIGUSR1, signal.SIGUSR2,
)  # fmt: skip
_FIRST_FREE_FD = 64
LISTENER_TAG = b"listener"


class ForkedCommand(NamedTuple):
    """A forked child that has not yet become its command."""

    order: LaunchOrder
    pid: int
    report: socket.socket


def receive_child_report(report: socket.socket) -> tuple[bytes, int | None]:
    """A child's next report (b"" at its end), and the listener of its waiting calls if it came."""
    fds = array.array("i")
    try:
        room = socket.CMSG_LEN(fds.itemsize)
        said, extra, _, _ = report.recvmsg(64, room, socket.MSG_CMSG_CLOEXEC)
    except OSError:
        return b"", None
    for level, kind, data in extra:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            fds.frombytes(data[: fds.itemsize])
    return said, fds[0] if fds else None


def exec_forked_command(order: LaunchOrder, fds: list[int], report_fd: int) -> NoReturn:
    """Become the command. Does not return.

    A failure is written to `report_fd`, a socket, as b"ERRNO STEP". If there are calls that wait
    for the launcher, their listener is sent there too.
    """
    step = "setup"
    try:
        _reset_signals()
        if not order.keep_session:
            os.setsid()
        report_fd = _install_fds(fds, report_fd)
        if order.take_terminal:
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)
        step = "limits"
        set_process_limits(order.limits)
        step = "cwd"
        os.chdir(order.cwd)
        step = "sandbox"
        if order.confinement is not None:
            terminal_fd = 0 if order.take_terminal else None
            listener = confine_self(order.confinement, terminal_fd=terminal_fd)
            if listener is not None:
                with socket.socket(fileno=os.dup(report_fd)) as report:
                    socket.send_fds(report, [LISTENER_TAG], [listener])
        step = "exec"
        os.execvpe(order.argv[0], order.argv, order.environment)
    except OSError as error:
        _report(report_fd, error.errno or 0, step)
    except (ValueError, MemoryError):  # a NUL byte in an argument, a limit below the present use
        _report(report_fd, 22, step)
    finally:
        os._exit(127)


def _report(fd: int, number: int, step: str) -> None:
    with contextlib.suppress(OSError):
        os.write(fd, f"{number} {step}".encode())


def _reset_signals() -> None:
    signal.set_wakeup_fd(-1)
    for number in _NEVER_INHERIT_IGNORED:
        set_handler(number, DEFAULT_HANDLER)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def _install_fds(fds: list[int], report_fd: int) -> int:
    """Put `fds` at 0, 1, 2 (and bwrap's at 3, 4); return where the report is now."""
    # Move all out of the way first: a source must not be overwritten before it is copied.
    moved = [fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, _FIRST_FREE_FD) for fd in fds]
    report_fd = fcntl.fcntl(report_fd, fcntl.F_DUPFD_CLOEXEC, _FIRST_FREE_FD)
    for target, fd in zip((0, 1, 2, SECCOMP_FD, ROUTE_FD), moved, strict=False):
        os.dup2(fd, target)
    return report_fd

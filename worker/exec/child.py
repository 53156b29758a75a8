"""Between fork and exec: the forked child becomes the command, or reports why it could not.

Guards: single-threaded, short, never returns, never raises; no file is open in the command but its
three standard ones (and bwrap's filter), since all others close on exec.
"""

import contextlib
import fcntl
import os
import resource
import signal
import termios

from ..sandbox.bwrap import SECCOMP_FD
from ..sandbox.landlock import apply_landlock, forbid_new_privileges
from ..sandbox.launch import Confinement
from ..sandbox.seccomp import install_filter
from .orders import CommandLimits, LaunchOrder

_NEVER_INHERIT_IGNORED = (
    signal.SIGPIPE, signal.SIGXFSZ, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGTERM,
    signal.SIGCHLD, signal.SIGTTOU, signal.SIGTTIN, signal.SIGTSTP, signal.SIGUSR1, signal.SIGUSR2,
)  # fmt: skip
_OUT_OF_THE_WAY = 64


def become_command(order: LaunchOrder, fds: list[int], report_fd: int) -> None:
    """Does not return. A failure is written to `report_fd` as b"ERRNO STEP"."""
    step = "setup"
    try:
        _reset_signals()
        os.setsid()
        report_fd = _place_files(fds, report_fd)
        if order.take_terminal:
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)
        step = "limits"
        _limit(order.limits)
        step = "cwd"
        os.chdir(order.cwd)
        step = "sandbox"
        if order.confinement is not None:
            _confine(order.confinement)
        step = "exec"
        os.execvpe(order.argv[0], order.argv, order.environment)
    except OSError as error:
        _report(report_fd, error.errno or 0, step)
    except (ValueError, MemoryError):  # a NUL byte in a word, a limit below the present use
        _report(report_fd, 22, step)
    finally:
        os._exit(127)


def _report(fd: int, number: int, step: str) -> None:
    with contextlib.suppress(OSError):
        os.write(fd, f"{number} {step}".encode())


def _reset_signals() -> None:
    signal.set_wakeup_fd(-1)
    for number in _NEVER_INHERIT_IGNORED:
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def _place_files(fds: list[int], report_fd: int) -> int:
    """Put `fds` at 0, 1, 2 (and the filter at 3); returns where the report is now."""
    # First out of the way: a source must not be overwritten before it is copied.
    moved = [fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, _OUT_OF_THE_WAY) for fd in fds]
    report_fd = fcntl.fcntl(report_fd, fcntl.F_DUPFD_CLOEXEC, _OUT_OF_THE_WAY)
    for target, fd in zip((0, 1, 2, SECCOMP_FD), moved, strict=False):
        os.dup2(fd, target)
    return report_fd


def _limit(limits: CommandLimits) -> None:
    wanted = {
        resource.RLIMIT_DATA: limits.memory_bytes,
        resource.RLIMIT_NPROC: limits.processes,
        resource.RLIMIT_CPU: limits.cpu_s,
        resource.RLIMIT_FSIZE: limits.file_bytes,
        resource.RLIMIT_CORE: 0,
    }
    for kind, value in wanted.items():
        if value is not None:
            hard = resource.getrlimit(kind)[1]
            most = value if hard == resource.RLIM_INFINITY else min(value, hard)
            resource.setrlimit(kind, (most, most))
    if limits.open_files is not None:  # a soft one: programs that need more raise it themselves
        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        most = limits.open_files if hard == resource.RLIM_INFINITY else min(limits.open_files, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


def _confine(confinement: Confinement) -> None:
    forbid_new_privileges()
    if confinement.landlock is not None:
        apply_landlock(confinement.landlock)
    if confinement.seccomp:
        install_filter(confinement.seccomp)

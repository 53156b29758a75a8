"""The seccomp filter that makes some system calls of a command wait for its launcher.

It uses seccomp user notification. The filter only *adds* a question: what another filter denies
stays denied, because a denial is stronger than a notification. When no process listens any more,
the kernel answers ENOSYS.
"""

import ctypes
import errno
import os
import platform
import socket
import threading
from functools import cache

from .landlock import forbid_new_privileges
from .seccomp import ARCHITECTURES, UnsupportedMachine
from .terminals import OPEN_PEER

_LD, _JEQ, _JSET, _RET = 0x20, 0x15, 0x45, 0x06
_ALLOW, _NOTIFY, _ERRNO = 0x7FFF0000, 0x7FC00000, 0x00050000
_NR, _ARCH, _ARGS = 0, 4, 16
_SECCOMP = {"x86_64": 317, "aarch64": 277}
_PIDFD_GETFD = 438
_SET_FILTER, _NEW_LISTENER, _WAIT_KILLABLE = 1, 1 << 3, 1 << 5

CONNECT_CALLS = ("connect", "socketpair")
# All calls that can make, remove, replace or open for writing something at a path.
FILE_CALLS = (
    "open", "openat", "creat", "mkdir", "mkdirat", "mknod", "mknodat", "rename", "renameat",
    "renameat2", "link", "linkat", "symlink", "symlinkat", "unlink", "unlinkat", "rmdir",
    "truncate", "bind", "ioctl",
)  # fmt: skip

# name → number on x86-64, on aarch64 (None: does not exist there)
CALL_NUMBERS: dict[str, tuple[int | None, int | None]] = {
    "open": (2, None), "openat": (257, 56), "creat": (85, None), "mkdir": (83, None),
    "mkdirat": (258, 34), "mknod": (133, None), "mknodat": (259, 33), "rename": (82, None),
    "renameat": (264, 38), "renameat2": (316, 276), "link": (86, None), "linkat": (265, 37),
    "symlink": (88, None), "symlinkat": (266, 36), "unlink": (87, None), "unlinkat": (263, 35),
    "rmdir": (84, None), "truncate": (76, 45), "bind": (49, 200), "connect": (42, 203),
    "openat2": (437, 437), "ioctl": (16, 29),
    "socketpair": (53, 199),
}  # fmt: skip
_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | (os.O_TMPFILE & ~os.O_DIRECTORY)
# Of these calls only some wait: the argument that is tested, the test, its bits or value.
_SOME = {
    "open": (1, _JSET, _WRITES), "openat": (2, _JSET, _WRITES), "ioctl": (1, _JEQ, OPEN_PEER),
    "socketpair": (1, _JSET, socket.SOCK_DGRAM),  # and SOCK_RAW, also datagrams
}  # fmt: skip


def call_name(number: int, machine: str = "") -> str:
    """The name of a notified call; "" for one that no filter here notifies."""
    column = _column(machine or platform.machine())
    return next((name for name, row in CALL_NUMBERS.items() if row[column] == number), "")


@cache
def build_notify_filter(names: tuple[str, ...], machine: str = "") -> bytes:
    """A program that notifies of `names` and allows the rest.

    `open` and `openat` are notified only where their flags allow writing or creating. With them
    `openat2`, whose flags lie in memory, answers ENOSYS: programs then use `openat`. `ioctl` is
    notified only where it opens a terminal's other end, `socketpair` only where it makes datagram
    sockets. Calls of another architecture are allowed here: the denying filter kills them.

    Raises UnsupportedMachine.
    """
    machine = machine or platform.machine()
    column = _column(machine)
    code = [_op(_LD, _ARCH), _op(_JEQ, ARCHITECTURES[machine][0], yes=1), _op(_RET, _ALLOW)]
    code.append(_op(_LD, _NR))
    if "openat" in names:
        code += [_op(_JEQ, CALL_NUMBERS["openat2"][column] or 0, no=1)]
        code += [_op(_RET, _ERRNO | errno.ENOSYS)]
    for name in names:
        if (number := CALL_NUMBERS[name][column]) is None:
            continue
        if (some := _SOME.get(name)) is None:
            code += [_op(_JEQ, number, no=1), _op(_RET, _NOTIFY)]
            continue
        at, test, value = some
        code += [_op(_JEQ, number, no=4), _op(_LD, _ARGS + 8 * at), _op(test, value, no=1)]
        code += [_op(_RET, _NOTIFY), _op(_RET, _ALLOW)]
    code.append(_op(_RET, _ALLOW))
    return b"".join(code)


def install_notify_filter(program: bytes) -> int:
    """Put the calling thread and all it will start under `program`; needs no_new_privs first.

    Returns the listener (closed on exec), which the caller closes. Raises OSError: EBUSY if the
    thread is under such a filter already.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    header = _FilterProgram(len(program) // 8, program)
    number = _SECCOMP[platform.machine()]
    # Without WAIT_KILLABLE (before Linux 5.19) a notified call that a signal interrupts may be made
    # twice.
    for flags in (_NEW_LISTENER | _WAIT_KILLABLE, _NEW_LISTENER):
        fd = int(libc.syscall(number, _SET_FILTER, flags, ctypes.byref(header)))
        if fd >= 0:
            return fd
        if ctypes.get_errno() != errno.EINVAL:
            break
    raise OSError(ctypes.get_errno(), f"seccomp listener: {os.strerror(ctypes.get_errno())}")


@cache
def can_notify() -> bool:
    """True if commands that this process starts can wait for its answers.

    It needs Linux 5.6, and this process must not itself be under such a filter.
    """
    outcome: list[bool] = []
    try:
        program = build_notify_filter(())
    except UnsupportedMachine:
        return False

    def attempt() -> None:  # in a thread, because its filter ends with it
        try:
            forbid_new_privileges()
            os.close(install_notify_filter(program))
            libc = ctypes.CDLL(None, use_errno=True)
            libc.syscall(_PIDFD_GETFD, -1, 0, 0)
            outcome.append(ctypes.get_errno() == errno.EBADF)
        except OSError:
            outcome.append(False)

    thread = threading.Thread(target=attempt)
    thread.start()
    thread.join()
    return outcome == [True]


class _FilterProgram(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_char_p))


def _op(code: int, value: int, *, yes: int = 0, no: int = 0) -> bytes:
    return (code).to_bytes(2, "little") + bytes((yes, no)) + value.to_bytes(4, "little")


def _column(machine: str) -> int:
    if machine not in ARCHITECTURES:
        raise UnsupportedMachine(errno.ENOSYS, f"no seccomp table for {machine}")
    return ARCHITECTURES[machine][1]

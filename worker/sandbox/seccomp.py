"""The system-call filter: a small BPF assembler, its program as bytes, and its installation.

Default allow, with a closed list of denials by EPERM (a program then sees a refusal, not a crash).
Another architecture's calls kill the process. clone3 answers ENOSYS, because a filter cannot read
its flags and libc then falls back to clone.
"""

import ctypes
import errno
import os
import platform
import struct
from functools import cache

from swarm.mailbox.protocol.values.base import Value

_LD, _JEQ, _JGE, _JSET, _RET = 0x20, 0x15, 0x35, 0x45, 0x06
_ALLOW, _ERRNO, _KILL = 0x7FFF0000, 0x00050000, 0x80000000
_NR, _ARCH, _ARGS = 0, 4, 16
_X32_BIT = 0x40000000
_NEW_NAMESPACES = 0x7E020000  # CLONE_NEW{NS,CGROUP,UTS,IPC,USER,PID,NET}
_NEW_TIME = 0x80  # CLONE_NEWTIME; in clone these bits are the exit signal
_TIOCSTI, _TIOCLINUX = 0x5412, 0x541C
_AF_UNIX, _AF_INET, _AF_INET6 = 1, 2, 10
_SOCK_STREAM, _SOCK_SEQPACKET = 1, 5
_CONNECTED = tuple(  # socket kinds that carry nothing before they are connected
    kind | flag
    for kind in (_SOCK_STREAM, _SOCK_SEQPACKET)
    for flag in (0, 0o4000, 0o2000000, 0o2004000)
)
_DATAGRAMS = tuple(kind + shift for kind in _CONNECTED[:4] for shift in (1, 2))  # SOCK_RAW too
# machine → its audit number, its column in the tables of call numbers
ARCHITECTURES = {"x86_64": (0xC000003E, 0), "aarch64": (0xC00000B7, 1)}

# name → number on x86-64, on aarch64 (None: does not exist there)
_DENIED: dict[str, tuple[int | None, int | None]] = {
    "ptrace": (101, 117), "process_vm_readv": (310, 270), "process_vm_writev": (311, 271),
    "process_madvise": (440, 440), "kcmp": (312, 272), "pidfd_getfd": (438, 438),
    "bpf": (321, 280), "perf_event_open": (298, 241), "userfaultfd": (323, 282),
    "io_uring_setup": (425, 425), "io_uring_enter": (426, 426), "io_uring_register": (427, 427),
    "add_key": (248, 217), "request_key": (249, 218), "keyctl": (250, 219),
    "mount": (165, 40), "umount2": (166, 39), "pivot_root": (155, 41), "chroot": (161, 51),
    "open_tree": (428, 428), "move_mount": (429, 429), "fsopen": (430, 430),
    "fsconfig": (431, 431), "fsmount": (432, 432), "fspick": (433, 433),
    "mount_setattr": (442, 442), "open_tree_attr": (467, 467), "setns": (308, 268),
    "open_by_handle_at": (304, 265), "fanotify_init": (300, 262), "quotactl": (179, 60),
    "quotactl_fd": (443, 443), "kexec_load": (246, 104), "kexec_file_load": (320, 294),
    "init_module": (175, 105), "finit_module": (313, 273), "delete_module": (176, 106),
    "swapon": (167, 224), "swapoff": (168, 225), "reboot": (169, 142), "acct": (163, 89),
    "settimeofday": (164, 170), "clock_settime": (227, 112), "sethostname": (170, 161),
    "setdomainname": (171, 162), "syslog": (103, 116), "vhangup": (153, 58),
    "iopl": (172, None), "ioperm": (173, None), "modify_ldt": (154, None), "uselib": (134, None),
}  # fmt: skip
# Denied where the whole machine's IPC objects are in reach: SysV IPC and POSIX queues.
_DENIED_WHEN_SHARED: dict[str, tuple[int | None, int | None]] = {
    "shmget": (29, 194), "shmat": (30, 196), "shmctl": (31, 195), "semget": (64, 190),
    "semop": (65, 193), "semctl": (66, 191), "semtimedop": (220, 192), "msgget": (68, 186),
    "msgsnd": (69, 189), "msgrcv": (70, 188), "msgctl": (71, 187), "mq_open": (240, 180),
    "mq_unlink": (241, 181),
}  # fmt: skip
_CHECKED = {
    "clone": (56, 220), "clone3": (435, 435), "unshare": (272, 97), "ioctl": (16, 29),
    "socket": (41, 198), "socketpair": (53, 199), "connect": (42, 203), "sendto": (44, 206),
    "prlimit64": (302, 261),
}  # fmt: skip


_NUMBERS = {**_DENIED, **_DENIED_WHEN_SHARED, **_CHECKED}


class FilterRequest(Value):
    """What the filter depends on. `connect` matters only while the network is off."""

    network: bool
    connect: bool = True  # Unix sockets may be connected
    loopback: bool = False  # with `network` False: a namespace with only a loopback device
    unix: bool = True  # Unix sockets can be made: their connections are checked
    answered: bool = False  # with `shared`: each connection waits for the launcher's check
    shared: bool = False  # no namespaces: other processes and their IPC objects are in reach
    machine: str = ""  # "x86_64", "aarch64"; empty: this one


class UnsupportedMachine(OSError):
    """There is no table of call numbers for this architecture."""


class _Program:
    """Instructions in order; every jump goes forward over what its own method emitted."""

    def __init__(self, column: int) -> None:
        self.code: list[bytes] = []
        self._column = column

    def emit(self, code: int, value: int, *, yes: int = 0, no: int = 0) -> None:
        self.code.append(struct.pack("=HBBI", code, yes, no, value))

    def load(self, offset: int) -> None:
        self.emit(_LD, offset)

    def return_errno(self, number: int) -> None:
        self.emit(_RET, _ERRNO | number)

    def number(self, name: str) -> int | None:
        return _NUMBERS[name][self._column]

    def deny(self, name: str, number: int = errno.EPERM) -> None:
        call = self.number(name)
        if call is not None:
            self.emit(_JEQ, call, no=1)
            self.return_errno(number)

    def check(self, name: str, *tests: tuple[int, int, int, bool]) -> None:
        """For call `name`: apply each (offset, op, value, deny_if) in turn, then allow."""
        call = self.number(name)
        assert call is not None
        self.emit(_JEQ, call, no=3 * len(tests) + 1)
        for offset, op, value, deny_if in tests:
            self.load(offset)
            self.emit(op, value, yes=0 if deny_if else 1, no=1 if deny_if else 0)
            self.return_errno(errno.EPERM)
        self.emit(_RET, _ALLOW)

    def allow_only(self, name: str, index: int, values: tuple[int, ...]) -> None:
        """For call `name`: continue only if its argument is one of `values`."""
        call = self.number(name)
        assert call is not None
        self.emit(_JEQ, call, no=len(values) + 3)
        self.load(_argument(index))
        for left, value in zip(range(len(values), 0, -1), values, strict=True):
            self.emit(_JEQ, value, yes=left)
        self.return_errno(errno.EPERM)
        self.load(_NR)

    def allow_kinds(self, name: str, family: int, values: tuple[int, ...]) -> None:
        """For call `name`: allow sockets of this family only if their type is one of `values`."""
        call = self.number(name)
        assert call is not None
        self.emit(_JEQ, call, no=len(values) + 5)
        self.load(_argument(0))
        self.emit(_JEQ, family, no=len(values) + 2)
        self.load(_argument(1))
        for left, value in zip(range(len(values), 0, -1), values, strict=True):
            self.emit(_JEQ, value, yes=left)
        self.return_errno(errno.EPERM)
        self.load(_NR)


@cache
def build_filter(request: FilterRequest) -> bytes:
    """The program as an array of `struct sock_filter`, ready for bwrap's --seccomp or prctl.

    Raises UnsupportedMachine when the architecture is not known.
    """
    machine = request.machine or platform.machine()
    if machine not in ARCHITECTURES:
        raise UnsupportedMachine(errno.ENOSYS, f"no seccomp table for {machine}")
    audit, column = ARCHITECTURES[machine]
    program = _Program(column)
    program.load(_ARCH)
    program.emit(_JEQ, audit, yes=1)
    program.emit(_RET, _KILL)
    program.load(_NR)
    if column == 0:
        program.emit(_JGE, _X32_BIT, no=1)
        program.emit(_RET, _KILL)
    for name in _DENIED:
        program.deny(name)
    program.deny("clone3", errno.ENOSYS)
    program.check("clone", (_argument(0), _JSET, _NEW_NAMESPACES, True))
    program.check("unshare", (_argument(0), _JSET, _NEW_NAMESPACES | _NEW_TIME, True))
    request_code = _argument(1)
    program.check(
        "ioctl", (request_code, _JEQ, _TIOCSTI, True), (request_code, _JEQ, _TIOCLINUX, True)
    )
    if request.shared:
        _deny_shared_resources(program)
    if request.loopback:
        _allow_loopback_only(program, unix=request.unix)
    elif not request.network:
        if request.answered:
            program.allow_kinds("socket", _AF_UNIX, _CONNECTED)
            program.allow_kinds("socketpair", _AF_UNIX, _paired(unix=True))
        _deny_network(program, connect=request.connect)
    else:
        program.allow_kinds("socket", _AF_UNIX, _CONNECTED if request.unix else ())
        program.allow_kinds("socketpair", _AF_UNIX, _paired(unix=request.unix))
    program.emit(_RET, _ALLOW)
    return b"".join(program.code)


def _deny_shared_resources(program: _Program) -> None:
    """Deny what Landlock has no rule for: IPC objects, and other processes' resource limits."""
    for name in _DENIED_WHEN_SHARED:
        program.deny(name, errno.ENOSYS)  # as on a kernel without them: programs adapt
    program.allow_only("prlimit64", 0, (0,))


def _paired(*, unix: bool) -> tuple[int, ...]:
    """Allowed kinds of Unix socket pairs.

    Where connections are checked, the launcher answers a call for datagram pairs itself, with a
    pair that ignores addresses (`datagram_pairs.py`).
    """
    return _CONNECTED + _DATAGRAMS if unix else _CONNECTED


def _allow_loopback_only(program: _Program, *, unix: bool) -> None:
    """Allow internet sockets, which reach only the namespace's loopback, and Unix sockets.

    Only Unix sockets that carry nothing before they are connected: a datagram could be sent to any
    path.
    """
    program.allow_only("socket", 0, (_AF_INET, _AF_INET6, *((_AF_UNIX,) if unix else ())))
    program.allow_kinds("socket", _AF_UNIX, _CONNECTED)
    program.allow_only("socketpair", 0, (_AF_UNIX,))
    program.allow_only("socketpair", 1, _paired(unix=unix))


def _deny_network(program: _Program, *, connect: bool) -> None:
    if not connect:  # a datagram needs no connect, and a filter cannot read sendmsg's address
        program.allow_only("socket", 0, (_AF_UNIX,))
        program.allow_only("socket", 1, _CONNECTED)
        program.allow_only("socketpair", 1, _CONNECTED)
    program.check("socket", (_argument(0), _JEQ, _AF_UNIX, False))
    program.check("socketpair", (_argument(0), _JEQ, _AF_UNIX, False))
    if not connect:
        program.deny("connect")
        # A datagram with an address needs no connect; send() passes a null one. Test both words:
        # memory can be mapped at a multiple of 4 GiB on purpose.
        low, high = _argument(4), _argument(4) + 4
        program.check("sendto", (low, _JEQ, 0, False), (high, _JEQ, 0, False))


def _argument(index: int) -> int:
    """Offset of the low word of a call's argument (both machines are little-endian)."""
    return _ARGS + 8 * index


class _FilterProgram(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_char_p))


def install_filter(program: bytes) -> None:
    """Put this thread and its future children under `program`. Needs no_new_privs first.

    Raises OSError when the kernel refuses.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    header = _FilterProgram(len(program) // 8, program)
    if libc.prctl(22, 2, ctypes.byref(header), 0, 0) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"seccomp: {os.strerror(number)}")

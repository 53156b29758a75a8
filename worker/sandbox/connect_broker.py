"""Connections of a confined command, made for it by its launcher (`notifier.py`) or refused.

Which Unix socket a path leads to is looked up step by step in the caller's own mount namespace and
held open while it is judged; the connection then goes to what is held, whatever the path leads to
by then. So no name is trusted: not one that was bound by a relative path, renamed or linked since.

A socket that is older than the run was bound by somebody else, wherever it lies: no command of the
run lived then, and only the kernel sets the birth of a file. Where a file system does not keep it,
the place alone decides.

Guards: address and descriptor are the launcher's own copies, and it never lets the kernel look
again: either could be swapped for others. The thread that connects has no capabilities, as the
command has none.
"""

import ctypes
import errno
import fcntl
import os
import socket
import stat
import struct
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress

from swarm.mailbox.path_rules import is_within
from swarm.mailbox.protocol.base import Value

from .landlock import drop_capabilities
from .pairs import pair_handlers
from .syscall_dispatcher import (
    DeferredAnswer,
    FailSyscall,
    PendingSyscall,
    ReturnValue,
    SyscallAnswer,
    SyscallHandler,
)

IsOwnSocket = Callable[[int, int], bool]  # descriptors of a socket's file and of the caller's root

_LONGEST_ADDRESS = 128
_MOST_LINKS = 40
_FAMILY_BYTES = 2
_UNIX = socket.AF_UNIX.to_bytes(_FAMILY_BYTES, "little")
_SIOCGSKNS = 0x894C  # the network namespace of a socket
_AT_EMPTY_PATH, _STATX_BTIME, _STATX_BYTES = 0x1000, 0x800, 256
_MASK, _BIRTH, _BIRTH_AT = struct.Struct("=I"), struct.Struct("=qI"), 0x50
_PLACE = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
_FOLDER = os.O_PATH | os.O_CLOEXEC
_libc = ctypes.CDLL(None, use_errno=True)


class ConnectRules(Value):
    """What a command's connections are judged by."""

    sockets: tuple[str, ...] = ()  # of other programs, that a rule opens
    own: tuple[str, ...] = ()  # only what lies below these is the command's own; (): no such bound
    scoped: bool = False  # the kernel lets whoever connects reach only the command's abstract names
    since_s: float = 0.0  # when the run began (Unix time): what is older is nobody's own


def connect_handlers(rules: ConnectRules, is_own: IsOwnSocket) -> Mapping[str, SyscallHandler]:
    """For `RunNotifier.add_listener`. `is_own` tells whether the socket's place is the command's
    own.
    """

    def handle(call: PendingSyscall) -> SyscallAnswer:
        # Any connection may wait, and any path may lead to a file system that does.
        return DeferredAnswer(lambda: _connect(call, rules, is_own))

    return {"connect": handle, **pair_handlers()}


def _connect(call: PendingSyscall, rules: ConnectRules, is_own: IsOwnSocket) -> SyscallAnswer:
    """Raises OSError: it is refused."""
    drop_capabilities()
    address = _address(call)
    with _take_socket(call) as taken:
        if taken.family != socket.AF_UNIX:
            return _connected(taken, address)
        if _is_abstract(address):
            if not rules.scoped and _is_in_our_network(taken):
                return FailSyscall()  # such a name may be another program's
            return _connected(taken, address)
        place = find_socket(call, address, rules, is_own)
        try:
            way = f"/proc/self/fd/{place}".encode()
            return _connected(taken, address[:_FAMILY_BYTES] + way + b"\0")
        finally:
            os.close(place)


def _take_socket(call: PendingSyscall) -> socket.socket:
    """The caller's socket. Raises OSError."""
    fd = call.take_descriptor(call.args[0] & 0x7FFFFFFF)
    try:
        return socket.socket(fileno=fd)
    except BaseException:  # no socket
        os.close(fd)
        raise


def _address(call: PendingSyscall) -> bytes:
    """The launcher's own copy. Raises OSError."""
    at, size = call.args[1], call.args[2] & 0xFFFFFFFF
    if size > _LONGEST_ADDRESS:
        raise OSError(errno.EINVAL, "the address is too long")
    if at + size >= 1 << 63:
        raise OSError(errno.EFAULT, "bad address")
    address = call.read_memory(at, size) if size else b""
    if len(address) < size:
        raise OSError(errno.EFAULT, "bad address")
    return address


def _is_abstract(address: bytes) -> bool:
    """An abstract name, which is no path but holds within one network namespace."""
    return address[: _FAMILY_BYTES + 1] == _UNIX + b"\0"


def _is_in_our_network(taken: socket.socket) -> bool:
    """True where names of the machine's other programs are found."""
    try:
        theirs = fcntl.ioctl(taken, _SIOCGSKNS)
    except PermissionError:  # only of a namespace that is the command's do we have the right to ask
        return True
    try:
        return os.path.samestat(os.fstat(theirs), os.stat("/proc/self/ns/net"))  # noqa: PTH116
    finally:
        os.close(theirs)


def find_socket(
    call: PendingSyscall, address: bytes, rules: ConnectRules, is_own: IsOwnSocket
) -> int:
    """The socket that a Unix address with a path leads to, held open (O_PATH), the receiver's to
    close. Raises OSError: it is refused.
    """
    path = address[_FAMILY_BYTES:]
    if address[:_FAMILY_BYTES] != _UNIX or not path:
        raise OSError(errno.EINVAL, "no address of a Unix socket")
    root = os.open(f"/proc/{call.pid}/root", _FOLDER)
    try:
        place = open_path_as_caller(call, path.partition(b"\0")[0], root)
        try:
            _judge(place, root, rules, is_own)
        except BaseException:
            os.close(place)
            raise
    finally:
        os.close(root)
    return place


def _judge(place: int, root: int, rules: ConnectRules, is_own: IsOwnSocket) -> None:
    """Raises OSError: no connection may be made to what is held open there."""
    found = os.fstat(place)
    if not stat.S_ISSOCK(found.st_mode):
        raise ConnectionRefusedError(errno.ECONNREFUSED, "no socket")
    if is_own(place, root) and not _is_older(place, rules.since_s):
        return
    for path in rules.sockets:
        with suppress(OSError):
            if os.path.samestat(os.lstat(path), found):
                return
    raise PermissionError(errno.EACCES, "another program's socket")


def open_path_as_caller(call: PendingSyscall, path: bytes, root: int) -> int:
    """What `path` leads the caller to, held open (O_PATH), links followed; the receiver's to close.

    Raises OSError. Links of `/proc/PID/fd` lead where their text says.
    """
    here = os.open(f"/proc/{call.pid}/cwd", _FOLDER) if path[:1] != b"/" else os.dup(root)
    try:
        if not call.is_valid():  # both may be another's
            raise ProcessLookupError(errno.ESRCH, "the caller has gone")
        steps, links = deque(path.split(b"/")), 0
        while steps:
            if (name := steps.popleft()) in (b"", b"."):
                continue
            found = os.open(name, _PLACE, dir_fd=here)
            if not stat.S_ISLNK(os.fstat(found).st_mode):
                os.close(here)
                here = found
                continue
            try:
                target, links = os.readlink(b"", dir_fd=found), links + 1
            finally:
                os.close(found)
            if links > _MOST_LINKS:
                raise OSError(errno.ELOOP, "too many links")
            steps.extendleft(reversed(target.split(b"/")))
            if target.startswith(b"/"):
                os.close(here)
                here = os.dup(root)
    except BaseException:
        os.close(here)
        raise
    return here


def is_own_by_mount(rules: ConnectRules) -> IsOwnSocket:
    """For bubblewrap, which gives a command's own trees writable mounts, and shows the rest of the
    machine read-only. What hangs on the root itself is never the command's own; where it may write
    everywhere, folders that are pinned in it are none either (`own`).
    """

    def is_own(place: int, root: int) -> bool:
        if os.fstatvfs(place).f_flag & os.ST_RDONLY or _mount_id(place) == _mount_id(root):
            return False
        path = os.readlink(f"/proc/self/fd/{place}")  # noqa: PTH115 - as its own mounts have it
        return not rules.own or any(is_within(path, tree) for tree in rules.own)

    return is_own


def _is_older(place: int, since_s: float) -> bool:
    """True if what is held open there was made before; False where nobody knows."""
    told = ctypes.create_string_buffer(_STATX_BYTES)
    if _libc.statx(place, b"", _AT_EMPTY_PATH, _STATX_BTIME, told) != 0:
        return False
    (mask,) = _MASK.unpack_from(told)
    seconds, nanoseconds = _BIRTH.unpack_from(told, _BIRTH_AT)
    return bool(mask & _STATX_BTIME) and seconds + nanoseconds / 1e9 < since_s


def _mount_id(fd: int) -> bytes:
    with open(f"/proc/self/fdinfo/{fd}", "rb") as info:  # noqa: PTH123
        for line in info:
            if line.startswith(b"mnt_id:"):
                return line.split()[1]
    raise OSError(errno.ENOSYS, "no mount id")


def _connected(taken: socket.socket, address: bytes) -> SyscallAnswer:
    """Waits as the caller would: whether a socket waits is its own property."""
    if _libc.connect(taken.fileno(), address, len(address)) != 0:
        return FailSyscall(ctypes.get_errno())
    return ReturnValue(0)

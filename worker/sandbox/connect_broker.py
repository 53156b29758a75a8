"""Makes the connections of a confined command for it, from its launcher, or refuses them.

The broker resolves a Unix socket's path step by step in the caller's own mount namespace, and holds
the socket open while it judges it. The connection then goes to the held socket, whatever the path
leads to by then. So no name is trusted: not one bound by a relative path, renamed or linked since.

A socket older than the run is another program's, wherever it lies: no command of the run existed
then, and only the kernel sets a file's creation time. Where a file system does not record it, the
location alone decides.

Address and descriptor are the launcher's own copies, and the kernel never reads them again from the
caller, who could swap them. The thread that connects has no capabilities, as the command has none.
`syscall_dispatcher.py` delivers the calls.
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

from swarm.mailbox.base.path_rules import is_within
from swarm.mailbox.protocol.values.base import Value

from .datagram_pairs import pair_handlers
from .landlock import drop_capabilities
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
_MASK, _CREATED, _CREATED_AT = struct.Struct("=I"), struct.Struct("=qI"), 0x50
_PLACE = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
_FOLDER = os.O_PATH | os.O_CLOEXEC
_libc = ctypes.CDLL(None, use_errno=True)


class ConnectRules(Value):
    """The rules by which a command's connections are judged."""

    sockets: tuple[str, ...] = ()  # of other programs, that a rule opens
    own: tuple[str, ...] = ()  # the command's own sockets lie below these; (): anywhere
    scoped: bool = False  # the kernel limits abstract names to the command's own
    since_s: float = 0.0  # when the run began (Unix time): older sockets are not the command's


def connect_handlers(rules: ConnectRules, is_own: IsOwnSocket) -> Mapping[str, SyscallHandler]:
    """Handlers for `SyscallDispatcher`. `is_own`: whether a socket's place is the command's own."""

    def handle(call: PendingSyscall) -> SyscallAnswer:
        # Any connection may block, and any path may lead to a file system that does.
        return DeferredAnswer(lambda: _connect(call, rules, is_own))

    return {"connect": handle, **pair_handlers()}


def _connect(call: PendingSyscall, rules: ConnectRules, is_own: IsOwnSocket) -> SyscallAnswer:
    """Judge and make one connection. Raises OSError if it is refused."""
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
    """A copy of the caller's socket. Raises OSError."""
    fd = call.take_descriptor(call.args[0] & 0x7FFFFFFF)
    try:
        return socket.socket(fileno=fd)
    except BaseException:  # not a socket
        os.close(fd)
        raise


def _address(call: PendingSyscall) -> bytes:
    """The launcher's own copy of the address. Raises OSError."""
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
    """True for an abstract name: not a path, and valid within one network namespace."""
    return address[: _FAMILY_BYTES + 1] == _UNIX + b"\0"


def _is_in_our_network(taken: socket.socket) -> bool:
    """True if the socket is in the launcher's network namespace, with other programs' names."""
    try:
        theirs = fcntl.ioctl(taken, _SIOCGSKNS)
    except PermissionError:  # we may ask only about a namespace that is the command's
        return True
    try:
        return os.path.samestat(os.fstat(theirs), os.stat("/proc/self/ns/net"))  # noqa: PTH116
    finally:
        os.close(theirs)


def find_socket(
    call: PendingSyscall, address: bytes, rules: ConnectRules, is_own: IsOwnSocket
) -> int:
    """Hold open (O_PATH) the socket at the path in a Unix address; the caller closes it.

    Raises OSError if the connection is refused.
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
    """Raise OSError if no connection may be made to the held socket."""
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
    """Hold open (O_PATH) what `path` leads the caller to, following links; our caller closes it.

    Raises OSError. Links in `/proc/PID/fd` are followed by their text.
    """
    here = os.open(f"/proc/{call.pid}/cwd", _FOLDER) if path[:1] != b"/" else os.dup(root)
    try:
        if not call.is_valid():  # both may belong to another process
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
    """`is_own` for bubblewrap, by the mount that holds the socket.

    bubblewrap gives a command writable mounts for its own trees, and shows the rest of the machine
    read-only. What lies on the root mount itself is never the command's own. Where the command may
    write everywhere, pinned folders are not its own either (`own`).
    """

    def is_own(place: int, root: int) -> bool:
        if os.fstatvfs(place).f_flag & os.ST_RDONLY or _mount_id(place) == _mount_id(root):
            return False
        path = os.readlink(f"/proc/self/fd/{place}")  # noqa: PTH115 - as its own mounts have it
        return not rules.own or any(is_within(path, tree) for tree in rules.own)

    return is_own


def _is_older(place: int, since_s: float) -> bool:
    """True if the held file was created before; False where the creation time is unknown."""
    status = ctypes.create_string_buffer(_STATX_BYTES)
    if _libc.statx(place, b"", _AT_EMPTY_PATH, _STATX_BTIME, status) != 0:
        return False
    (mask,) = _MASK.unpack_from(status)
    seconds, nanoseconds = _CREATED.unpack_from(status, _CREATED_AT)
    return bool(mask & _STATX_BTIME) and seconds + nanoseconds / 1e9 < since_s


def _mount_id(fd: int) -> bytes:
    with open(f"/proc/self/fdinfo/{fd}", "rb") as info:  # noqa: PTH123
        for line in info:
            if line.startswith(b"mnt_id:"):
                return line.split()[1]
    raise OSError(errno.ENOSYS, "no mount id")


def _connected(taken: socket.socket, address: bytes) -> SyscallAnswer:
    """Connect. It blocks as it would for the caller: blocking is a property of the socket."""
    if _libc.connect(taken.fileno(), address, len(address)) != 0:
        return FailSyscall(ctypes.get_errno())
    return ReturnValue(0)

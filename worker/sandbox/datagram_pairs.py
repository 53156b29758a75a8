"""Pairs of Unix datagram sockets for a confined command whose ends reach only each other.

A connected datagram socket still sends to any address that a message names. So a command that asks
for such a pair gets one of kind SOCK_SEQPACKET, which also keeps messages apart and ignores
addresses (`unix_seqpacket_sendmsg`). Two things differ: the kind that the socket reports
(`SO_TYPE`), and a closed end reads as end of file.

No descriptor is installed before the caller's memory has proved writable.
"""

import errno
import socket
import struct
from collections.abc import Mapping

from .syscall_dispatcher import (
    FailSyscall,
    PendingSyscall,
    ReturnValue,
    SyscallAnswer,
    SyscallHandler,
)

_ENDS = struct.Struct("=ii")


def pair_handlers() -> Mapping[str, SyscallHandler]:
    """Handlers for `SyscallDispatcher`."""
    return {"socketpair": make_pair}


def make_pair(call: PendingSyscall) -> SyscallAnswer:
    """Answer a `socketpair` call. Raises OSError."""
    family, kind, protocol, at = call.args[:4]
    if family & 0xFFFFFFFF != socket.AF_UNIX or protocol & 0xFFFFFFFF not in (0, 1):
        return FailSyscall(errno.EPROTONOSUPPORT)
    call.write_memory(at, _ENDS.pack(-1, -1))
    ends = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    try:
        numbers: list[int] = []
        for end in ends:
            end.setblocking(not kind & socket.SOCK_NONBLOCK)
            is_private = bool(kind & socket.SOCK_CLOEXEC)
            numbers.append(call.give_descriptor(end.fileno(), close_on_exec=is_private))
        call.write_memory(at, _ENDS.pack(*numbers))
    finally:
        for end in ends:
            end.close()
    return ReturnValue()

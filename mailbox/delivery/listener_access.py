"""The caller's side of a guarded listener: ask for the descriptor of its ZeroMQ socket.

Knows no event loop: a caller begins, waits until its socket is readable, and takes the answer.
"""

import array
import errno
import os
import socket
from contextlib import suppress

from .zmq_context import EndpointUnavailable

IPC = "ipc://"
DENIED = b"\x00"  # the answer to a refused caller
_NOT_LISTENING = (errno.ENOENT, errno.ECONNREFUSED, errno.EAGAIN, errno.ENOTSOCK)


def ipc_path(endpoint: str) -> str | None:
    """The path of an `ipc://` endpoint; None for an abstract name and for other transports."""
    path = endpoint.removeprefix(IPC)
    return path if path != endpoint and not path.startswith("@") else None


def open_caller() -> socket.socket:
    """A socket for one request; the caller closes it."""
    return socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)


def begin_access(caller: socket.socket, path: str) -> bool:
    """Connect; False if nobody listens. Raises EndpointUnavailable for other errors."""
    outcome = caller.connect_ex(path)
    if outcome and outcome not in _NOT_LISTENING:
        raise EndpointUnavailable(f"no mailbox at {path}: {os.strerror(outcome)}")
    return not outcome


def take_access(caller: socket.socket, path: str, hold: int) -> bool:
    """Put the answered descriptor in the place of `hold`; False if the listener has just ended.

    Raises EndpointUnavailable if the listener refuses us.
    """
    given, answer = array.array("i"), b""
    with suppress(ConnectionError):
        room = socket.CMSG_SPACE(given.itemsize)
        answer, extra, _, _ = caller.recvmsg(1, room, socket.MSG_CMSG_CLOEXEC)
        for _, _, data in extra:
            given.frombytes(data)
    if not given:
        if answer != DENIED:
            return False
        raise EndpointUnavailable(
            f"no mailbox at {path}: whoever listens there lets nobody in who is under a sandbox's "
            "system-call filter"
        )
    os.dup2(given[0], hold, inheritable=False)
    os.close(given[0])
    return True

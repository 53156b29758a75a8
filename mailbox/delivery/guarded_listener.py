"""Access control for ZeroMQ ipc listeners, which libzmq does not offer.

libzmq accepts every connection, keeps each half-open one for half a minute, and aborts the whole
process when no file descriptor is left. So the ZeroMQ socket gets no name: `open_guarded_listener`
binds it, keeps an O_PATH descriptor of it and removes its name. At that name a plain Unix listener
sends the descriptor to each caller that it admits and keeps no connection open.

The listener refuses a process with more system-call filters than its own (a sandboxed command), so
such a process reaches no mailbox even where its sandbox does not prevent it. It also refuses
launchers, which connect on behalf of such commands. If anything about a caller is unknown, it is
refused.
"""

import array
import os
import socket
import struct
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress

import trio

from ..base.private_files import close_to_others
from .listener_access import DENIED, IPC, begin_access, ipc_path, open_caller, take_access
from .polled import PolledSocket, bind, connect
from .zmq_context import EndpointUnavailable, check_length

_ACCEPT_BATCH = 64  # callers handled before other tasks run …
_PAUSE_S = 0.005  # … for at least this long: many callers must not starve the process
_RETRY_S, _MAX_RETRY_S = 0.005, 0.5
_CREDENTIALS = struct.Struct("3i")
# process titles of launchers and sandboxes
_GO_BETWEENS = (b"swarm: launcher of ", b"swarm: sandbox ")


@asynccontextmanager
async def open_guarded_listener(sock: PolledSocket, endpoint: str) -> AsyncIterator[None]:
    """Let callers reach `sock` at `endpoint` during the block. Raises EndpointUnavailable."""
    path = ipc_path(endpoint)
    if path is None:
        bind(sock, endpoint)
        yield
        return
    bind(sock, endpoint)
    hold = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        os.unlink(path)  # noqa: PTH108 (a Path costs each agent's process pages)
        with _unix_listener(path) as listener:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(_serve_callers, listener, hold)
                try:
                    yield
                finally:
                    nursery.cancel_scope.cancel()
    finally:
        os.close(hold)


@contextmanager
def _unix_listener(path: str) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK) as listener:
        try:
            listener.bind(path)
            close_to_others(path)
            listener.listen(socket.SOMAXCONN)
        except OSError as error:
            raise EndpointUnavailable(f"no mailbox at {path}: {error.strerror}") from error
        try:
            yield listener
        finally:
            with suppress(OSError):
                os.unlink(path)  # noqa: PTH108


async def _serve_callers(listener: socket.socket, hold: int) -> None:
    ours = _seccomp_filter_count("self")
    while True:
        await trio.lowlevel.wait_readable(listener)
        if not _accept_callers(listener, hold, ours):
            await trio.sleep(_PAUSE_S)


def _accept_callers(listener: socket.socket, hold: int, ours: int | None) -> bool:
    """True when no caller is left; False to let other tasks run, or if there is no descriptor."""
    for _ in range(_ACCEPT_BATCH):
        try:
            caller, _ = listener.accept()
        except BlockingIOError:
            return True
        except OSError:
            return False
        with caller, suppress(OSError):
            caller.setblocking(False)
            if is_caller_allowed(_peer_pid(caller), ours):
                rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [hold]))]
                caller.sendmsg([b"\x01"], rights, socket.MSG_NOSIGNAL)
            else:
                caller.send(DENIED, socket.MSG_NOSIGNAL)
    return False


def is_caller_allowed(pid: int, ours: int | None) -> bool:
    """False for a process with more filters than `ours`, a launcher, a sandbox, and if unknown."""
    theirs = _seccomp_filter_count(str(pid)) if pid > 0 else None
    if ours is None or theirs is None or theirs > ours:
        return False
    title = _read(f"/proc/{pid}/cmdline")
    return title is not None and not title.startswith(_GO_BETWEENS)


def _peer_pid(caller: socket.socket) -> int:
    data = caller.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    pid, _, _ = _CREDENTIALS.unpack(data)
    return int(pid)


def _seccomp_filter_count(pid: str) -> int | None:
    """The number of system-call filters of a process; before Linux 5.9 only whether it has any."""
    if (status := _read(f"/proc/{pid}/status")) is None:
        return None
    found = [
        int(line.split()[1])
        for line in status.splitlines()
        if line.startswith((b"Seccomp:", b"Seccomp_filters:"))
    ]
    return found[-1] if found else 0  # a kernel without seccomp


def _read(path: str) -> bytes | None:
    """The first 8 KiB of a file; None if it cannot be read."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        return os.read(fd, 8192)
    except OSError:
        return None
    finally:
        os.close(fd)


@asynccontextmanager
async def open_guarded_connection(sock: PolledSocket, endpoint: str) -> AsyncIterator[None]:
    """Connect `sock` to the listener at `endpoint`, now or once it exists, for the block's time.

    Raises EndpointUnavailable if the listener refuses us.
    """
    path = ipc_path(endpoint)
    if path is None:
        connect(sock, endpoint)
        yield
        return
    check_length(endpoint)
    # replaced by the listener's descriptor once we have it
    hold = os.open("/", os.O_PATH | os.O_CLOEXEC)
    try:
        is_known = await _request_access(path, hold)
        connect(sock, f"{IPC}/proc/self/fd/{hold}")
        if is_known:
            yield
            return
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_retry_access, path, hold)
            try:
                yield
            finally:
                nursery.cancel_scope.cancel()
    finally:
        os.close(hold)


async def _retry_access(path: str, hold: int) -> None:
    pause_s = _RETRY_S
    while not await _request_access(path, hold):
        await trio.sleep(pause_s)
        pause_s = min(2 * pause_s, _MAX_RETRY_S)


async def _request_access(path: str, hold: int) -> bool:
    """Ask for the listener's descriptor; False if nobody listens or the listener has just ended.

    Raises EndpointUnavailable if the listener refuses us.
    """
    with open_caller() as caller:
        if not begin_access(caller, path):
            return False
        await trio.lowlevel.wait_readable(caller)
        return take_access(caller, path, hold)

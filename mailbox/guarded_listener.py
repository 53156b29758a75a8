"""The way to a ZeroMQ listener leads through a gate of ours, which libzmq does not have.

libzmq accepts whoever connects, keeps each half-open connection for half a minute, and aborts the
whole process when no file descriptor is left for the next one. So its own socket has no name:
`open_guarded_listener` binds it, keeps hold of it and removes its name. At the name listens the
gate; it hands
that hold (an O_PATH descriptor) to each caller it lets in, and keeps no connection open itself.

Rule guarded: a process with more system-call filters than this one, that is a sandboxed command,
reaches no mailbox of the run, where its sandbox does not prevent that anyway; nor does a launcher,
which makes connections for such commands and none for itself. In any doubt nobody is let in.
"""

import array
import errno
import os
import socket
import struct
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress

import trio

from .polled import EndpointUnavailable, PolledSocket, bind, check_length, connect

_IPC = "ipc://"
_ACCEPT_BATCH = 64  # callers seen to before other tasks run …
_PAUSE_S = 0.005  # … for so long at least: a flood of callers does not starve the process
_RETRY_S, _MAX_RETRY_S = 0.005, 0.5
_NOT_LISTENING = (errno.ENOENT, errno.ECONNREFUSED, errno.EAGAIN, errno.ENOTSOCK)
_DENIED = b"\x00"  # the answer to whom the gate stays shut
_CREDENTIALS = struct.Struct("3i")
_GO_BETWEENS = (b"swarm: launcher of ", b"swarm: sandbox ")  # titles of who connects for commands


@asynccontextmanager
async def open_guarded_listener(sock: PolledSocket, endpoint: str) -> AsyncIterator[None]:
    """Let callers reach `sock` by `endpoint` for the block's time. Raises NoEndpoint."""
    path = _ipc_path(endpoint)
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
    """True when none is left; False: others are to run first, or there is no descriptor."""
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
                caller.send(_DENIED, socket.MSG_NOSIGNAL)
    return False


def is_caller_allowed(pid: int, ours: int | None) -> bool:
    """False for a process under more filters than `ours`, for one that connects on behalf of such
    processes, and for one of whom nobody knows.
    """
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
    """How many system-call filters a process has; before Linux 5.9 only whether it has any."""
    if (status := _read(f"/proc/{pid}/status")) is None:
        return None
    found = [
        int(line.split()[1])
        for line in status.splitlines()
        if line.startswith((b"Seccomp:", b"Seccomp_filters:"))
    ]
    return found[-1] if found else 0  # a kernel without filters


def _read(path: str) -> bytes | None:
    """Its first 8 KiB."""
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
    """Connect `sock` to whoever listens at `endpoint`, now or later, for the block's time.

    Raises NoEndpoint if we are not let in.
    """
    path = _ipc_path(endpoint)
    if path is None:
        connect(sock, endpoint)
        yield
        return
    check_length(endpoint)
    hold = os.open("/", os.O_PATH | os.O_CLOEXEC)  # its number stands for the way, once it is known
    try:
        is_known = await _request_access(path, hold)
        connect(sock, f"{_IPC}/proc/self/fd/{hold}")
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
    """False while nobody listens there, or whoever did has just ended: another may take its place.

    Raises NoEndpoint if the gate stays shut for us.
    """
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK) as caller:
        outcome = caller.connect_ex(path)
        if outcome in _NOT_LISTENING:
            return False
        if outcome:
            raise EndpointUnavailable(f"no mailbox at {path}: {os.strerror(outcome)}")
        await trio.lowlevel.wait_readable(caller)
        given, answer = array.array("i"), b""
        with suppress(ConnectionError):
            room = socket.CMSG_SPACE(given.itemsize)
            answer, extra, _, _ = caller.recvmsg(1, room, socket.MSG_CMSG_CLOEXEC)
            for _, _, data in extra:
                given.frombytes(data)
    if not given:
        if answer != _DENIED:
            return False
        raise EndpointUnavailable(
            f"no mailbox at {path}: whoever listens there lets nobody in who is under a sandbox's "
            "system-call filter"
        )
    os.dup2(given[0], hold, inheritable=False)
    os.close(given[0])
    return True


def _ipc_path(endpoint: str) -> str | None:
    path = endpoint.removeprefix(_IPC)
    return path if path != endpoint and not path.startswith("@") else None

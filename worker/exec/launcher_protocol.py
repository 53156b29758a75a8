"""Orders and replies between an agent and its launcher, and how they cross their socket.

One datagram is one message; a large message travels in a memfd beside it. Both ends are the same
program in the same version, so an unreadable message is a bug and ends the launcher.
"""

import array
import os
import socket
from collections.abc import Sequence

import msgspec

from swarm.mailbox.protocol.values.base import Tagged, Value
from swarm.mailbox.protocol.values.limits import ResourceLimits

from ..sandbox.prepared_command import Confinement

_INLINE_LIMIT_BYTES = 64 * 1024
_MEMFD_MARK = b"\x01"
_MOST_FDS = 8


class CommandLimits(Value):
    """Limits of one command; None keeps the inherited limit.

    Each is per process, except `processes`, which the kernel counts per user (in bwrap: per
    sandbox).
    """

    memory_bytes: int | None = None  # private writable memory
    processes: int | None = 16_384
    cpu_s: int | None = None
    file_bytes: int | None = 16 * 1024**3  # the largest file it may write
    open_files: int | None = 4096


class Overrun(Value):
    """Why a command was killed; `limit` is the key of `[limits]`. Bytes, processes or seconds."""

    limit: str
    allowed: int
    measured: int


class CommandUsage(Value):
    """What a command's processes used, as far as it was measured."""

    cpu_s: float = 0.0  # of those that were reaped
    peak_bytes: int = 0  # the largest sum of their resident pages at a look; of one, if larger


class LaunchOrder(Tagged):
    """Start a command.

    The message carries its stdin, stdout and stderr, and for bwrap also the seccomp filter and, if
    there is one, the socket of its route to the network proxy.
    """

    token: int
    argv: tuple[str, ...]
    cwd: str
    environment: dict[str, str]
    take_terminal: bool = False  # stdin is a PTY's slave that becomes the controlling terminal
    keep_session: bool = False  # stay in the caller's session: `swarm sandbox` on a terminal
    wrapped: bool = False  # the first process is bwrap
    placeholders: tuple[str, ...] = ()  # to be removed if the agent dies before it can
    limits: CommandLimits = CommandLimits()
    confinement: Confinement | None = None
    resources: ResourceLimits = ResourceLimits()  # of the whole tree; see `watchdog`


class SignalOrder(Tagged):
    """Send a signal to a command's processes; ignored once its first process has ended."""

    token: int
    number: int


class KillOrder(Tagged):
    """SIGKILL a command's whole tree until no process of it lives; answered by TreeGone."""

    token: int


class Ping(Tagged):
    """Ask whether the launcher is alive. It answers with Pong at once, whatever else it does."""


AnyOrder = LaunchOrder | SignalOrder | KillOrder | Ping


class CommandLaunched(Tagged, tag="launched"):
    """The command runs: its program has replaced the child process."""

    token: int
    pid: int


class NotLaunched(Tagged):
    """The command never began.

    `step` is what failed: fork, setup, limits, sandbox, cwd, exec, pinned.
    """

    token: int
    errno: int
    step: str


class CommandEnded(Tagged, tag="ended"):
    """The first process was reaped. Either `exit_code` or `signal` is set."""

    token: int
    exit_code: int | None = None
    signal: int | None = None
    leftovers: bool = False  # orphans live in the launcher, perhaps of this command
    overrun: Overrun | None = None  # the limit for which it was killed
    usage: CommandUsage = CommandUsage()


class TreeGone(Tagged):
    """No process of this command lives. `usage` is that of the orphans that it left behind."""

    token: int
    usage: CommandUsage = CommandUsage()


class Pong(Tagged):
    """The launcher runs, and has read all that was sent before the Ping."""


AnyReply = CommandLaunched | NotLaunched | CommandEnded | TreeGone | Pong

_encode = msgspec.msgpack.Encoder().encode
_decode_order = msgspec.msgpack.Decoder(AnyOrder).decode
_decode_reply = msgspec.msgpack.Decoder(AnyReply).decode


def pack_order(order: AnyOrder, fds: Sequence[int] = ()) -> tuple[bytes, list[int], int | None]:
    """The datagram, the fds to send with it, and a memfd to close once it is sent.

    Raises ValueError for text that is not valid Unicode (a lone surrogate).
    """
    try:
        body = _encode(order)
    except UnicodeEncodeError as error:
        raise ValueError(f"not valid Unicode: {error.reason}") from error
    if len(body) <= _INLINE_LIMIT_BYTES:
        return b"\x00" + body, list(fds), None
    fd = os.memfd_create("swarm-order", os.MFD_CLOEXEC)
    view = memoryview(body)
    while view:
        view = view[os.write(fd, view) :]
    return _MEMFD_MARK, [*fds, fd], fd


def send_packed(sock: socket.socket, datagram: bytes, fds: Sequence[int]) -> None:
    """Send a packed order. Raises BlockingIOError when the other side lags, OSError: it is gone."""
    rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
    sock.sendmsg([datagram], rights, socket.MSG_NOSIGNAL)


def receive_order(sock: socket.socket) -> tuple[AnyOrder, list[int]] | None:
    """The next order and its fds (owned by the caller); None when the agent is gone."""
    # Not socket.recv_fds: up to 3.11 it ignores its flags, and the fds would leak into every
    # command.
    fds = array.array("i")
    room = socket.CMSG_LEN(_MOST_FDS * fds.itemsize)
    body, extra, _, _ = sock.recvmsg(_INLINE_LIMIT_BYTES + 4096, room, socket.MSG_CMSG_CLOEXEC)
    for level, kind, data in extra:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            fds.frombytes(data[: len(data) - len(data) % fds.itemsize])
    if not body:
        return None
    if body[:1] == _MEMFD_MARK:
        with os.fdopen(fds.pop(), "rb") as file:
            file.seek(0)
            return _decode_order(file.read()), list(fds)
    return _decode_order(memoryview(body)[1:]), list(fds)


def send_reply(sock: socket.socket, reply: AnyReply) -> None:
    """Send a reply. Raises BlockingIOError when the agent lags, OSError when it is gone."""
    sock.send(_encode(reply), socket.MSG_NOSIGNAL)


def receive_reply(sock: socket.socket) -> AnyReply | None:
    """The next reply; None when the launcher is gone. Raises BlockingIOError."""
    body = sock.recv(4096)
    return _decode_reply(body) if body else None

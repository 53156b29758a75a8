"""ZeroMQ sockets in Trio: one task receives, any task sends.

A context is created only in the process that uses it, never before a fork. No call here blocks the
event loop. A cancelled wait loses no message.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Literal, cast

import trio
import zmq
import zmq.backend

from .errors import MailboxError

# the socket disconnects a peer above this; the codec's 1 MiB limit comes first
FRAME_LIMIT_BYTES = 2 * 1024 * 1024
IPC_PATH_BYTES = 107  # sun_path without its final zero

Pattern = Literal["dealer", "router", "xpub", "sub"]
MessageHandler = Callable[[list[bytes]], None]  # gets all frames of a message; must not wait
_PUMP_BATCH = 64  # messages taken before other tasks run
_TYPES = {
    "router": zmq.SocketType.ROUTER,
    "xpub": zmq.SocketType.XPUB,
    "sub": zmq.SocketType.SUB,
}


# as plain ints: they are used for every message
_EVENTS, _POLLIN = int(zmq.EVENTS), int(zmq.POLLIN)
_NOBLOCK, _SNDMORE, _RCVMORE = int(zmq.NOBLOCK), int(zmq.SNDMORE), int(zmq.RCVMORE)
_DEALER_TYPE = int(zmq.DEALER)
_SCHED_POLICY = int(zmq.THREAD_SCHED_POLICY)


class EndpointUnavailable(MailboxError):
    """The endpoint cannot be bound or connected to; the text names it and the system's reason."""


class _SharedContext:
    """One context, so one I/O thread, for all sockets of a process. Keyed by pid because of forks.

    Uses pyzmq's compiled inner layer: the outer one costs each agent about 200 KB.
    """

    def __init__(self) -> None:
        self._pid, self._users = 0, 0
        self._context: zmq.backend.Context | None = None

    @contextmanager
    def borrow(self) -> Iterator[zmq.backend.Context]:
        """The process's context; the last user ends it."""
        if self._context is None or self._pid != os.getpid():
            self._context, self._pid, self._users = zmq.backend.Context(1), os.getpid(), 0
            _use_batch_scheduling(self._context)
        context = self._context
        self._users += 1
        try:
            yield context
        finally:
            self._users -= 1
            if not self._users:
                self._context = None
                context.term()


def _use_batch_scheduling(context: zmq.backend.Context) -> None:
    """Run ZeroMQ's I/O thread under SCHED_BATCH.

    Otherwise, on a busy machine, each send is interrupted by the I/O thread that it wakes. Threads
    of SCHED_BATCH preempt no other. With 50 processes that write to each other, the 99th percentile
    of delivery time falls to 60 %. libzmq aborts if the kernel refuses, so we try a scheduler call
    first. A process that already has another policy is left alone.
    """
    try:
        if os.sched_getscheduler(0) != os.SCHED_OTHER:
            return
        os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
    except OSError:
        return
    context.set(_SCHED_POLICY, os.SCHED_BATCH)


_shared = _SharedContext()


class PolledSocket:
    """A socket with one waiting receiver; senders never wait.

    ZMQ_FD reports edges, and a send may consume the edge that announced a message. So EVENTS
    decides, never the fd, and a send that sees a message wakes a task to take it: the receiver, or
    with a pump its second task (a pump's waits then need no cancel scope).
    """

    def __init__(self, sock: zmq.Socket[bytes]) -> None:
        self.raw = sock
        self._fd = int(sock.get(int(zmq.FD)))
        self._wait_scope = trio.CancelScope()
        self._pump_wakeup: trio.lowlevel.ParkingLot | None = None  # of the pump's second task
        self._is_draining = False  # senders then need not look for messages

    def has_message(self) -> bool:
        """True if a message can be received now."""
        return bool(int(self.raw.get(_EVENTS)) & _POLLIN)

    async def wait_message(self) -> None:
        """Return once a message can be received. One task at a time."""
        if self.has_message():
            await trio.lowlevel.checkpoint()
            return
        while True:
            with trio.CancelScope() as self._wait_scope:
                await trio.lowlevel.wait_readable(self._fd)
            if self.has_message():
                return

    async def receive(self) -> list[bytes]:
        """The next message, all its frames. Cancelling loses nothing."""
        await self.wait_message()
        return self._receive_frames()

    def start_pump(self, nursery: trio.Nursery, take: MessageHandler) -> None:
        """Pass every message to `take` at once while `nursery` is open, instead of `receive`.

        Other tasks run after every 64 messages.
        """
        self._pump_wakeup = trio.lowlevel.ParkingLot()
        nursery.start_soon(self._pump, take)
        nursery.start_soon(self._pump_on_wakeup, take, self._pump_wakeup)

    async def _pump(self, take: MessageHandler) -> None:
        while True:
            while not self._drain(take):
                await trio.lowlevel.checkpoint()
            await trio.lowlevel.wait_readable(self._fd)

    async def _pump_on_wakeup(self, take: MessageHandler, lot: trio.lowlevel.ParkingLot) -> None:
        while True:
            await lot.park()
            while not self._drain(take):
                await trio.lowlevel.checkpoint()

    def _drain(self, take: MessageHandler) -> bool:
        """Take up to one batch of messages. True if none is left."""
        self._is_draining = True
        try:
            for _ in range(_PUMP_BATCH):
                if not self.has_message():
                    return True
                take(self._receive_frames())
            return False
        finally:
            self._is_draining = False

    def _receive_frames(self) -> list[bytes]:
        frames = [self.raw.recv(_NOBLOCK)]
        while self.raw.get(_RCVMORE):  # ZeroMQ delivers whole messages only
            frames.append(self.raw.recv(_NOBLOCK))
        return frames

    def send(self, *frames: bytes) -> bool:
        """Send a message without waiting. False if the peer is unknown or the socket is full."""
        try:
            for frame in frames[:-1]:  # if the first frame is accepted, the others are too
                self.raw.send(frame, _NOBLOCK | _SNDMORE)
            self.raw.send(frames[-1], _NOBLOCK)
        except (zmq.Again, zmq.ZMQError) as error:
            if error.errno not in (zmq.EAGAIN, zmq.EHOSTUNREACH):
                raise
            return False
        finally:
            if not self._is_draining and self.has_message():
                self._wake_receiver()
        return True

    def _wake_receiver(self) -> None:
        if self._pump_wakeup is None:
            self._wait_scope.cancel()
        else:
            self._pump_wakeup.unpark()


@contextmanager
def open_socket(pattern: Pattern) -> Iterator[PolledSocket]:
    """A socket of this process's context: no high-water mark, no linger, frames up to 2 MiB.

    A dealer's `raw` is of pyzmq's inner layer, which has only get, set, send, recv and connect.
    """
    with _shared.borrow() as context:
        sock = (
            _open_dealer_socket(context)
            if pattern == "dealer"
            else _open_full_socket(context, pattern)
        )
        try:
            for option in (zmq.LINGER, zmq.SNDHWM, zmq.RCVHWM):
                sock.set(int(option), 0)
            sock.set(int(zmq.MAXMSGSIZE), FRAME_LIMIT_BYTES)
            yield PolledSocket(sock)
        finally:
            sock.close(linger=0)


def _open_dealer_socket(context: zmq.backend.Context) -> zmq.Socket[bytes]:
    return cast("zmq.Socket[bytes]", zmq.backend.Socket(context, _DEALER_TYPE))


def _open_full_socket(context: zmq.backend.Context, pattern: Pattern) -> zmq.Socket[bytes]:
    outer: zmq.Context[zmq.Socket[bytes]] = zmq.Context(shadow=context.underlying)
    return outer.socket(_TYPES[pattern])


def bind(sock: PolledSocket, endpoint: str) -> None:
    """Listen at `endpoint`. Raises EndpointUnavailable."""
    _attach(sock.raw.bind, endpoint)


def connect(sock: PolledSocket, endpoint: str) -> None:
    """Connect to `endpoint`, whether or not a process listens yet. Raises EndpointUnavailable."""
    _attach(sock.raw.connect, endpoint)


def check_length(endpoint: str) -> None:
    """Raises EndpointUnavailable for a path that is too long for a socket."""
    path = endpoint.removeprefix("ipc://")
    if path != endpoint and len(os.fsencode(path)) > IPC_PATH_BYTES:
        raise EndpointUnavailable(
            f"the socket path {path!r} is over {IPC_PATH_BYTES} bytes; set XDG_RUNTIME_DIR or "
            "SWARM_HOME to a shorter folder"
        )


def _attach(how: Callable[[str], object], endpoint: str) -> None:
    check_length(endpoint)
    try:
        how(endpoint)
    except zmq.ZMQError as error:
        raise EndpointUnavailable(f"no mailbox at {endpoint}: {error.strerror}") from error

"""Trio meets ZeroMQ: one socket, one task that receives, any task that sends.

The rules it guards: a context is made only in the process that uses it, never before a fork; no
call here blocks the loop; nothing sent or received is lost to a cancelled wait.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Literal, cast

import trio
import zmq
import zmq.backend

from .errors import MailboxError

FRAME_LIMIT_BYTES = 2 * 1024 * 1024  # a backstop behind the codec's 1 MiB: the socket hangs up
IPC_PATH_BYTES = 107  # sun_path without its final zero

Pattern = Literal["dealer", "router", "xpub", "sub"]
MessageHandler = Callable[[list[bytes]], None]  # takes a message, all its frames; never waits
_PUMP_BATCH = 64  # messages taken before other tasks run
_TYPES = {
    "router": zmq.SocketType.ROUTER,
    "xpub": zmq.SocketType.XPUB,
    "sub": zmq.SocketType.SUB,
}


_EVENTS, _POLLIN = int(zmq.EVENTS), int(zmq.POLLIN)  # plain: asked for every message
_NOBLOCK, _SNDMORE, _RCVMORE = int(zmq.NOBLOCK), int(zmq.SNDMORE), int(zmq.RCVMORE)
_DEALER_TYPE = int(zmq.DEALER)
_SCHED_POLICY = int(zmq.THREAD_SCHED_POLICY)


class EndpointUnavailable(MailboxError):
    """The endpoint cannot be bound or connected to: its text names it and the system's reason."""


class _SharedContext:
    """One context, so one I/O thread, for all sockets of a process; keyed by pid for forks.

    It is of pyzmq's inner, compiled layer: the outer one costs each agent some 200 KB.
    """

    def __init__(self) -> None:
        self._pid, self._users = 0, 0
        self._context: zmq.backend.Context | None = None

    @contextmanager
    def borrow(self) -> Iterator[zmq.backend.Context]:
        """The process's context; the last borrower ends it."""
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
    """On a busy machine each send would be interrupted by the I/O thread that it wakes.

    Threads of SCHED_BATCH interrupt nobody; of 50 processes that write to each other, the 99th
    letter of 100 comes in 60 % of the time. libzmq aborts where the kernel refuses, so we ask it
    first; a process to which somebody gave another policy is left alone.
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
    """One receiver waits; senders never do.

    ZMQ_FD reports edges, and a send may swallow the edge that announced incoming mail. So EVENTS
    decides, never the fd, and a send that sees mail wakes somebody who takes it: the receiver out
    of its nap, or beside a pump, whose waits cost no scope so, a second task.
    """

    def __init__(self, sock: zmq.Socket[bytes]) -> None:
        self.raw = sock
        self._fd = int(sock.get(int(zmq.FD)))
        self._wait_scope = trio.CancelScope()
        self._pump_wakeup: trio.lowlevel.ParkingLot | None = None  # of a pump's second task
        self._is_draining = False  # whoever sends need not look for mail then

    def has_message(self) -> bool:
        """True if a message can be taken now."""
        return bool(int(self.raw.get(_EVENTS)) & _POLLIN)

    async def wait_message(self) -> None:
        """Return once a message can be taken. One task at a time."""
        if self.has_message():
            await trio.lowlevel.checkpoint()
            return
        while True:
            with trio.CancelScope() as self._wait_scope:
                await trio.lowlevel.wait_readable(self._fd)
            if self.has_message():
                return

    async def receive(self) -> list[bytes]:
        """The next message, all its frames. Cancelling it loses nothing."""
        await self.wait_message()
        return self._receive_frames()

    def start_pump(self, nursery: trio.Nursery, take: MessageHandler) -> None:
        """Hand every message to `take` at once, for as long as `nursery` lives, instead of
        `receive`. Other tasks run after every 64 of them.
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
        """Take what is there, but a batch at most. True: nothing is left."""
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
        while self.raw.get(_RCVMORE):  # a message comes whole, or not at all
            frames.append(self.raw.recv(_NOBLOCK))
        return frames

    def send(self, *frames: bytes) -> bool:
        """Hand a message to the socket at once. False: the peer is unknown to it, or it is full."""
        try:
            for frame in frames[:-1]:  # what the first finds, room and a peer, holds for all
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

    A dealer's `raw` is of pyzmq's inner layer: get, set, send, recv, connect and no more.
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
    """Listen at `endpoint`. Raises NoEndpoint."""
    _attach(sock.raw.bind, endpoint)


def connect(sock: PolledSocket, endpoint: str) -> None:
    """Reach for `endpoint`, whether or not anyone listens yet. Raises NoEndpoint."""
    _attach(sock.raw.connect, endpoint)


def check_length(endpoint: str) -> None:
    """Raises NoEndpoint for a path that no socket can have."""
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

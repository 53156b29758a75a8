"""ZeroMQ sockets in Trio: one task receives, any task sends.

No call here blocks the event loop. A cancelled wait loses no message.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import trio
import zmq

from ..base.private_files import close_to_others
from .zmq_context import EVENTS, POLLIN, Pattern, attach, open_raw_socket, receive_frames

MessageHandler = Callable[[list[bytes]], None]  # gets all frames of a message; must not wait
_PUMP_BATCH = 64  # messages taken before other tasks run
_NOBLOCK, _SNDMORE = int(zmq.NOBLOCK), int(zmq.SNDMORE)


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
        return bool(int(self.raw.get(EVENTS)) & POLLIN)

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
        return receive_frames(self.raw)

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
            if self.raw.closed:  # it is being cancelled, but was to run once more before
                return
            await trio.lowlevel.wait_readable(self._fd)

    async def _pump_on_wakeup(self, take: MessageHandler, lot: trio.lowlevel.ParkingLot) -> None:
        while True:
            await lot.park()
            while not self._drain(take):
                await trio.lowlevel.checkpoint()

    def _drain(self, take: MessageHandler) -> bool:
        """Take up to one batch of messages. True if none is left."""
        if self.raw.closed:
            return True
        self._is_draining = True
        try:
            for _ in range(_PUMP_BATCH):
                if not self.has_message():
                    return True
                take(receive_frames(self.raw))
            return False
        finally:
            self._is_draining = False

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
    """A socket as of `open_raw_socket`, for Trio."""
    with open_raw_socket(pattern) as sock:
        yield PolledSocket(sock)


def bind(sock: PolledSocket, endpoint: str) -> None:
    """Listen at `endpoint`. Raises EndpointUnavailable."""
    attach(sock.raw.bind, endpoint)
    if (path := endpoint.removeprefix("ipc://")).startswith("/"):
        close_to_others(path)


def connect(sock: PolledSocket, endpoint: str) -> None:
    """Connect to `endpoint`, whether or not a process listens yet. Raises EndpointUnavailable."""
    attach(sock.raw.connect, endpoint)

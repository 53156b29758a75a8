"""The client's ends of the control socket and of the feed, for asyncio and Trio.

ZMQ_FD reports edges, and any call on the socket may consume one. So EVENTS decides, never the fd,
and each socket here has one task that sends first and then only receives.
"""

import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import anyio
import anyio.lowlevel
import zmq

from swarm.mailbox.base.errors import MailboxError, MalformedMessage
from swarm.mailbox.delivery.envelope import (
    Envelope,
    EnvelopeKind,
    FragmentAssembler,
    decode_envelope,
    encode_envelope,
)
from swarm.mailbox.delivery.listener_access import (
    IPC,
    begin_access,
    ipc_path,
    open_caller,
    take_access,
)
from swarm.mailbox.delivery.zmq_context import (
    EVENTS,
    POLLIN,
    EndpointUnavailable,
    Pattern,
    attach,
    check_length,
    open_raw_socket,
    receive_frames,
)

FEED_QUEUE_MESSAGES = 4096  # kept for a slow reader; what is dropped leaves a gap in the numbers
_NUMBER_BYTES = 8
_ALIVE_CHECK_INTERVAL_S = 0.2


class NobodyListens(MailboxError):
    """No process listens at the endpoint."""


class ClientSocket:
    """A connected ZeroMQ socket, for one task."""

    def __init__(self, sock: zmq.Socket[bytes]) -> None:
        self._sock = sock
        self._fd = int(sock.get(int(zmq.FD)))

    def send(self, frame: bytes) -> None:
        """Queue a message; never waits."""
        self._sock.send(frame, int(zmq.NOBLOCK))

    async def receive(self) -> list[bytes]:
        """The next message, all its frames. Cancelling loses nothing."""
        await anyio.lowlevel.checkpoint()
        while not int(self._sock.get(EVENTS)) & POLLIN:
            await anyio.wait_readable(self._fd)
        return receive_frames(self._sock)


@asynccontextmanager
async def open_client_socket(pattern: Pattern, endpoint: str) -> AsyncIterator[ClientSocket]:
    """Connect to the guarded listener at an ipc endpoint.

    Raises NobodyListens, or EndpointUnavailable if the listener refuses us.
    """
    path = ipc_path(endpoint)
    if path is None:
        raise EndpointUnavailable(f"{endpoint} is not an ipc:// endpoint")
    check_length(endpoint)
    with open_raw_socket(pattern) as sock:
        if pattern == "sub":
            sock.set(int(zmq.RCVHWM), FEED_QUEUE_MESSAGES)
            sock.set(int(zmq.SUBSCRIBE), b"")
        hold = os.open("/", os.O_PATH | os.O_CLOEXEC)  # replaced by the listener's descriptor
        try:
            await _request_access(path, hold)
            attach(sock.connect, f"{IPC}/proc/self/fd/{hold}")
            yield ClientSocket(sock)
        finally:
            os.close(hold)


async def _request_access(path: str, hold: int) -> None:
    with open_caller() as caller:
        if begin_access(caller, path):
            await anyio.wait_readable(caller)
            if take_access(caller, path, hold):
                return
    raise NobodyListens(f"nobody listens at {path}")


async def request_reply(endpoint: str, body: bytes, is_alive: Callable[[], bool]) -> bytes:
    """Send one control request and return the reply. The caller sets a deadline.

    Raises:
        NobodyListens: No process listens at the endpoint, or `is_alive` says that it has ended.
        MalformedMessage: The reply is not of this protocol version.
        MessageTooLarge: `body` is over the limit of a request (1 MiB).
    """
    question = encode_envelope(Envelope(seq=1, kind=EnvelopeKind.WHOLE, body=body))
    assembly = FragmentAssembler()
    async with open_client_socket("dealer", endpoint) as sock:
        sock.send(question)
        while True:
            frames: list[bytes] | None = None
            while frames is None:
                with anyio.move_on_after(_ALIVE_CHECK_INTERVAL_S):
                    frames = await sock.receive()
                if frames is None and not is_alive():
                    raise NobodyListens(f"nobody listens at {endpoint} any more")
            envelope = decode_envelope(b"".join(frames))
            if envelope.kind is EnvelopeKind.FRAGMENT:
                assembly.add(envelope.body)
            elif (reply := assembly.finish(envelope.body)) is None:
                raise MalformedMessage("the reply is over the limit of a message")
            else:
                return reply


async def receive_numbered(sock: ClientSocket) -> tuple[int, bytes]:
    """The feed's next message: its number, and its body (empty: the answer to a join).

    Raises MalformedMessage if the peer is not a feed.
    """
    message = await sock.receive()
    if len(message) != 2 or len(message[0]) != _NUMBER_BYTES:
        raise MalformedMessage("the feed sent something that is not a numbered body")
    return int.from_bytes(message[0], "big"), message[1]

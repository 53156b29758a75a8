"""Questions from other terminals: any process may call, each call gets one reply.

A call is one envelope (so version and size are checked as everywhere), a reply as many parts as it
needs. The rule it guards: who calls is told by the kernel (the pid), never by the caller.
"""

import errno
import logging
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import NamedTuple

import trio

from .codec import decode_envelope, encode_envelope
from .dealer import open_request_client
from .errors import MailboxError, MalformedMessage
from .fragments import FragmentAssembler, split_into_fragments
from .router import RequestSender, RequestServerSocket, open_request_server
from .sequencer import Envelope, EnvelopeKind

_IPC = "ipc://"
_log = logging.getLogger("swarm.mailbox")


class NoControlReply(MailboxError):
    """No live run listens at this endpoint, or it did not reply in time."""

    def __init__(self, endpoint: str, *, timeout_s: float) -> None:
        super().__init__(f"nobody answered at {endpoint} within {timeout_s:g} s")
        self.endpoint, self.timeout_s = endpoint, timeout_s


class ControlRequest(NamedTuple):
    """One question. `peer_pid` is the process behind the connection, None if unknown."""

    peer_pid: int | None
    body: bytes
    sender: RequestSender


class ControlServer:
    """The supervisor's end. One task receives; any task replies."""

    def __init__(self, sock: RequestServerSocket) -> None:
        self._sock = sock
        self.malformed = 0  # calls dropped because they were no envelope

    async def receive(self) -> ControlRequest:
        """The next well-formed call; others are counted, logged once and dropped."""
        while True:
            message = await self._sock.receive()
            try:
                if message is None:
                    raise MalformedMessage("a call has one frame")
                caller, frame = message
                envelope = decode_envelope(frame)
                if envelope.kind is not EnvelopeKind.WHOLE:
                    raise MalformedMessage("a call is one whole envelope")
            except MalformedMessage as error:
                self.malformed += 1
                if self.malformed == 1:
                    _log.warning("dropped a control call: %s; more are only counted", error)
                continue
            return ControlRequest(caller.pid, envelope.body, caller)

    def reply(self, call: ControlRequest, body: bytes) -> None:
        """Answer; nothing happens if the caller has gone. Raises MessageTooLarge over 16 MiB."""
        parts = split_into_fragments(body)
        for seq, part in enumerate(parts, start=1):
            kind = EnvelopeKind.WHOLE if seq == len(parts) else EnvelopeKind.FRAGMENT
            frame = encode_envelope(Envelope(seq=seq, kind=kind, body=part))
            if not self._sock.reply(call.sender, frame):
                return


def _is_listening(endpoint: str) -> bool:
    """False only if no process can be behind an ipc endpoint: ZeroMQ itself would try for ever."""
    if not endpoint.startswith(_IPC):
        return True
    with socket.socket(socket.AF_UNIX) as probe:
        probe.setblocking(False)
        try:
            outcome = probe.connect_ex(endpoint.removeprefix(_IPC))
        except OSError:
            return True  # a path too long for a socket: connecting says so
        return outcome in (0, errno.EAGAIN, errno.EINPROGRESS)


@asynccontextmanager
async def open_control_server(endpoint: str) -> AsyncIterator[ControlServer]:
    """Listen for questions at `endpoint`. Raises NoEndpoint if it cannot be bound."""
    async with open_request_server(endpoint) as sock:
        yield ControlServer(sock)


async def send_control_request(endpoint: str, body: bytes, *, timeout_s: float) -> bytes:
    """Ask the run at `endpoint` one question.

    Raises:
        NobodyAnswers: No reply in time; at once if no process holds the socket.
        MalformedMessage: The reply is not one of this protocol version.
        MessageTooLarge: `body` is over 1 MiB.
    """
    if not _is_listening(endpoint):
        raise NoControlReply(endpoint, timeout_s=0)
    question = encode_envelope(Envelope(seq=1, kind=EnvelopeKind.WHOLE, body=body))
    assembly = FragmentAssembler()
    with trio.move_on_after(timeout_s):
        async with open_request_client(endpoint) as sock:
            sock.send(question)
            while True:
                envelope = decode_envelope(b"".join(await sock.receive()))
                if envelope.kind is EnvelopeKind.FRAGMENT:
                    assembly.add(envelope.body)
                elif (reply := assembly.finish(envelope.body)) is None:
                    raise MalformedMessage("the reply is over the limit of a message")
                else:
                    return reply
    raise NoControlReply(endpoint, timeout_s=timeout_s)

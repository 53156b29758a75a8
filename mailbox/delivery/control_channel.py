"""Control requests from other terminals to a run: one request, one reply.

A request is one envelope, so its version and size are checked. A reply is split into as many
fragments as it needs. The caller's pid comes from the kernel, never from the request.
"""

import errno
import logging
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import NamedTuple

import trio

from ..base.errors import MailboxError, MalformedMessage
from .dealer import open_request_client
from .envelope import (
    Envelope,
    EnvelopeKind,
    FragmentAssembler,
    decode_envelope,
    encode_envelope,
    split_into_fragments,
)
from .router import RequestSender, RequestServerSocket, open_request_server

_IPC = "ipc://"
_log = logging.getLogger("swarm.mailbox")


class NoControlReply(MailboxError):
    """No live run listens at this endpoint, or it did not reply in time."""

    def __init__(self, endpoint: str, *, timeout_s: float) -> None:
        super().__init__(f"nobody answered at {endpoint} within {timeout_s:g} s")
        self.endpoint, self.timeout_s = endpoint, timeout_s


class ControlRequest(NamedTuple):
    """One request. `peer_pid` is the process behind the connection, None if unknown."""

    peer_pid: int | None
    body: bytes
    sender: RequestSender


class ControlServer:
    """The supervisor's end. One task receives; any task may reply."""

    def __init__(self, sock: RequestServerSocket) -> None:
        self._sock = sock
        self.malformed = 0  # requests dropped because they were no envelope

    async def receive(self) -> ControlRequest:
        """The next well-formed request; malformed ones are counted, logged once and dropped."""
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
        """Reply; does nothing if the caller has gone. Raises MessageTooLarge over 16 MiB."""
        parts = split_into_fragments(body)
        for seq, part in enumerate(parts, start=1):
            kind = EnvelopeKind.WHOLE if seq == len(parts) else EnvelopeKind.FRAGMENT
            frame = encode_envelope(Envelope(seq=seq, kind=kind, body=part))
            if not self._sock.reply(call.sender, frame):
                return


def _is_listening(endpoint: str) -> bool:
    """False only if no process listens at an ipc endpoint; ZeroMQ itself retries for ever."""
    if not endpoint.startswith(_IPC):
        return True
    with socket.socket(socket.AF_UNIX) as probe:
        probe.setblocking(False)
        try:
            outcome = probe.connect_ex(endpoint.removeprefix(_IPC))
        except OSError:
            return True  # the path is too long for a socket: `connect` reports that
        return outcome in (0, errno.EAGAIN, errno.EINPROGRESS)


@asynccontextmanager
async def open_control_server(endpoint: str) -> AsyncIterator[ControlServer]:
    """Serve control requests at `endpoint`. Raises EndpointUnavailable if it cannot be bound."""
    async with open_request_server(endpoint) as sock:
        yield ControlServer(sock)


async def send_control_request(endpoint: str, body: bytes, *, timeout_s: float) -> bytes:
    """Send one request to the run at `endpoint` and return the reply.

    Raises:
        NoControlReply: No reply in time; at once if no process listens at the socket.
        MalformedMessage: The reply is not of this protocol version.
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

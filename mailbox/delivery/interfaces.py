"""Protocols for both ends of a mailbox. The socket implementations are in dealer.py and router.py.

A child holds a `Mailbox` with one peer. A supervisor or gateway holds a `MailboxServer` with one
numbered link per peer. `pair.py` implements both in memory.
"""

from collections.abc import Callable
from typing import NamedTuple, Protocol

from ..protocol.values.base import Value


class ReceivedMessage(NamedTuple):
    """One body that arrived. `seq` 0 means transient: unnumbered, and not acknowledged."""

    peer: bytes
    seq: int
    body: bytes


class MailboxStatistics(Value):
    """Counts of received and dropped frames, by cause; never contents."""

    received: int = 0
    sent: int = 0
    repeats: int = 0
    gaps: int = 0
    stale: int = 0
    malformed: int = 0
    oversized: int = 0
    unknown_peer: int = 0
    unknown_version: int = 0
    disconnects: int = 0  # dropped by the socket itself, e.g. over MAXMSGSIZE
    unacknowledged: int = 0  # now


class Mailbox(Protocol):
    """A client's end. One task receives; any task may post."""

    async def post(self, body: bytes) -> int:
        """Number `body`, keep it until it is acknowledged, send it; return its number (≥ 1).

        Waits while 64 envelopes are unacknowledged. Bodies over 256 KiB are sent in fragments.
        Raises MessageTooLarge over 16 MiB.
        """
        ...

    def post_nowait(self, body: bytes) -> int:
        """As `post`, but returns 0 instead of waiting; the body is then not taken."""
        ...

    def send_transient(self, body: bytes) -> None:
        """Send unnumbered, without resend; dropped if it is too large or the peer lags."""
        ...

    async def wait_acknowledged(self, seq: int) -> None:
        """Return once the peer has acknowledged `seq` (and so all before it)."""
        ...

    async def receive(self) -> ReceivedMessage:
        """The next message, in order. Cancelling loses nothing."""
        ...

    async def consume(self, take: Callable[[ReceivedMessage], bool]) -> None:
        """Call `take` with each message as it arrives, instead of `receive`.

        `take` never waits. When it returns True it gets no more messages and this call returns. An
        exception from `take` is raised here.
        """
        ...

    def acknowledge(self, message: ReceivedMessage, *, soon: bool = True) -> None:
        """Acknowledge a message that was journaled or applied. Transient messages are ignored.

        Pass `soon=False` if no sender waits for it: the ack may then wait up to 100 ms for an
        envelope to carry it.
        """
        ...

    async def flush(self) -> None:
        """Return once everything posted is acknowledged; the caller sets the deadline."""
        ...


class MailboxServer(Protocol):
    """The server's end, with many peers. Frames of peers not admitted are counted and dropped."""

    def admit(self, peer: bytes, *, epoch: int) -> None:
        """Accept this identity from now on. Raises ValueError if it is admitted already."""
        ...

    def dismiss(self, peer: bytes) -> tuple[bytes, ...]:
        """Forget the peer; return the bodies it never acknowledged, in order. Unknown peer: ()."""
        ...

    async def post(self, peer: bytes, body: bytes) -> int:
        """As Mailbox.post. Raises PeerGone if `peer` is not admitted, also during the wait."""
        ...

    def post_nowait(self, peer: bytes, body: bytes) -> int:
        """As Mailbox.post_nowait. Raises PeerGone if `peer` is not admitted."""
        ...

    def send_transient(self, peer: bytes, body: bytes) -> None:
        """As Mailbox.send_transient; an unknown peer is ignored."""
        ...

    async def wait_acknowledged(self, peer: bytes, seq: int) -> None:
        """As Mailbox.wait_acknowledged. Raises PeerGone if the peer is dismissed meanwhile."""
        ...

    async def receive(self) -> ReceivedMessage:
        """The next message of any peer; each peer's messages are in order."""
        ...

    async def consume(self, take: Callable[[ReceivedMessage], bool]) -> None:
        """As Mailbox.consume."""
        ...

    def acknowledge(self, message: ReceivedMessage, *, soon: bool = True) -> None:
        """As Mailbox.acknowledge; a message of a dismissed peer is ignored."""
        ...

    def statistics(self) -> MailboxStatistics:
        """Counters for `doctor`, tests and the closing report."""
        ...

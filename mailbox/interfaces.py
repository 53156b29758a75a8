"""The two ends of a mailbox, as everything else sees them. Sockets are in dealer.py and router.py.

A child holds a `Mailbox` to one other side; a supervisor or gateway holds a `MailboxServer` with
one
numbered conversation per peer. `pair.py` is the in-memory twin of both.
"""

from collections.abc import Callable
from typing import NamedTuple, Protocol

from .protocol.base import Value


class ReceivedMessage(NamedTuple):
    """One body that arrived. `seq` 0 means passing: unnumbered, nothing to acknowledge."""

    peer: bytes
    seq: int
    body: bytes


class MailboxStatistics(Value):
    """What came and what was refused, by cause; only numbers, never contents."""

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
    """A child's end. One task receives; any task posts."""

    async def post(self, body: bytes) -> int:
        """Number `body`, keep it until it is acknowledged, send it; return its number (≥ 1).

        Waits while 64 envelopes are unacknowledged. Bodies over 256 KiB travel in parts.
        Raises MessageTooLarge over 16 MiB.
        """
        ...

    def post_nowait(self, body: bytes) -> int:
        """As `post`, if nothing has to be waited for; 0: it was not taken. Raises likewise."""
        ...

    def send_transient(self, body: bytes) -> None:
        """Send without number or promise; dropped if it is too large or the other side lags."""
        ...

    async def wait_acknowledged(self, seq: int) -> None:
        """Return once the other side has acknowledged `seq` (and so all before it)."""
        ...

    async def receive(self) -> ReceivedMessage:
        """The next letter, in order. Cancelling it loses nothing."""
        ...

    async def consume(self, take: Callable[[ReceivedMessage], bool]) -> None:
        """Give each letter to `take` in the moment in which it arrives, instead of `receive`.

        `take` never waits; it returns True to get no more, and this returns. What it raises is
        raised here.
        """
        ...

    def acknowledge(self, letter: ReceivedMessage, *, soon: bool = True) -> None:
        """Acknowledge: the letter was journaled or applied. A passing letter is ignored.

        Not `soon`: nobody waits for it, so it may ride in an envelope of the next 100 ms.
        """
        ...

    async def flush(self) -> None:
        """Return once everything posted is acknowledged; the caller sets the deadline."""
        ...


class MailboxServer(Protocol):
    """The many-peer end. Peers must be admitted; frames of others are counted and dropped."""

    def admit(self, peer: bytes, *, epoch: int) -> None:
        """Expect this identity from now on. Raises ValueError if it is admitted already."""
        ...

    def dismiss(self, peer: bytes) -> tuple[bytes, ...]:
        """Forget the peer; return the bodies it never acknowledged, in order. Unknown: ()."""
        ...

    async def post(self, peer: bytes, body: bytes) -> int:
        """As Mailbox.post. Raises PeerGone if `peer` is not admitted, also while it waits."""
        ...

    def post_nowait(self, peer: bytes, body: bytes) -> int:
        """As Mailbox.post_nowait. Raises PeerGone if `peer` is not admitted."""
        ...

    def send_transient(self, peer: bytes, body: bytes) -> None:
        """As Mailbox.pass_on; an unknown peer is ignored."""
        ...

    async def wait_acknowledged(self, peer: bytes, seq: int) -> None:
        """As Mailbox.wait_handled. Raises PeerGone if the peer is dismissed meanwhile."""
        ...

    async def receive(self) -> ReceivedMessage:
        """The next letter of any peer; each peer's letters are in order."""
        ...

    async def consume(self, take: Callable[[ReceivedMessage], bool]) -> None:
        """As Mailbox.hand_on."""
        ...

    def acknowledge(self, letter: ReceivedMessage, *, soon: bool = True) -> None:
        """As Mailbox.handled; a letter of a dismissed peer is ignored."""
        ...

    def statistics(self) -> MailboxStatistics:
        """Numbers for `doctor`, tests and the closing report."""
        ...

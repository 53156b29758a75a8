"""A process that a run has once, such as the gateway: its child loop and its end of the mailbox."""

import logging
from collections.abc import Callable, Iterable, Iterator
from typing import Protocol, TypeVar

import msgspec
import trio

from swarm.mailbox.base.errors import PeerGone
from swarm.mailbox.delivery.interfaces import ReceivedMessage
from swarm.mailbox.protocol.events import Hello

from ..processes.child_loop import ChildLoop
from ..processes.child_spec import ChildSpec
from .run_context import RunContext

_log = logging.getLogger("swarm.services")
_Event = TypeVar("_Event")
HEARTBEAT_TIMEOUT_S = 10.0
_START_TIMEOUT_S = 30.0  # before its Hello it is importing and may be slow


class ServiceProcess:
    """Each process of the service has an identity and an epoch of its own."""

    def __init__(self, running: RunContext, name: str, child: ChildSpec, *, prefix: str) -> None:
        """`prefix` begins its identities: "g" for the gateway, "n" for the network proxy."""
        self._run, self._name, self._prefix = running, name, prefix
        self.loop = ChildLoop(child)
        self.identity = b""  # of the present process; empty while there is none
        self.trusted = False  # its Hello proved that this supervisor started it
        self._last_heartbeat = trio.current_time()

    def admit(self, epoch: int) -> bytes:
        """Let the next process connect; return the identity that its spec names."""
        self.identity = f"{self._prefix}/{self._run.run_id}/{epoch}".encode()
        self.trusted = False
        self.note_heartbeat()
        self._run.mailbox.admit(self.identity, epoch=epoch)
        return self.identity

    def dismiss(self) -> None:
        """The process has ended, or its start failed."""
        self._run.mailbox.dismiss(self.identity)
        self.identity, self.trusted = b"", False

    def note_heartbeat(self) -> None:
        """It sent a message, or this process itself was held up and could not read any."""
        self._last_heartbeat = trio.current_time()

    def read(
        self, message: ReceivedMessage, decode: Callable[[bytes], _Event | Hello]
    ) -> _Event | None:
        """The event, which the caller acknowledges. None: the message needs nothing more."""
        self.note_heartbeat()
        try:
            event = decode(message.body)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            _log.warning("a message of the %s could not be read: %s", self._name, error)
        else:
            if isinstance(event, Hello):
                self._check_hello(event)
            elif self.trusted:
                return event
        self._run.mailbox.acknowledge(message)
        return None

    def _check_hello(self, hello: Hello) -> None:
        """Trust the process after its first Hello; SIGKILL it on any other."""
        if self._run.is_proven(self.identity, hello) and not self.trusted:
            self.trusted = True
        else:
            self.loop.kill()

    def kill_if_silent(self) -> None:
        """SIGKILL a process that sent no message for 10 s (30 s before its Hello)."""
        limit_s = HEARTBEAT_TIMEOUT_S if self.trusted else _START_TIMEOUT_S
        if self.loop.child and trio.current_time() - self._last_heartbeat > limit_s:
            self.note_heartbeat()
            self.loop.kill()

    async def send(self, body: bytes) -> None:
        """Post a message; one to a process that has ended is dropped."""
        try:
            await self._run.mailbox.post(self.identity, body)
        except PeerGone:
            return

    async def send_and_wait(self, body: bytes) -> None:
        """Like `send`; return once the process has taken it."""
        try:
            seq = await self._run.mailbox.post(self.identity, body)
            await self._run.mailbox.wait_acknowledged(self.identity, seq)
        except PeerGone:
            return


class Service(Protocol):
    """What owns a service process and handles its messages."""

    @property
    def process(self) -> ServiceProcess: ...

    def on_message(self, message: ReceivedMessage) -> None:
        """Handle one message of the process; never waits."""
        ...

    def check_alive(self) -> None:
        """Called once a second: SIGKILL a process that does not work any more."""
        ...


class Services:
    """All services of a run. Some come and go."""

    def __init__(self, *groups: Iterable[Service]) -> None:
        self._groups = groups

    def __iter__(self) -> Iterator[Service]:
        for group in self._groups:
            yield from group

"""One life of an agent as the gateway knows it, and one answer on its way back to it."""

import trio

from swarm.mailbox.errors import PeerGone
from swarm.mailbox.post import PostOffice
from swarm.mailbox.protocol.sampling import AnySampleEvent, SampleRequest, encode_sample_event

from .conversations import Conversation
from .grants import Reservation


class Session:
    """One life of one agent."""

    def __init__(self, peer: bytes, epoch: int, conversation: Conversation) -> None:
        self.peer, self.epoch, self.conversation = peer, epoch, conversation
        self.running: dict[int, trio.CancelScope] = {}  # by request id
        self.used_at = trio.current_time()

    def cancel_all(self) -> None:
        for scope in self.running.values():
            scope.cancel()


class Window:
    """The way out to agents."""

    def __init__(self, office: PostOffice, nursery: trio.Nursery) -> None:
        self.office, self.nursery = office, nursery

    async def post(self, peer: bytes, event: AnySampleEvent) -> None:
        """Numbered. A peer that is gone by now does not matter."""
        try:
            await self.office.post(peer, encode_sample_event(event))
        except PeerGone:
            return


class Answer:
    """One request on its way back."""

    def __init__(self, window: Window, session: Session, asked: SampleRequest) -> None:
        self.window, self.session, self.asked = window, session, asked
        self.request_id = asked.request_id
        self.items_done = 0
        self.reservation: Reservation | None = None

    async def post(self, event: AnySampleEvent) -> None:
        """Raises PeerGone."""
        await self.window.office.post(self.session.peer, encode_sample_event(event))

    def pass_on(self, event: AnySampleEvent) -> None:
        self.window.office.pass_on(self.session.peer, encode_sample_event(event))

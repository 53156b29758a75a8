"""Relay a response to its agent: the agent's connection, the sender, the events of one request."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import assert_never

import trio

from swarm.mailbox.base.errors import PeerGone
from swarm.mailbox.delivery.envelope import MAX_MESSAGE_BYTES
from swarm.mailbox.delivery.interfaces import MailboxServer
from swarm.mailbox.protocol.sampling import (
    AnySampleEvent,
    ReasoningDelta,
    SampleCompleted,
    SampleFailed,
    SampleItemDone,
    SampleItemStarted,
    SampleRequest,
    SampleWaiting,
    TextDelta,
    encode_sample_event,
)

from .backend import (
    AnyResponseEvent,
    Failure,
    RequestWaiting,
    ResponseFinished,
    ResponseItemDone,
    ResponseItemStarted,
    ResponseReasoningDelta,
    ResponseTextDelta,
    SampleError,
)
from .budget_reservations import RequestReservation
from .conversations import Conversation
from .open_providers import OpenProvider
from .prompt_reading import FIRST_NOTICE_S, describe_silence

MAX_DELTA_CHARS = 64 * 1024  # limit of a delta: at most 256 KiB, so that it fits into one frame
MAX_ITEM_BYTES = MAX_MESSAGE_BYTES // 2  # leaves room for what an agent adds around it
MAX_TEXT_CHARS = 4_000  # limit of a reason or a failure text


class AgentConnection:
    """The connection of one agent process."""

    def __init__(
        self, peer: bytes, epoch: int, conversation: Conversation, provider: OpenProvider
    ) -> None:
        self.peer, self.epoch, self.conversation = peer, epoch, conversation
        self.provider = provider
        self.running: dict[int, trio.CancelScope] = {}  # by request id
        self.used_at = trio.current_time()

    def cancel_all(self) -> None:
        for scope in self.running.values():
            scope.cancel()


class ResponseSender:
    """Sends events to agents."""

    def __init__(self, server: MailboxServer, nursery: trio.Nursery) -> None:
        self.server, self.nursery = server, nursery

    async def post(self, peer: bytes, event: AnySampleEvent) -> None:
        """Post a numbered event. A peer that has gone is ignored."""
        try:
            await self.server.post(peer, encode_sample_event(event))
        except PeerGone:
            return


class ResponseRelay:
    """Relays the events of one request. Texts for people are redacted and limited in length.

    Args:
        clean: Redacts secrets from a text.
    """

    def __init__(
        self,
        sender: ResponseSender,
        connection: AgentConnection,
        request: SampleRequest,
        clean: Callable[[str], str],
    ) -> None:
        self.sender, self.connection, self.request, self._clean = sender, connection, request, clean
        self.request_id = request.request_id
        self.reservation: RequestReservation | None = None
        self._silence = trio.CancelScope()
        self._told_at = 0.0  # when something was forwarded or told last

    @contextmanager
    def shown_silence(self, sent_bytes: int) -> Iterator[None]:
        """While the server says nothing yet, tell people so, and how much it has to read."""
        self._silence.cancel()
        self._silence = trio.CancelScope()
        self.sender.nursery.start_soon(self._tell_of_silence, self._silence, sent_bytes)
        try:
            yield
        finally:
            self._silence.cancel()

    async def _tell_of_silence(self, silence: trio.CancelScope, sent_bytes: int) -> None:
        began = self._told_at = trio.current_time()
        pause_s = FIRST_NOTICE_S
        with silence:
            while True:
                told_at = self._told_at
                await trio.sleep_until(told_at + pause_s)
                if self._told_at != told_at:
                    continue  # it said meanwhile why it waits
                now = trio.current_time()
                reason = describe_silence(sent_bytes, now - began)
                self._told_at, pause_s = now, 2 * pause_s
                self.send_transient(
                    SampleWaiting(request_id=self.request_id, reason=reason, delay_s=0.0)
                )

    def _note_sign(self, event: AnyResponseEvent) -> None:
        """The server said something, or why it waits: it is not called silent now."""
        self._told_at = trio.current_time()
        if not isinstance(event, RequestWaiting):
            self._silence.cancel()

    async def forward(self, event: AnyResponseEvent) -> None:
        """Relay one event. Raises PeerGone, and SampleError for an item that is too large."""
        number = self.request_id
        self._note_sign(event)
        match event:
            case ResponseTextDelta(item_id=name, text=text):
                for piece in _split_delta(text):
                    self.send_transient(TextDelta(request_id=number, item_id=name, delta=piece))
            case ResponseReasoningDelta(item_id=name, text=text):
                for piece in _split_delta(text):
                    self.send_transient(
                        ReasoningDelta(request_id=number, item_id=name, delta=piece)
                    )
            case ResponseItemStarted(item_id=name, kind=kind, tool=tool):
                self.send_transient(
                    SampleItemStarted(request_id=number, item_id=name, kind=kind, tool=tool)
                )
            case ResponseItemDone(item=item):
                await self._post_item(SampleItemDone(request_id=number, item=item))
            case RequestWaiting():
                self.send_transient(
                    SampleWaiting(
                        request_id=number,
                        reason=self._clean_text(event.reason),
                        delay_s=event.delay_s,
                        attempt=event.attempt,
                        max_attempts=event.max_attempts,
                    )
                )
            case ResponseFinished():
                await self._post(
                    SampleCompleted(
                        request_id=number,
                        response_id=event.response_id,
                        usage=event.usage,
                        end_turn=event.end_turn,
                        truncated=event.truncated,
                    )
                )
            case _:
                assert_never(event)

    async def fail(self, failure: Failure) -> None:
        """Post the failure of the request. Raises PeerGone."""
        await self._post(
            SampleFailed(
                request_id=self.request_id,
                kind=failure.kind,
                message=self._clean_text(failure.message),
                retryable=failure.retryable,
                retry_after_s=failure.retry_after_s,
                http_status=failure.http_status,
                window_tokens=failure.window_tokens,
                may_be_too_long=failure.may_be_too_long,
                resets_at_unix_s=failure.resets_at_unix_s,
            )
        )

    def send_transient(self, event: AnySampleEvent) -> None:
        self.sender.server.send_transient(self.connection.peer, encode_sample_event(event))

    async def _post_item(self, event: SampleItemDone) -> None:
        body = encode_sample_event(event)
        if len(body) > MAX_ITEM_BYTES:
            text = (
                f"one item of the answer has {len(body):,} bytes, and {MAX_ITEM_BYTES:,} is the "
                "limit; ask for less at once"
            )
            raise SampleError(Failure(kind="bad_response", message=text))
        await self.sender.server.post(self.connection.peer, body)

    async def _post(self, event: AnySampleEvent) -> None:
        await self.sender.server.post(self.connection.peer, encode_sample_event(event))

    def _clean_text(self, text: str) -> str:
        clean = self._clean(text)
        return clean if len(clean) <= MAX_TEXT_CHARS else f"{clean[:MAX_TEXT_CHARS]} …"


def _split_delta(text: str) -> Iterator[str]:
    """Split a delta into pieces that fit into one frame each."""
    if len(text) <= MAX_DELTA_CHARS:
        yield text
        return
    for at in range(0, len(text), MAX_DELTA_CHARS):
        yield text[at : at + MAX_DELTA_CHARS]

"""One life of an agent as the gateway knows it, and one answer on its way back to it."""

import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import assert_never, cast

import trio

from swarm.mailbox.errors import PeerGone
from swarm.mailbox.parts import MESSAGE_BYTES
from swarm.mailbox.post import PostOffice
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
    Finished,
    Held,
    ItemDone,
    ItemStarted,
    ReasoningPiece,
    SampleError,
    TextPiece,
)
from .conversations import Conversation
from .grants import Reservation

PIECE_CHARS = 64 * 1024  # of a delta: at most 256 KiB, so it is one frame
MOST_ITEM_BYTES = MESSAGE_BYTES // 2  # an agent passes it on with words of its own around it
MOST_WORDS = 4_000  # of a reason or a failure


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
    """One request on its way back. Its texts for people are cleaned, and bounded like its items.

    Args:
        clean: Takes secrets out of a text.
    """

    def __init__(
        self, window: Window, session: Session, asked: SampleRequest, clean: Callable[[str], str]
    ) -> None:
        self.window, self.session, self.asked, self._clean = window, session, asked, clean
        self.request_id = asked.request_id
        self.reservation: Reservation | None = None

    async def tell(self, event: AnyResponseEvent) -> None:
        """Pass on one event. Raises PeerGone, and SampleError for an item that is too large."""
        number = self.request_id
        match event:
            case TextPiece(item_id=name, text=text):
                for piece in _pieces_of(text):
                    self.pass_on(TextDelta(request_id=number, item_id=name, delta=piece))
            case ReasoningPiece(item_id=name, text=text):
                for piece in _pieces_of(text):
                    self.pass_on(ReasoningDelta(request_id=number, item_id=name, delta=piece))
            case ItemStarted(item_id=name, kind=kind):
                self.pass_on(SampleItemStarted(request_id=number, item_id=name, kind=kind))
            case ItemDone(item=item):
                await self._post_item(SampleItemDone(request_id=number, item=item))
            case Held():
                self.pass_on(
                    SampleWaiting(
                        request_id=number,
                        reason=self._words(event.reason),
                        delay_s=event.delay_s,
                        attempt=event.attempt,
                        max_attempts=event.max_attempts,
                    )
                )
            case Finished():
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
        """The request has come to nothing. Raises PeerGone."""
        await self._post(
            SampleFailed(
                request_id=self.request_id,
                kind=failure.kind,
                message=self._words(failure.message),
                retryable=failure.retryable,
                retry_after_s=failure.retry_after_s,
                http_status=failure.http_status,
            )
        )

    def pass_on(self, event: AnySampleEvent) -> None:
        self.window.office.pass_on(self.session.peer, encode_sample_event(event))

    async def _post_item(self, event: SampleItemDone) -> None:
        body = encode_sample_event(event)
        if len(body) > MOST_ITEM_BYTES:
            text = (
                f"one item of the answer has {len(body):,} bytes, and {MOST_ITEM_BYTES:,} is the "
                "limit; ask for less at once"
            )
            raise SampleError(Failure(kind="bad_response", message=text))
        await self.window.office.post(self.session.peer, body)

    async def _post(self, event: AnySampleEvent) -> None:
        await self.window.office.post(self.session.peer, encode_sample_event(event))

    def _words(self, text: str) -> str:
        clean = self._clean(text)
        return clean if len(clean) <= MOST_WORDS else f"{clean[:MOST_WORDS]} …"


def _pieces_of(text: str) -> Iterator[str]:
    """A piece of a text, in pieces that fit a frame each."""
    if len(text) <= PIECE_CHARS:
        yield text
        return
    for at in range(0, len(text), PIECE_CHARS):
        yield text[at : at + PIECE_CHARS]


def own_fault(error: Exception) -> Failure:
    """A failure of the gateway itself, of this one request. Names the place, never the contents."""
    error = _first_of(error)
    frames = traceback.extract_tb(error.__traceback__)
    place = f" at {Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else ""
    text = (
        f"the gateway could not go on with this request ({type(error).__name__}{place}); that is a "
        "bug of swarm, the other agents go on. Run it again, and report it if it comes back"
    )
    return Failure(kind="internal", message=text)


def _first_of(error: Exception) -> Exception:
    """The error itself, out of nested groups."""
    if isinstance(error, ExceptionGroup):
        return _first_of(cast("ExceptionGroup[Exception]", error).exceptions[0])
    return error

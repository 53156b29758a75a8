"""Events and requests from the agent to the supervisor: durable events in order, deltas coalesced.

Emitting an event never waits and cannot be interrupted half-way, so the history and the emitted
events stay consistent when a turn is cancelled. One task posts the events; code that needs an event
journaled (before a call runs) waits for its PendingEvent.
"""

from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager

import trio
from msgspec.structs import replace

from swarm.mailbox.base.errors import MessageTooLarge
from swarm.mailbox.delivery.envelope import MAX_MESSAGE_BYTES
from swarm.mailbox.delivery.interfaces import Mailbox
from swarm.mailbox.parts.part_messages import PartQueued
from swarm.mailbox.protocol.events import (
    AnyEvent,
    CallBegan,
    FileWatch,
    OutputArrived,
    ReasoningArrived,
    RequestSent,
    TextArrived,
    Waiting,
    encode_event,
)
from swarm.mailbox.protocol.requests import (
    AnyReply,
    AnyRequest,
    QueuedForSlot,
    RequestRefused,
    SaveFiles,
    WatchFiles,
)

from .event_limits import fit_event

COALESCE_S = 0.02
COALESCE_CHARS = 2_048
WAITING_INTERVAL_S = 20.0  # between two Waiting events of one wait
# The supervisor records the files within a second; if it fails, the call goes on after this time.
WATCH_LIMIT_S = 5.0
SAVE_LIMIT_S = 120.0  # then the call is said to be done all the same
_MAX_DIRECT_BYTES = 64 * 1024  # far below the limit of any mailbox
_MAX_STREAMS = 256  # with more streams at once, deltas are sent immediately

Queued = QueuedForSlot | PartQueued  # not yet the reply: a place in a line
DeltaKind = type[TextArrived] | type[ReasoningArrived] | type[OutputArrived]


class PendingEvent:
    """One durable event that may not be posted yet."""

    def __init__(self) -> None:
        self.posted = trio.Event()
        self.seq = 0

    def mark_posted(self, seq: int) -> None:
        """Note that the event was posted under this sequence number."""
        self.seq = seq
        self.posted.set()


class _PendingRequest:
    """A request that waits for its reply."""

    def __init__(self, on_queued: Callable[[Queued], None] | None) -> None:
        self.on_queued = on_queued
        self.answered = trio.Event()
        self.reply: AnyReply | None = None


class Reporter:
    """Emits events on one mailbox. `run_outbox` and `run_deltas` run beside it all the time."""

    def __init__(self, post: Mailbox, *, saves_files: bool = False) -> None:
        """`saves_files`: this process is on another machine than the run's folder."""
        self._post, self._saves_files = post, saves_files
        self._outbox: deque[tuple[bytes, PendingEvent | None]] = deque()
        self._outbox_filled = trio.Event()
        self._outbox_empty = trio.Event()
        self._deltas: dict[tuple[DeltaKind, str], tuple[str, list[str], int]] = {}
        self._delta_pending = trio.Event()
        self._requests: dict[int, _PendingRequest] = {}
        self._request_count = 0
        self.progress = 0

    # --- durable -----------------------------------------------------------------------------

    def emit(self, event: AnyEvent) -> None:
        """Queue a durable event; events are posted in this order. An event too large is cut."""
        self._enqueue(fit_event(event), None)

    def emit_tracked(self, event: AnyEvent) -> PendingEvent:
        """Like `emit`, for an event that must be journaled before something else happens."""
        ticket = PendingEvent()
        self._enqueue(fit_event(event), ticket)
        return ticket

    async def wait_journaled(self, ticket: PendingEvent) -> None:
        """Return once the supervisor has acknowledged the event of this ticket."""
        await ticket.posted.wait()
        await self._post.wait_acknowledged(ticket.seq)

    async def request(
        self, request: AnyRequest, *, on_queued: Callable[[Queued], None] | None = None
    ) -> AnyReply:
        """Send a request to the supervisor and wait for its reply; the caller sets the deadline.

        A request that is too large for any mailbox is refused here.

        Args:
            request: The request.
            on_queued: Called with the request's place while it waits in a line.
        """
        with self._open_request(on_queued) as (number, question):
            body = encode_event(RequestSent(request_id=number, request=request))
            if len(body) > MAX_MESSAGE_BYTES:
                error = MessageTooLarge(size_bytes=len(body), limit_bytes=MAX_MESSAGE_BYTES)
                return RequestRefused(message=f"the request was not sent: {error}")
            self._enqueue(body, None)
            while question.reply is None:
                await question.answered.wait()
            return question.reply

    async def begin_watched(self, event: CallBegan, paths: tuple[str, ...]) -> None:
        """Emit the begin of a call that may change files; return when the call may run.

        Then the begin is journaled and the files are recorded, if that took at most WATCH_LIMIT_S.

        Args:
            event: The begin.
            paths: Absolute paths of files that the call is known to change.
        """
        with self._open_request(None) as (number, question):
            watch = FileWatch(request_id=number, paths=paths)
            ticket = self.emit_tracked(replace(event, watch=watch))
            with trio.move_on_after(WATCH_LIMIT_S):
                await question.answered.wait()
        await self.wait_journaled(ticket)

    async def watch_files(self, begun: CallBegan, paths: tuple[str, ...]) -> None:
        """Have the files recorded for a call that has begun; a failure does not stop the call."""
        request = WatchFiles(turn_id=begun.turn_id, call_id=begun.call_id, paths=paths)
        with trio.move_on_after(WATCH_LIMIT_S):
            await self.request(request)

    async def save_files(self) -> None:
        """Have what this agent changed brought to the supervisor's machine, if that is another one.

        Then a call that is said to be done is not undone by the loss of this machine.
        """
        if self._saves_files:
            with trio.move_on_after(SAVE_LIMIT_S):
                await self.request(SaveFiles())

    @contextmanager
    def _open_request(
        self, on_queued: Callable[[Queued], None] | None
    ) -> Iterator[tuple[int, _PendingRequest]]:
        self._request_count += 1
        number = self._request_count
        question = self._requests[number] = _PendingRequest(on_queued)
        try:
            yield number, question
        finally:
            del self._requests[number]

    def receive_reply(self, request_id: int, reply: AnyReply) -> None:
        """Deliver the supervisor's reply; a reply to an unknown or answered request is dropped."""
        question = self._requests.get(request_id)
        if question is None or question.reply is not None:
            return
        if isinstance(reply, Queued):
            if question.on_queued is not None:
                question.on_queued(reply)
            return
        question.reply = reply
        question.answered.set()

    async def flush(self) -> None:
        """Return once every queued event is acknowledged; the caller sets the deadline."""
        while self._outbox:
            self._outbox_empty = trio.Event()
            await self._outbox_empty.wait()
        await self._post.flush()

    async def run_outbox(self) -> None:
        """Post queued events, for ever. A full send window blocks this task, but not `emit`."""
        while True:
            while self._outbox:
                body, ticket = self._outbox[0]
                seq = await self._post.post(body)
                self._outbox.popleft()
                if ticket is not None:
                    ticket.mark_posted(seq)
            self._outbox_empty.set()
            self._outbox_filled = trio.Event()
            await self._outbox_filled.wait()

    def _enqueue(self, body: bytes, ticket: PendingEvent | None) -> None:
        self.progress += 1
        if (
            not self._outbox
            and len(body) <= _MAX_DIRECT_BYTES
            and (seq := self._post.post_nowait(body))
        ):
            if ticket is not None:
                ticket.mark_posted(seq)
            return
        self._outbox.append((body, ticket))
        self._outbox_filled.set()

    @asynccontextmanager
    async def shown_wait(
        self, reason: str, *, after_s: float
    ) -> AsyncIterator[Callable[[str], None]]:
        """Emit Waiting events while the block runs, from `after_s` on; they count as progress.

        Yields a function that takes what is shown behind the reason from then on. The block must
        not raise, because the nursery would wrap the error in a group.
        """
        suffix = ""

        def show(more: str) -> None:
            nonlocal suffix
            suffix = more
            self.progress += 1
            self.emit_transient(Waiting(reason=reason + suffix))

        async def repeat() -> None:
            await trio.sleep(after_s)
            while True:
                show(suffix)
                await trio.sleep(WAITING_INTERVAL_S)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(repeat)
            yield show
            nursery.cancel_scope.cancel()

    # --- transient ---------------------------------------------------------------------------

    def emit_transient(self, event: AnyEvent) -> None:
        """Send a transient event at once; it may be lost."""
        self._post.send_transient(encode_event(event))

    def emit_delta(self, kind: DeltaKind, turn_id: str, name: str, delta: str) -> None:
        """Add text of an item or output of a call; it is sent within 20 ms or at 2 KiB."""
        self.progress += 1
        key = (kind, name)
        waiting = self._deltas.get(key)
        _, pieces, size = waiting or (turn_id, [], 0)
        pieces.append(delta)
        size += len(delta)
        self._deltas[key] = turn_id, pieces, size
        if size >= COALESCE_CHARS or len(self._deltas) > _MAX_STREAMS:
            self._send_deltas(key)
        else:
            self._delta_pending.set()

    def discard_deltas(self, kind: DeltaKind, name: str) -> None:
        """Drop unsent deltas of an item that is complete."""
        self._deltas.pop((kind, name), None)

    async def run_deltas(self) -> None:
        """Send pending deltas 20 ms after the first of them; loops for ever."""
        while True:
            await self._delta_pending.wait()
            await trio.sleep(COALESCE_S)
            self._delta_pending = trio.Event()
            for key in tuple(self._deltas):
                self._send_deltas(key)

    def _send_deltas(self, key: tuple[DeltaKind, str]) -> None:
        turn_id, pieces, _ = self._deltas.pop(key)
        kind, name = key
        text = "".join(pieces)
        if kind is OutputArrived:
            self.emit_transient(OutputArrived(turn_id=turn_id, call_id=name, delta=text))
        elif kind is TextArrived:
            self.emit_transient(TextArrived(turn_id=turn_id, item_id=name, delta=text))
        else:
            self.emit_transient(ReasoningArrived(turn_id=turn_id, item_id=name, delta=text))

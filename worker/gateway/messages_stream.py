"""Decode the Messages event stream: payloads in, response events out. No I/O.

A block is an item. It is emitted when the block stops, so that a call can start while the stream
goes on. Only a call whose input is incomplete waits for the end of the response; if the model was
cut off, that call is dropped. The response is complete with `message_stop`, or when the stream ends
after its stop reason and every block has stopped. An event that cannot be read, or that does not
fit the earlier ones, cuts the stream (wire_stream.py). Events of unknown types are skipped, as the
wire allows.
"""

from swarm.mailbox.protocol.items import AnyItem, FunctionCall, Message, OutputText

from .backend import (
    AnyResponseEvent,
    Failure,
    NewId,
    ResponseFinished,
    ResponseItemDone,
    ResponseItemStarted,
    ResponseReasoningDelta,
    ResponseTextDelta,
    SampleError,
)
from .event_payloads import DecodedEvent, UnreadableEvent, is_object
from .failures import ErrorBody, classify_stream_error
from .messages_events import (
    DELTAS,
    MessagesError,
    MessagesEvent,
    MessageStart,
    MessagesUsage,
    StopDetails,
    add_usage,
    read_message_event,
    to_token_usage,
)
from .text_accumulator import ResponseSize, TextAccumulator
from .thinking import RedactedThinking, Thinking, seal_block
from .wire_stream import WireStream

_KINDS = {
    "text": "message",
    "thinking": "reasoning",
    "redacted_thinking": "reasoning",
    "tool_use": "function_call",
}


class _OpenBlock:
    """A block that still arrives."""

    def __init__(self, kind: str, item_id: str, size: ResponseSize) -> None:
        self.kind, self.item_id, self.name = kind, item_id, ""
        self.body = TextAccumulator(size)  # text, thinking, input JSON, or redacted data
        self.signature = TextAccumulator(size)
        self.given = ""  # input that came complete at the start of the block


class MessagesStream(WireStream):
    """One response."""

    def __init__(self, *, provider: str, slug: str, new_id: NewId) -> None:
        super().__init__(provider=provider, new_id=new_id)
        self._slug = slug
        self._response_id = ""
        self._usage = MessagesUsage()
        self._begun = 0  # number of blocks; the wire numbers them without a gap
        self._open: dict[
            int, _OpenBlock | None
        ] = {}  # by that number; None: a kind that is not kept
        self._unfinished_calls: list[_OpenBlock] = []  # calls whose input is incomplete
        self._stop_reason: str | None = None
        self._stop_details = StopDetails()
        self._items_done = 0

    def _feed(self, payload: bytes) -> list[AnyResponseEvent]:
        if payload.strip() in {b"", b"[DONE]"}:
            return []
        read = read_message_event(payload)
        return [] if read is None else self._take(read)

    def _finish(self) -> list[AnyResponseEvent]:
        if self._stop_reason is None:
            raise self._cut_off("no `message_stop` came")
        return self._end()

    def _take(self, read: DecodedEvent[MessagesEvent]) -> list[AnyResponseEvent]:
        event = read.event
        match event.type:
            case "message_start":
                if self._begun or self._response_id or self._stop_reason:
                    raise UnreadableEvent("a message begins within another one")
                start = event.message or MessageStart()
                self._response_id = read.identifier(start.id or "")
                add_usage(self._usage, start.usage)
                return []
            case "message_delta":
                add_usage(self._usage, event.usage)
                if event.delta is not None:
                    self._stop_reason = event.delta.stop_reason or self._stop_reason
                    self._stop_details = event.delta.stop_details or self._stop_details
                return []
            case "message_stop":
                return self._end()
            case "error":
                raise SampleError(self._error_failure(event))
            case _ if self._stop_reason is not None:
                raise UnreadableEvent("a piece of the answer follows its stop reason")
            case _ if event.index is None:
                raise UnreadableEvent("a piece of the answer does not say of which block it is")
            case "content_block_start":
                return self._begin(event.index, read)
            case _ if event.index not in self._open:
                raise UnreadableEvent("a block goes on that has not begun, or has stopped")
            case "content_block_delta":
                return self._grow(self._open[event.index], read)
            case _:
                block = self._open.pop(event.index)
                return [] if block is None else self._close(block)

    def _begin(self, index: int, read: DecodedEvent[MessagesEvent]) -> list[AnyResponseEvent]:
        if index != self._begun:
            raise UnreadableEvent(f"block {index:,} came where block {self._begun:,} had to come")
        if (start := read.event.content_block) is None:
            raise UnreadableEvent("a block begins without saying as what")
        self._begun += 1
        if (kind := _KINDS.get(start.type)) is None:
            self._open[index] = None  # the server's own tools, which are never offered
            return []
        if kind == "function_call":
            own_id = read.identifier(start.id or "") or f"call_{self._new_id()}"
            block = _OpenBlock(start.type, own_id, self._size)
            block.name = read.identifier(start.name or "")
            if not block.name:
                raise UnreadableEvent("a call has no name")
            given = bytes(start.input)
            if given not in {b"null", b"{}"}:
                block.given = read.identifier(given.decode())
        else:
            prefix = "msg" if kind == "message" else "rs"
            block = _OpenBlock(start.type, f"{prefix}_{self._new_id()}", self._size)
        self._open[index] = block
        began = ResponseItemStarted(item_id=block.item_id, kind=kind)
        block.signature.add(read.text(start.signature or ""))
        block.body.add(read.text(start.data or ""))
        first = start.text if start.type == "text" else start.thinking
        return [began, *self._emit_text(block, read.text(first or ""))]

    def _grow(
        self, block: _OpenBlock | None, read: DecodedEvent[MessagesEvent]
    ) -> list[AnyResponseEvent]:
        if block is None:
            return []
        delta = read.event.delta
        if delta is None or delta.type not in (fields := DELTAS[block.kind]):
            raise UnreadableEvent(f"a block of kind {block.kind} cannot go on so")
        if (name := fields[delta.type]) is None:
            return []
        piece: str | None = getattr(delta, name)
        if piece is None:
            raise UnreadableEvent(f"a piece of a block has no `{name}`")
        if name == "signature":
            block.signature.add(read.text(piece))
            return []
        return self._emit_text(block, read.text(piece))

    def _emit_text(self, block: _OpenBlock, piece: str) -> list[AnyResponseEvent]:
        text = block.body.add(piece)
        if not text or block.kind == "tool_use":
            return []
        if block.kind == "text":
            return [ResponseTextDelta(item_id=block.item_id, text=text)]
        return [ResponseReasoningDelta(item_id=block.item_id, text=text)]

    def _close(self, block: _OpenBlock) -> list[AnyResponseEvent]:
        """The item of a stopped block; nothing if the block is empty, or is a call that must
        wait.
        """
        text, signature = block.body.whole(), block.signature.whole()
        item: AnyItem | None
        match block.kind:
            case "text":
                part = (OutputText(text=text),)
                item = Message(role="assistant", content=part, id=block.item_id) if text else None
            case "thinking":
                kept = Thinking(thinking=text, signature=signature)
                has_any = bool(text or signature)
                item = seal_block(kept, slug=self._slug, item_id=block.item_id) if has_any else None
            case "redacted_thinking":
                hidden = RedactedThinking(data=text)
                item = seal_block(hidden, slug=self._slug, item_id=block.item_id)
            case _ if not is_object(text or block.given or "{}"):
                self._unfinished_calls.append(block)
                return []
            case _:
                item = _call(block)
        return [] if item is None else self._done(item)

    def _done(self, item: AnyItem) -> list[AnyResponseEvent]:
        self._items_done += 1
        return [ResponseItemDone(item=item)]

    def _end(self) -> list[AnyResponseEvent]:
        if self._open:
            raise self._cut_off("a block of it did not stop")
        if self._stop_reason is None:
            raise self._cut_off("no stop reason came")
        events: list[AnyResponseEvent] = []
        reason = self._stop_reason
        truncated = reason in {"max_tokens", "model_context_window_exceeded"}
        if not truncated:
            for (
                block
            ) in self._unfinished_calls:  # complete, so the model is told what is wrong with it
                events += self._done(_call(block))
        if (failure := self._refusal(reason)) is not None:
            raise SampleError(failure)
        self.finished = True
        events.append(
            ResponseFinished(
                response_id=self._response_id,
                usage=to_token_usage(self._usage),
                end_turn=True if truncated else False if reason == "pause_turn" else None,
                truncated=truncated,
            )
        )
        return events

    def _refusal(self, reason: str | None) -> Failure | None:
        """Why a response that came to its end is a failure; None if it is not."""
        name = self._provider
        match reason:
            case "refusal":
                why = self._stop_details.explanation or self._stop_details.category or "no reason"
                text = f"{name}: the model declined to answer ({why}); change the task or the model"
                return Failure(kind="bad_request", message=text)  # earlier text does not count
            case "model_context_window_exceeded":
                text = f"{name}: the conversation filled the model's context window"
                return Failure(kind="context_window_exceeded", message=text)
            case "max_tokens" if not self._items_done:
                text = (
                    f"{name} stopped at its output limit before anything was said; raise "
                    f"`max_output_tokens` of {self._slug} in models.toml, or lower the effort"
                )
                return Failure(kind="incomplete", message=text)
            case _:
                return None

    def _error_failure(self, event: MessagesEvent) -> Failure:
        error = event.error or MessagesError()
        message = error.message or ""
        if event.request_id:
            message = f"{message} (request id: {event.request_id[:100]})"
        return classify_stream_error(
            ErrorBody(message=message, type=error.type or ""), provider=self._provider
        )


def _call(block: _OpenBlock) -> FunctionCall:
    arguments = block.body.whole() or block.given or "{}"
    return FunctionCall(call_id=block.item_id, name=block.name, arguments=arguments)

"""The event stream of the Messages wire → response events. Pure: payloads in, events out.

A block is an item, told when it stops, so that a call can start while the stream goes on. Only a
call whose input is not whole waits for the end: where the model was cut off, it is no call. The
response is complete with `message_stop`, or at an end of the stream after its stop reason.
"""

import msgspec

from swarm.mailbox.protocol.items import AnyItem, FunctionCall, Message, OutputText, TokenUsage

from .backend import (
    AnyResponseEvent,
    Failure,
    Finished,
    ItemDone,
    ItemStarted,
    NewId,
    ReasoningPiece,
    SampleError,
    TextPiece,
)
from .failures import ErrorBody, classify_stream_error, cut_off
from .payloads import decode_payload
from .thinking import RedactedThinking, Thinking, keep_block

_KINDS = {
    "text": "message",
    "thinking": "reasoning",
    "redacted_thinking": "reasoning",
    "tool_use": "function_call",
}
_KIND_OF_DELTA = {
    "text_delta": "text",
    "thinking_delta": "thinking",
    "signature_delta": "thinking",
}


class _Usage(msgspec.Struct):
    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_read_input_tokens: int | None = None
    cache_creation_input_tokens: int | None = None


class _Start(msgspec.Struct):
    id: str | None = None
    usage: _Usage | None = None


class _Block(msgspec.Struct):
    type: str = ""
    id: str | None = None
    name: str | None = None
    input: msgspec.Raw = msgspec.Raw(b"null")
    text: str | None = None
    thinking: str | None = None
    signature: str | None = None
    data: str | None = None


class _StopDetails(msgspec.Struct):
    category: str | None = None
    explanation: str | None = None


class _Delta(msgspec.Struct):
    type: str = ""
    text: str | None = None
    thinking: str | None = None
    signature: str | None = None
    partial_json: str | None = None
    stop_reason: str | None = None
    stop_details: _StopDetails | None = None


class _Error(msgspec.Struct):
    type: str | None = None
    message: str | None = None


class _Event(msgspec.Struct):
    """Every event is read as this; what an event does not have stays at its default."""

    type: str = ""
    index: int = 0
    message: _Start | None = None
    content_block: _Block | None = None
    delta: _Delta | None = None
    usage: _Usage | None = None
    error: _Error | None = None
    request_id: str | None = None


_decode = msgspec.json.Decoder(_Event).decode
_decode_object = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


class _Open:
    """A block that still arrives."""

    def __init__(self, kind: str, item_id: str, name: str = "") -> None:
        self.kind, self.item_id, self.name = kind, item_id, name
        self.pieces: list[str] = []  # text, thinking, input JSON, or redacted data
        self.signature = ""
        self.given = ""  # input that came whole with the start of the block

    @property
    def text(self) -> str:
        return "".join(self.pieces)


class MessagesStream:
    """One response. Feed payloads until `finished`; then stop reading."""

    def __init__(self, *, provider: str, slug: str, new_id: NewId) -> None:
        self._provider, self._slug, self._new_id = provider, slug, new_id
        self._response_id = ""
        self._usage = _Usage()
        self._open: dict[int, _Open] = {}  # by the wire's index
        self._held: list[_Open] = []  # calls whose input is not whole
        self._stop_reason: str | None = None
        self._stop_details = _StopDetails()
        self._items_done = 0
        self.unreadable = 0
        self.finished = False

    def feed(self, payload: bytes) -> list[AnyResponseEvent]:
        """The events that one payload brings. Raises SampleError for what ends the response."""
        if self.finished or payload.strip() in {b"", b"[DONE]"}:
            return []
        event = decode_payload(_decode, payload)
        if event is None:
            self.unreadable += 1
            return []
        return self._take(event)

    def finish(self) -> list[AnyResponseEvent]:
        """The stream has ended. Raises SampleError unless the response was complete."""
        if self.finished:
            return []
        if self._stop_reason is not None:
            return self._end()
        raise SampleError(
            cut_off(
                "final",
                provider=self._provider,
                why="no `message_stop` came",
                unreadable=self.unreadable,
            )
        )

    def _take(self, event: _Event) -> list[AnyResponseEvent]:
        match event.type:
            case "message_start" if event.message is not None:
                self._response_id = event.message.id or ""
                self._note_usage(event.message.usage)
                return []
            case "content_block_start" if event.content_block is not None:
                return self._begin(event.index, event.content_block)
            case "content_block_delta" if event.delta is not None:
                return self._grow(event.index, event.delta)
            case "content_block_stop":
                block = self._open.pop(event.index, None)
                return [] if block is None else self._close(block)
            case "message_delta":
                self._note_usage(event.usage)
                if event.delta is not None:
                    self._stop_reason = event.delta.stop_reason or self._stop_reason
                    self._stop_details = event.delta.stop_details or self._stop_details
                return []
            case "message_stop":
                return self._end()
            case "error":
                raise SampleError(self._told(event))
            case _:  # pings, and what does not exist yet
                return []

    def _begin(self, index: int, start: _Block) -> list[AnyResponseEvent]:
        if (kind := _KINDS.get(start.type)) is None:
            return []  # tools of the server: none is ever offered
        if kind == "function_call":
            block = _Open(start.type, start.id or f"call_{self._new_id()}", start.name or "")
            given = bytes(start.input)
            if given not in {b"null", b"{}"}:
                block.given = given.decode("utf-8", "replace")
        else:
            prefix = "msg" if kind == "message" else "rs"
            block = _Open(start.type, f"{prefix}_{self._new_id()}")
        self._open[index] = block
        events: list[AnyResponseEvent] = [ItemStarted(item_id=block.item_id, kind=kind)]
        first = _Delta(text=start.text, thinking=start.thinking, signature=start.signature)
        block.pieces += [start.data] if start.data else []
        return events + self._add(block, first)

    def _grow(self, index: int, delta: _Delta) -> list[AnyResponseEvent]:
        block = self._open.get(index)
        events: list[AnyResponseEvent] = []
        if block is None:  # a server that begins without saying so
            if (kind := _KIND_OF_DELTA.get(delta.type)) is None:
                return []
            events = self._begin(index, _Block(type=kind))
            block = self._open[index]
        return events + self._add(block, delta)

    def _add(self, block: _Open, delta: _Delta) -> list[AnyResponseEvent]:
        block.signature += delta.signature or ""
        if delta.partial_json and block.kind == "tool_use":
            block.pieces.append(delta.partial_json)
        if delta.text and block.kind == "text":
            block.pieces.append(delta.text)
            return [TextPiece(item_id=block.item_id, text=delta.text)]
        if delta.thinking and block.kind == "thinking":
            block.pieces.append(delta.thinking)
            return [ReasoningPiece(item_id=block.item_id, text=delta.thinking)]
        return []

    def _close(self, block: _Open) -> list[AnyResponseEvent]:
        """The item of a block that stopped, unless it holds nothing, or must wait."""
        text = block.text
        item: AnyItem | None
        match block.kind:
            case "text":
                part = (OutputText(text=text),)
                item = Message(role="assistant", content=part, id=block.item_id) if text else None
            case "thinking":
                kept = Thinking(thinking=text, signature=block.signature)
                has_any = bool(text or block.signature)
                item = keep_block(kept, slug=self._slug, item_id=block.item_id) if has_any else None
            case "redacted_thinking":
                hidden = RedactedThinking(data=text)
                item = keep_block(hidden, slug=self._slug, item_id=block.item_id)
            case _ if not block.name:
                item = None
            case _ if not is_object(text or block.given or "{}"):
                self._held.append(block)
                return []
            case _:
                item = _call(block)
        return [] if item is None else self._done(item)

    def _done(self, item: AnyItem) -> list[AnyResponseEvent]:
        self._items_done += 1
        return [ItemDone(item=item)]

    def _end(self) -> list[AnyResponseEvent]:
        if self.finished:
            return []
        events: list[AnyResponseEvent] = []
        for index in sorted(self._open):
            events += self._close(self._open.pop(index))
        reason = self._stop_reason
        truncated = reason in {"max_tokens", "model_context_window_exceeded"}
        if not truncated:
            for block in self._held:  # the model wrote it so: it is told what is wrong with it
                events += self._done(_call(block))
        if (failure := self._refusal(reason)) is not None:
            raise SampleError(failure)
        self.finished = True
        events.append(
            Finished(
                response_id=self._response_id,
                usage=_sum(self._usage),
                end_turn=True if truncated else False if reason == "pause_turn" else None,
                truncated=truncated,
            )
        )
        return events

    def _refusal(self, reason: str | None) -> Failure | None:
        """Why a response that came to its end is none."""
        name = self._provider
        match reason:
            case "refusal":
                why = self._stop_details.explanation or self._stop_details.category or "no reason"
                text = f"{name}: the model declined to answer ({why}); change the task or the model"
                return Failure(kind="bad_request", message=text)  # words before it are no answer
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

    def _note_usage(self, usage: _Usage | None) -> None:
        """Counts are totals so far; an event that leaves one out does not change it."""
        for name in _Usage.__struct_fields__:
            if usage is not None and (value := getattr(usage, name)) is not None:
                setattr(self._usage, name, value)

    def _told(self, event: _Event) -> Failure:
        error = event.error or _Error()
        message = error.message or ""
        if event.request_id:
            message = f"{message} (request id: {event.request_id[:100]})"
        return classify_stream_error(
            ErrorBody(message=message, type=error.type or ""), provider=self._provider
        )


def is_object(text: str) -> bool:
    """True if the text is one JSON object."""
    try:
        _decode_object(text.encode("utf-8", "replace"))
    except (msgspec.DecodeError, UnicodeDecodeError):
        return False
    return True


def _call(block: _Open) -> FunctionCall:
    arguments = block.text or block.given or "{}"
    return FunctionCall(call_id=block.item_id, name=block.name, arguments=arguments)


def _sum(usage: _Usage) -> TokenUsage:
    """All input counts as input here; on the wire the cached tokens stand apart from it."""
    read, written = usage.cache_read_input_tokens or 0, usage.cache_creation_input_tokens or 0
    made = usage.output_tokens or 0
    whole = (usage.input_tokens or 0) + read + written
    return TokenUsage(
        input_tokens=whole,
        cached_input_tokens=read,
        cache_write_input_tokens=written,
        output_tokens=made,
        total_tokens=whole + made,
    )

"""The event stream of the Responses wire → response events. Pure: payloads in, events out.

`response.output_item.done` is authoritative; deltas are for people. Unknown events are ignored,
lines that cannot be read are skipped and counted. What ends the response early is a SampleError.
"""

import msgspec

from swarm.mailbox.protocol.items import (
    AnyItem,
    Compaction,
    CustomToolCall,
    FunctionCall,
    Message,
    OutputText,
    Phase,
    Reasoning,
    TokenUsage,
)

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


class _Part(msgspec.Struct):
    type: str = ""
    text: str | None = None
    refusal: str | None = None


class _Item(msgspec.Struct):
    type: str = ""
    id: str | None = None
    role: str | None = None
    phase: str | None = None
    content: tuple[_Part, ...] | None = None
    summary: tuple[_Part, ...] | None = None
    encrypted_content: str | None = None
    call_id: str | None = None
    name: str | None = None
    arguments: msgspec.Raw = msgspec.Raw(b'""')
    input: str | None = None


class _Details(msgspec.Struct):
    cached_tokens: int | None = None
    reasoning_tokens: int | None = None


class _Usage(msgspec.Struct):
    input_tokens: int = 0
    output_tokens: int = 0
    total_tokens: int = 0
    input_tokens_details: _Details | None = None
    output_tokens_details: _Details | None = None


class _Error(msgspec.Struct):
    message: str | None = None
    code: str | int | None = None
    type: str | None = None


class _Incomplete(msgspec.Struct):
    reason: str | None = None


class _Response(msgspec.Struct):
    id: str | None = None
    usage: _Usage | None = None
    end_turn: bool | None = None
    error: _Error | None = None
    incomplete_details: _Incomplete | None = None
    output: msgspec.Raw = msgspec.Raw(b"null")


class _Event(msgspec.Struct):
    """Every event is read as this; what an event does not have stays at its default."""

    type: str = ""
    delta: str | None = None
    item_id: str | None = None
    item: _Item | None = None
    response: _Response | None = None
    summary_index: int | None = None
    error: _Error | None = None  # of an `error` event, in one of two shapes
    code: str | int | None = None
    message: str | None = None


_decode = msgspec.json.Decoder(_Event).decode
_decode_items = msgspec.json.Decoder(tuple[_Item, ...] | None).decode
_decode_text = msgspec.json.Decoder(str).decode
_PHASES: dict[str, Phase] = {"commentary": "commentary", "final_answer": "final_answer"}


class ResponsesStream:
    """One response. Feed payloads until `finished`; then stop reading."""

    def __init__(self, *, provider: str, new_id: NewId) -> None:
        self._provider, self._new_id = provider, new_id
        self._active = ""  # the item that deltas without an id belong to
        self._items_done = 0
        self.unreadable = 0
        self.finished = False

    def feed(self, payload: bytes) -> list[AnyResponseEvent]:
        """The events that one payload brings. Raises SampleError for what ends the response."""
        if payload == b"[DONE]":
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
        raise SampleError(
            cut_off(
                "final",
                provider=self._provider,
                why="no `response.completed` came",
                unreadable=self.unreadable,
            )
        )

    def _take(self, event: _Event) -> list[AnyResponseEvent]:
        match event.type:
            case "response.output_text.delta" if event.delta:
                return [TextPiece(item_id=event.item_id or self._active, text=event.delta)]
            case "response.reasoning_summary_text.delta" | "response.reasoning_text.delta" if (
                event.delta
            ):
                return [ReasoningPiece(item_id=event.item_id or self._active, text=event.delta)]
            case "response.reasoning_summary_part.added" if event.summary_index:
                return [ReasoningPiece(item_id=event.item_id or self._active, text="\n\n")]
            case "response.output_item.added" if event.item is not None:
                self._active = event.item.id or self._new_id()
                return [ItemStarted(item_id=self._active, kind=event.item.type)]
            case "response.output_item.done" if event.item is not None:
                return self._done(event.item)
            case "response.completed" | "response.done":
                return self._completed(event.response or _Response())
            case "response.failed" | "response.incomplete" | "error":
                raise SampleError(self._told(event))
            case _:
                return []

    def _done(self, item: _Item) -> list[AnyResponseEvent]:
        whole = self._whole(item)
        if whole is None:
            return []
        self._items_done += 1
        return [ItemDone(item=whole)]

    def _completed(self, response: _Response) -> list[AnyResponseEvent]:
        events: list[AnyResponseEvent] = []
        if not self._items_done:  # some servers tell their items only here
            try:
                items = _decode_items(response.output) or ()
            except (msgspec.DecodeError, UnicodeDecodeError):
                items = ()
            for item in items:
                events += self._done(item)
        self.finished = True
        usage = None if response.usage is None else _sum(response.usage)
        events.append(
            Finished(response_id=response.id or "", usage=usage, end_turn=response.end_turn)
        )
        return events

    def _told(self, event: _Event) -> Failure:
        response = event.response or _Response()
        if event.type == "response.incomplete":
            details = response.incomplete_details
            reason = (details.reason if details else None) or "no reason given"
            text = f"{self._provider} ended the response early: {reason}"
            return Failure(kind="incomplete", message=text)
        error = response.error or event.error or _Error(message=event.message, code=event.code)
        code = "" if error.code is None else str(error.code)
        body = ErrorBody(message=error.message or "", code=code, type=error.type or "")
        return classify_stream_error(body, provider=self._provider)

    def _whole(self, item: _Item) -> AnyItem | None:
        """The item as the history keeps it; None for kinds that we do not know."""
        match item.type:
            case "message":
                parts = item.content or ()
                texts = (part.text if part.text is not None else part.refusal for part in parts)
                content = tuple(OutputText(text=text) for text in texts if text is not None)
                phase = _PHASES.get(item.phase or "")
                return Message(
                    role="assistant", content=content, phase=phase, id=item.id or self._active
                )
            case "reasoning":
                return Reasoning(
                    summary=_texts(item.summary),
                    content=_texts(item.content),
                    encrypted_content=item.encrypted_content,
                    id=item.id,
                )
            case "function_call" if item.name:
                return FunctionCall(
                    call_id=item.call_id or f"call_{self._new_id()}",
                    name=item.name,
                    arguments=_arguments(item.arguments),
                    id=item.id,
                )
            case "custom_tool_call" if item.name:
                return CustomToolCall(
                    call_id=item.call_id or f"call_{self._new_id()}",
                    name=item.name,
                    input=item.input or "",
                    id=item.id,
                )
            case "compaction" | "compaction_summary" if item.encrypted_content:
                return Compaction(encrypted_content=item.encrypted_content, id=item.id)
            case _:
                return None


def _texts(parts: tuple[_Part, ...] | None) -> tuple[str, ...]:
    return tuple(part.text for part in parts or () if part.text)


def _arguments(raw: msgspec.Raw) -> str:
    """A JSON string as the wire has it; some servers send the object itself."""
    text = bytes(raw)
    try:
        return _decode_text(text) if text.startswith(b'"') else text.decode("utf-8", "replace")
    except (msgspec.DecodeError, UnicodeDecodeError):
        return text.decode("utf-8", "replace")


def read_usage(raw: bytes) -> TokenUsage | None:
    """A `usage` object of this wire; None for anything else."""
    try:
        return _sum(msgspec.json.decode(raw, type=_Usage))
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


def _sum(usage: _Usage) -> TokenUsage:
    read, made = usage.input_tokens_details, usage.output_tokens_details
    return TokenUsage(
        input_tokens=usage.input_tokens,
        cached_input_tokens=(read.cached_tokens if read else None) or 0,
        output_tokens=usage.output_tokens,
        reasoning_output_tokens=(made.reasoning_tokens if made else None) or 0,
        total_tokens=usage.total_tokens or usage.input_tokens + usage.output_tokens,
    )

"""Decode the Responses event stream: payloads in, response events out. No I/O.

`response.output_item.done` is authoritative; deltas are for people. Events of other types are
skipped, as the wire allows. A used event that cannot be read cuts the stream (wire_stream.py), and
so does an end before all begun items were complete.
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
    NewId,
    ResponseFinished,
    ResponseItemDone,
    ResponseItemStarted,
    ResponseReasoningDelta,
    ResponseTextDelta,
    SampleError,
)
from .event_payloads import DecodedEvent, UnreadableEvent, describe_decode_error, read_event
from .failures import ErrorBody, classify_stream_error
from .text_accumulator import TextAccumulator
from .wire_stream import WireStream


class _Part(msgspec.Struct):
    type: str = ""
    text: str | None = None
    refusal: str | None = None


class _Item(msgspec.Struct):
    type: str = ""
    id: str | None = None
    role: str | None = None
    status: str | None = None
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
    usage: msgspec.Raw = msgspec.Raw(b"null")  # not part of the answer: decoded separately
    end_turn: bool | None = None
    error: _Error | None = None
    incomplete_details: _Incomplete | None = None
    output: msgspec.Raw = msgspec.Raw(b"null")


class _Event(msgspec.Struct):
    """Every event is decoded as this struct; absent fields keep their defaults."""

    type: str = ""
    delta: str | None = None
    item_id: str | None = None
    item: _Item | None = None
    response: _Response | None = None
    summary_index: int | None = None
    error: _Error | None = None  # the error of an `error` event, in one of two forms
    code: str | int | None = None
    message: str | None = None


class _AnyEvent(msgspec.Struct):
    type: str


_decode = msgspec.json.Decoder(_Event).decode
_decode_type = msgspec.json.Decoder(_AnyEvent).decode
_decode_items = msgspec.json.Decoder(tuple[_Item, ...] | None).decode
_decode_usage = msgspec.json.Decoder(_Usage | None).decode
_decode_text = msgspec.json.Decoder(str).decode
_PHASES: dict[str, Phase] = {"commentary": "commentary", "final_answer": "final_answer"}
_REASONING = frozenset({"response.reasoning_summary_text.delta", "response.reasoning_text.delta"})
_USED = _REASONING | {
    *("response.output_text.delta", "response.reasoning_summary_part.added", "error"),
    *("response.output_item.added", "response.output_item.done", "response.completed"),
    *("response.done", "response.failed", "response.incomplete"),
}
_ALIVE = frozenset({"response.in_progress", "response.queued", "keepalive", "ping"})
_OUTPUT_KINDS = frozenset(
    {"message", "function_call", "custom_tool_call"}
)  # the kinds of items that an answer consists of
_CALLS = frozenset({"function_call", "custom_tool_call"})


class ResponsesStream(WireStream):
    """One response."""

    def __init__(self, *, provider: str, new_id: NewId) -> None:
        super().__init__(provider=provider, new_id=new_id)
        self._active = ""  # the item of deltas without an id
        self._shown: dict[str, TextAccumulator] = {}  # by item: the text of its deltas
        self._begun = self._outputs_completed = 0  # items of _OUTPUT_KINDS
        self._items_done = 0
        self._progress = 0  # events with content, including skipped ones

    @property
    def progress(self) -> int:
        return self._progress

    def _feed(self, payload: bytes) -> list[AnyResponseEvent]:
        if payload.strip() in {b"", b"[DONE]"}:
            return []
        kind = read_event(_decode_type, payload).event.type
        self._progress += kind not in _ALIVE
        return self._take(read_event(_decode, payload)) if kind in _USED else []

    def _finish(self) -> list[AnyResponseEvent]:
        raise self._cut_off("no `response.completed` came")

    def _take(self, read: DecodedEvent[_Event]) -> list[AnyResponseEvent]:
        event = read.event
        match event.type:
            case "response.output_text.delta":
                item_id, text = self._show(read)
                return [ResponseTextDelta(item_id=item_id, text=text)] if text else []
            case kind if kind in _REASONING:
                item_id, text = self._show(read)
                return [ResponseReasoningDelta(item_id=item_id, text=text)] if text else []
            case "response.reasoning_summary_part.added":
                item_id = read.identifier(event.item_id or self._active)
                return (
                    [ResponseReasoningDelta(item_id=item_id, text="\n\n")]
                    if event.summary_index
                    else []
                )
            case "response.output_item.added":
                if event.item is None:
                    raise UnreadableEvent("an item begins without saying as what")
                self._begun += event.item.type in _OUTPUT_KINDS
                self._active = read.identifier(event.item.id or "") or self._new_id()
                return [
                    ResponseItemStarted(item_id=self._active, kind=read.identifier(event.item.type))
                ]
            case "response.output_item.done":
                if event.item is None or read.has_halves:
                    raise UnreadableEvent("an item was told without being whole")
                return self._done(event.item)
            case "response.completed" | "response.done":
                if read.has_halves:
                    raise UnreadableEvent("half a character stands alone")
                return self._completed(event.response or _Response())
            case _:
                raise SampleError(self._error_failure(event))

    def _show(self, read: DecodedEvent[_Event]) -> tuple[str, str]:
        """The item id of a delta, and the text it adds. Raises UnreadableEvent and
        ResponseTooLong.
        """
        event = read.event
        if event.delta is None:
            raise UnreadableEvent("a piece of an item holds no text")
        item_id = read.identifier(event.item_id or self._active)
        text = self._shown.setdefault(item_id, TextAccumulator(self._size))
        return item_id, text.add(read.text(event.delta))

    def _done(self, item: _Item) -> list[AnyResponseEvent]:
        self._outputs_completed += item.type in _OUTPUT_KINDS
        if item.type in _CALLS and item.status == "incomplete":
            return []  # the model was stopped in the middle of the call
        whole = self._whole(item)
        if whole is None:
            return []
        self._items_done += 1
        return [ResponseItemDone(item=whole)]

    def _completed(self, response: _Response) -> list[AnyResponseEvent]:
        events: list[AnyResponseEvent] = []
        if not self._items_done:  # some servers send their items only here
            for item in _read_items(response.output):
                events += self._done(item)
        if self._begun > self._outputs_completed:
            raise UnreadableEvent("an item of the response never came whole")
        self.finished = True
        usage = read_usage(bytes(response.usage))
        events.append(
            ResponseFinished(response_id=response.id or "", usage=usage, end_turn=response.end_turn)
        )
        return events

    def _error_failure(self, event: _Event) -> Failure:
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
        """The item for the history; None for unknown kinds."""
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
            case "function_call":
                return FunctionCall(
                    call_id=item.call_id or f"call_{self._new_id()}",
                    name=_name(item),
                    arguments=_arguments(item.arguments),
                    id=item.id,
                )
            case "custom_tool_call":
                if item.input is None:
                    raise UnreadableEvent("a call has no input")
                return CustomToolCall(
                    call_id=item.call_id or f"call_{self._new_id()}",
                    name=_name(item),
                    input=item.input,
                    id=item.id,
                )
            case "compaction" | "compaction_summary" if item.encrypted_content:
                return Compaction(encrypted_content=item.encrypted_content, id=item.id)
            case _:
                return None


def _texts(parts: tuple[_Part, ...] | None) -> tuple[str, ...]:
    return tuple(part.text for part in parts or () if part.text)


def _name(item: _Item) -> str:
    if not item.name:
        raise UnreadableEvent("a call has no name")
    return item.name


def _arguments(raw: msgspec.Raw) -> str:
    """The text of a JSON string; some servers send the object itself. Raises UnreadableEvent."""
    data = bytes(raw)
    if data.startswith(b'"'):
        return _decode_text(data)
    if not data.startswith(b"{"):
        raise UnreadableEvent("arguments are neither text nor an object")
    return data.decode()


def _read_items(raw: msgspec.Raw) -> tuple[_Item, ...]:
    """The items that the end of a response repeats. Raises UnreadableEvent."""
    try:
        return _decode_items(raw) or ()
    except msgspec.DecodeError as error:
        raise UnreadableEvent(describe_decode_error(error)) from None


def read_usage(raw: bytes) -> TokenUsage | None:
    """A `usage` object of this wire; None for anything else."""
    try:
        usage = _decode_usage(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return None if usage is None else _sum(usage)


def _sum(usage: _Usage) -> TokenUsage:
    read, made = usage.input_tokens_details, usage.output_tokens_details
    return TokenUsage(
        input_tokens=usage.input_tokens,
        cached_input_tokens=(read.cached_tokens if read else None) or 0,
        output_tokens=usage.output_tokens,
        reasoning_output_tokens=(made.reasoning_tokens if made else None) or 0,
        total_tokens=usage.total_tokens or usage.input_tokens + usage.output_tokens,
    )

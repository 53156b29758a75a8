"""Decode the Responses event stream, and the answer of a compaction. No I/O.

`response.output_item.done` is authoritative; what it leaves out is taken from the deltas. A used
event that cannot be read cuts the stream (wire_stream.py), and so does an end before all begun
items were complete. Where a server tells no item as whole, the items that its last event repeats
are the answer, or else what the deltas said.
"""

import msgspec

from swarm.mailbox.base.bounded_formats import depth_checked
from swarm.mailbox.protocol.items import (
    AnyCall,
    AnyItem,
    Compaction,
    CustomToolCall,
    FunctionCall,
    Message,
    OutputText,
    Phase,
    ProviderItem,
    Reasoning,
    text_of,
)

from .arriving_items import ArrivingItem, ArrivingItems, untold
from .backend import (
    AnyResponseEvent,
    Failure,
    NewId,
    ResponseFinished,
    ResponseItemDone,
    SampleError,
)
from .failures import ErrorFields
from .fit.call_ids import is_portable_id
from .leading_thought import LeadingThought, split_thought
from .opaque_fields import OpaqueFields
from .responses_request import LOCAL_CALL
from .sse import (
    DecodedEvent,
    UnreadableEvent,
    describe_decode_error,
)
from .token_usage import read_usage
from .wire_stream import WireStream


class _Part(msgspec.Struct):
    type: str = ""
    text: str | None = None
    refusal: str | None = None


class _Item(msgspec.Struct):
    type: str = ""
    id: str | int | None = None
    role: str | None = None
    status: str | None = None
    phase: str | None = None
    content: tuple[_Part | str, ...] | str | None = None
    summary: tuple[_Part | str, ...] | str | None = None
    encrypted_content: str | None = None
    call_id: str | int | None = None
    name: str | None = None
    arguments: msgspec.Raw = msgspec.Raw(b'""')
    input: str | None = None


class _Incomplete(msgspec.Struct):
    reason: str | None = None


class _Response(msgspec.Struct):
    id: str | int | None = None
    model: msgspec.Raw = msgspec.Raw(b"null")  # not part of the answer: decoded separately
    usage: msgspec.Raw = msgspec.Raw(b"null")  # not part of the answer: decoded separately
    end_turn: bool | None = None
    error: ErrorFields | None = None
    incomplete_details: _Incomplete | None = None
    output: msgspec.Raw = msgspec.Raw(b"null")
    status: str | None = None


class _Event(msgspec.Struct):
    """Every event is decoded as this struct; absent fields keep their defaults."""

    type: str = ""
    delta: str | msgspec.UnsetType | None = msgspec.UNSET
    text: str | None = None  # of the event that ends a text
    arguments: msgspec.Raw = msgspec.Raw(b"null")  # of the event that ends a call's arguments
    input: str | None = None
    item_id: str | int | None = None
    item: msgspec.Raw = msgspec.Raw(b"null")  # an _Item
    response: _Response | None = None
    summary_index: int | str | None = None
    usage: msgspec.Raw = msgspec.Raw(b"null")  # some servers send it beside the response


class _Compacted(msgspec.Struct):
    id: str = ""
    output: tuple[_Item, ...] = ()
    usage: msgspec.Raw = msgspec.Raw(b"null")


_FIRST = (None, 0, "", "0")
_decode = depth_checked(msgspec.json.Decoder(_Event).decode)
_decode_item = depth_checked(msgspec.json.Decoder(_Item | None).decode)
_decode_items = depth_checked(msgspec.json.Decoder(tuple[msgspec.Raw, ...] | None).decode)
_decode_compacted = depth_checked(msgspec.json.Decoder(_Compacted).decode)
_decode_text = depth_checked(msgspec.json.Decoder(str).decode)
_decode_fields = depth_checked(msgspec.json.Decoder(dict[str, msgspec.Raw]).decode)
_encode = msgspec.json.Encoder().encode
_PHASES: dict[str, Phase] = {"commentary": "commentary", "final_answer": "final_answer"}
_KEEPALIVES = frozenset({"response.in_progress", "response.queued", "keepalive", "ping"})
_CALLS = frozenset({"function_call", "custom_tool_call"})
_OUTPUT_KINDS = _CALLS | {"message"}  # the kinds of items that an answer consists of
_COMPACTIONS = frozenset({"compaction", "compaction_summary"})
_USED_KINDS = _OUTPUT_KINDS | _COMPACTIONS | {"reasoning"}
_MOST_PROVIDER_ITEM_BYTES = 256 * 1024


class ResponsesStream(WireStream[_Event]):
    """One response.

    Args:
        provider: Its name, for texts.
        provider_id: Stands in the items that only this provider knows.
    """

    def __init__(self, *, provider: str, new_id: NewId, provider_id: str = "") -> None:
        handlers = {
            "response.output_text.delta": self._take_text,
            "response.output_text.done": self._take_text_end,
            "response.refusal.delta": self._take_text,
            "response.function_call_arguments.delta": self._take_arguments,
            "response.function_call_arguments.done": self._take_arguments_end,
            "response.custom_tool_call_input.delta": self._take_input,
            "response.custom_tool_call_input.done": self._take_input_end,
            "response.reasoning_summary_text.delta": self._take_reasoning,
            "response.reasoning_text.delta": self._take_reasoning,
            "response.reasoning_summary_part.added": self._take_summary_part,
            "response.output_item.added": self._take_item_added,
            "response.output_item.done": self._take_item_done,
            "response.completed": self._take_completed,
            "response.done": self._take_completed,
            "response.failed": self._take_failed,
            "response.cancelled": self._take_failed,
            "response.incomplete": self._take_incomplete,
        }
        super().__init__(_decode, handlers, provider=provider, new_id=new_id)
        self._provider_id = provider_id
        self._arriving = ArrivingItems(self._size)
        self._leading: dict[str, LeadingThought] = {}  # by item, while its deltas arrive
        self._outputs = 0  # messages and calls that were whole

    def _has_content(self, kind: str) -> bool:
        return kind not in _KEEPALIVES

    def _end(self) -> None:
        raise self._cut_off("no `response.completed` came")

    def _take_end_mark(self) -> None:
        """Where no event says that the response is complete, whole items and this mark do."""
        has_answer = bool(_OUTPUT_KINDS & self._arriving.told.keys())
        if has_answer and not self._arriving.unfinished(_OUTPUT_KINDS):
            self._emit_finished("", None)

    def _take_text(self, read: DecodedEvent[_Event]) -> None:
        item_id, text = self._show(read, "message")
        thought, text = self._leading.setdefault(item_id, LeadingThought()).feed(text)
        self._emit_reasoning(item_id, thought)
        self._emit_text(item_id, text)

    def _take_reasoning(self, read: DecodedEvent[_Event]) -> None:
        self._emit_reasoning(*self._show(read, "reasoning"))

    def _take_arguments(self, read: DecodedEvent[_Event]) -> None:
        self._show(read, "function_call")

    def _take_input(self, read: DecodedEvent[_Event]) -> None:
        self._show(read, "custom_tool_call")

    def _take_text_end(self, read: DecodedEvent[_Event]) -> None:
        self._end_text(read, "message", read.event.text or "")

    def _take_arguments_end(self, read: DecodedEvent[_Event]) -> None:
        self._end_text(read, "function_call", _arguments(read.event.arguments))

    def _take_input_end(self, read: DecodedEvent[_Event]) -> None:
        self._end_text(read, "custom_tool_call", read.event.input or "")

    def _end_text(self, read: DecodedEvent[_Event], kind: str, whole: str) -> None:
        """A text has ended; some servers say here alone what it is."""
        pieces = self._arriving.of(self._id_of(read), kind).pieces
        if not pieces:
            pieces.add(read.text(whole))

    def _id_of(self, read: DecodedEvent[_Event]) -> str:
        return read.identifier(str(read.event.item_id or self._arriving.active))

    def _take_summary_part(self, read: DecodedEvent[_Event]) -> None:
        item_id = self._id_of(read)
        self._emit_reasoning(item_id, "\n\n" if read.event.summary_index not in _FIRST else "")

    def _take_item_added(self, read: DecodedEvent[_Event]) -> None:
        item = _read_item(read.event.item)
        if item is None:
            raise UnreadableEvent("an item begins without saying as what")
        item_id = read.identifier(_id_text(item)) or self._new_id()
        kind, name = read.identifier(item.type), read.identifier(item.name or "")
        begun = self._arriving.begin(item_id, kind)
        begun.name, begun.call_id = name or begun.name, item.call_id or begun.call_id
        self._emit_started(item_id, kind, name)

    def _take_item_done(self, read: DecodedEvent[_Event]) -> None:
        raw = read.event.item
        if (item := _read_item(raw)) is None or read.has_halves:
            raise UnreadableEvent("an item was told without being whole")
        if not self._arriving.was_told(_id_text(item), item.type):
            self._complete_item(item, raw)

    def _take_completed(self, read: DecodedEvent[_Event]) -> None:
        if read.has_halves:
            raise UnreadableEvent("half a character stands alone")
        response = read.event.response or _Response()
        self._note_model(response.model)
        if response.status in {"failed", "cancelled"}:
            self._take_failed(read)
        if response.status == "incomplete":
            self._take_incomplete(read)
            return
        self._take_the_rest(response)
        self._finish(read, is_cut=False)

    def _take_the_rest(self, response: _Response) -> None:
        """The items that were not told before the end. Raises UnreadableEvent."""
        items = [(_read_item(raw) or _Item(), raw) for raw in _read_items(response.output)]
        kinds = [(item.type, raw) for item, raw in items]
        for raw in untold(kinds, self._arriving.told):
            self._complete_item(_read_item(raw) or _Item(), raw)
        if not self._arriving.told:
            self._take_pieces()
        if self._arriving.unfinished(_OUTPUT_KINDS):
            raise UnreadableEvent("an item of the response never came whole")

    def _take_pieces(self) -> None:
        """No item was told as whole: the deltas are the answer. Raises UnreadableEvent."""
        for item in self._arriving.told_in_pieces(_OUTPUT_KINDS):
            if not item.is_whole() or (item.kind in _CALLS and not item.name):
                raise UnreadableEvent("an item of the response never came whole")
            names = {"type": item.kind, "id": item.item_id, "name": item.name}
            raw = msgspec.Raw(_encode(names | {"call_id": item.call_id}))
            self._complete_item(_read_item(raw) or _Item(), raw)

    def _finish(self, read: DecodedEvent[_Event], *, is_cut: bool) -> None:
        response = read.event.response or _Response()
        usage = read_usage(response.usage) or read_usage(read.event.usage)
        end_turn = True if is_cut else response.end_turn
        self._emit_finished(str(response.id or ""), usage, end_turn=end_turn, truncated=is_cut)

    def _take_incomplete(self, read: DecodedEvent[_Event]) -> None:
        """The model was stopped. What was whole by then is kept, as on the other wires."""
        details = (read.event.response or _Response()).incomplete_details
        reason = (details.reason if details else None) or "no reason given"
        if not self._outputs:
            raise self._incomplete(f"{self._provider} ended the response early: {reason}")
        self._finish(read, is_cut=True)

    def _take_failed(self, read: DecodedEvent[_Event]) -> None:
        raise self._failed((read.event.response or _Response()).error or ErrorFields())

    def _show(self, read: DecodedEvent[_Event], kind: str) -> tuple[str, str]:
        """The item id of a delta, and the text it adds. Raises UnreadableEvent and
        ResponseTooLong.
        """
        item_id, delta = self._id_of(read), read.event.delta
        if delta is msgspec.UNSET:
            raise UnreadableEvent("a piece of an item holds no text")
        pieces = self._arriving.of(item_id, kind).pieces
        return item_id, pieces.add(read.text(delta or ""))

    def _complete_item(self, item: _Item, raw: msgspec.Raw) -> None:
        item_id = _id_text(item) or self._arriving.active
        arrived = self._arriving.take(_id_text(item), item.type, item.call_id)
        if arrived is not None:
            item = _filled_up(item, arrived)
        shown = self._leading.pop(item_id, None)
        if shown is not None and not shown.is_open:
            self._emit_text(item_id, shown.finish()[1])
        if item.type in _CALLS and item.status == "incomplete":
            return  # the model was stopped in the middle of the call
        whole = self._whole(item, raw) or self._provider_item(item, raw)
        if isinstance(whole, Message):
            whole = self._without_thought(whole)
        if whole is not None:
            self._outputs += isinstance(whole, Message | FunctionCall | CustomToolCall)
            self._emit_item(whole)

    def _without_thought(self, message: Message) -> Message | None:
        """The message, if it says more; a thought that it begins with is an item of its own."""
        first = next((part.text for part in message.content if isinstance(part, OutputText)), "")
        thought, text = split_thought(first)
        if text == first:
            return message
        if thought.strip():
            origin = self._origin_with("", is_needed=True)
            self._emit_item(Reasoning(content=(thought,), id=f"rs_{self._new_id()}", origin=origin))
        parts = (OutputText(text=text), *message.content[1:])
        if not text_of(parts):
            return None
        return msgspec.structs.replace(message, content=parts)

    def _whole(self, item: _Item, raw: msgspec.Raw) -> AnyItem | None:
        """The item for the history; None for unknown kinds."""
        match item.type:
            case "message":
                parts = _parts(item.content)
                texts = (part.text if part.text is not None else part.refusal for part in parts)
                content = tuple(OutputText(text=text) for text in texts if text is not None)
                phase = _PHASES.get(item.phase or "")
                item_id = _id_text(item) or self._arriving.active
                return Message(role="assistant", content=content, phase=phase, id=item_id)
            case "reasoning":
                return Reasoning(
                    summary=_texts(_parts(item.summary)),
                    content=_texts(_parts(item.content)),
                    encrypted_content=item.encrypted_content,
                    id=_id_text(item) or None,
                    origin=self._origin_with(_more_fields(raw), is_needed=True),
                )
            case "function_call" | "custom_tool_call":
                return self._whole_call(item, raw)
            case kind if kind in _COMPACTIONS and item.encrypted_content:
                return Compaction(
                    encrypted_content=item.encrypted_content, id=_id_text(item) or None
                )
            case _:
                return None

    def _whole_call(self, item: _Item, raw: msgspec.Raw) -> AnyCall:
        given_id = "" if item.call_id is None else str(item.call_id)
        call_id, name = given_id or f"call_{self._new_id()}", _name(item)
        item_id = _id_text(item) or None
        origin = self._origin_with(_more_fields(raw), is_needed=not is_portable_id(call_id))
        if item.type == "function_call":
            arguments = _arguments(item.arguments)
            return FunctionCall(
                call_id=call_id, name=name, arguments=arguments, id=item_id, origin=origin
            )
        if item.input is None:
            raise UnreadableEvent("a call has no input")
        return CustomToolCall(
            call_id=call_id, name=name, input=item.input, id=item_id, origin=origin
        )

    def _provider_item(self, item: _Item, raw: msgspec.Raw) -> ProviderItem | None:
        """An item of a kind that is not used here. None: it says nothing to the provider later, or
        is a call that waits for an output which nobody can give.
        """
        kind, data = item.type, bytes(raw)
        is_used = not kind or kind in _USED_KINDS or kind.endswith("_output")
        waits = item.call_id is not None and kind != LOCAL_CALL
        if is_used or waits or len(data) > _MOST_PROVIDER_ITEM_BYTES:
            return None
        return ProviderItem(
            kind=kind, provider=self._provider_id, json=data.decode(), id=_id_text(item) or None
        )


def _more_fields(raw: msgspec.Raw) -> str:
    """The fields of an item that are not used here, as a JSON object; "" if there are none."""
    fields = OpaqueFields()
    fields.add(_decode_fields(raw), DecodedEvent(raw), known=_Item.__struct_fields__)
    return fields.json()


def _parts(content: tuple[_Part | str, ...] | str | None) -> tuple[_Part, ...]:
    """The parts of a content, which some servers write as one text, or as plain texts."""
    parts = (content,) if isinstance(content, str) else content or ()
    return tuple(_Part(text=part) if isinstance(part, str) else part for part in parts)


def _id_text(item: _Item) -> str:
    return "" if item.id is None else str(item.id)


def _filled_up(item: _Item, arrived: ArrivingItem) -> _Item:
    """The item with what its last event leaves out, and earlier ones said."""
    filled = msgspec.structs.replace(
        item,
        name=item.name or arrived.name,
        call_id=item.call_id if item.call_id not in {None, ""} else arrived.call_id,
    )
    match item.type:
        case "message" if not any(part.text or part.refusal for part in _parts(item.content)):
            return msgspec.structs.replace(filled, content=arrived.said() or item.content)
        case "function_call" if not _arguments(item.arguments):
            said = msgspec.Raw(_encode(arrived.said()))
            return msgspec.structs.replace(filled, arguments=said)
        case "custom_tool_call" if not item.input:
            return msgspec.structs.replace(filled, input=arrived.said() or item.input)
        case _:
            return filled


def _texts(parts: tuple[_Part, ...] | None) -> tuple[str, ...]:
    return tuple(part.text for part in parts or () if part.text)


def _name(item: _Item) -> str:
    if not item.name:
        raise UnreadableEvent("a call has no name")
    return item.name


def _arguments(raw: msgspec.Raw) -> str:
    """The text of a JSON string; some servers send the value itself, or null for none."""
    data = bytes(raw)
    if data.startswith(b'"'):
        return _decode_text(data)
    return "" if data == b"null" else data.decode()


def _read_item(raw: msgspec.Raw) -> _Item | None:
    """Raises UnreadableEvent."""
    try:
        item: _Item | None = _decode_item(raw)
    except msgspec.DecodeError as error:
        raise UnreadableEvent(describe_decode_error(error)) from None
    return item


def _read_items(raw: msgspec.Raw) -> tuple[msgspec.Raw, ...]:
    """The items that the end of a response repeats. Raises UnreadableEvent."""
    try:
        return _decode_items(raw) or ()
    except msgspec.DecodeError as error:
        raise UnreadableEvent(describe_decode_error(error)) from None


def read_compaction(body: bytes, *, provider: str) -> list[AnyResponseEvent]:
    """The answer of `POST /responses/compact`: its sealed items, then the end.

    The output repeats the user's messages too, but the agent keeps those itself, word for word. The
    agent decides that an output without sealed items is no compaction.

    Raises:
        SampleError: The body cannot be decoded.
    """
    try:
        answer = _decode_compacted(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        text = f"the compaction of {provider} cannot be read: {error}"
        raise SampleError(Failure(kind="bad_response", message=text)) from error
    events: list[AnyResponseEvent] = [
        ResponseItemDone(item=Compaction(encrypted_content=item.encrypted_content))
        for item in answer.output
        if item.type in _COMPACTIONS and item.encrypted_content
    ]
    return [*events, ResponseFinished(response_id=answer.id, usage=read_usage(answer.usage))]

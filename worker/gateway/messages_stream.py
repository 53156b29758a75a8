"""Decode the Messages event stream. No I/O.

A block is an item. It is emitted when the block stops, so that a call can start while the stream
goes on. Only a call whose input is incomplete waits for the end of the response; if the model was
cut off, that call is dropped. The response is complete with `message_stop`, or when the stream ends
after its stop reason and every block has stopped; `[DONE]` stands for a missing reason. An event
that cannot be read, or that does not fit the earlier ones, cuts the stream (wire_stream.py).

Servers that speak this wire after Anthropic's number their blocks in other ways: not at all, all
with 0, or by several counts. Blocks are told apart by their starts and stops.
"""

import msgspec

from swarm.mailbox.base.bounded_formats import depth_checked
from swarm.mailbox.protocol.items import AnyItem, FunctionCall, Message, OutputText, Reasoning

from .backend import Failure, NewId, SampleError
from .fit.call_ids import is_portable_id
from .leading_thought import LeadingThought, split_thought
from .opaque_fields import OpaqueFields
from .request_encoding import RedactedThinking, Thinking, seal_block
from .sse import (
    DecodedEvent,
    ResponseSize,
    TextAccumulator,
    UnreadableEvent,
    describe_decode_error,
    is_object,
)
from .token_usage import MessagesUsage
from .wire_stream import WireStream

_KINDS = {
    "text": "message",
    "thinking": "reasoning",
    "redacted_thinking": "reasoning",
    "tool_use": "function_call",
}
# Delta types by block type, and the field of each; None: the delta is not kept.
_STOPPED_AT_LIMIT = frozenset({"max_tokens", "length", "model_context_window_exceeded"})
_NOTHING = frozenset({b"null", b"{}"})
_DELTAS: dict[str, dict[str, str | None]] = {
    "text": {"text_delta": "text", "citations_delta": None},
    "thinking": {"thinking_delta": "thinking", "signature_delta": "signature"},
    "redacted_thinking": {},
    "tool_use": {"input_json_delta": "partial_json"},
}
_FIELDS = {kind: name for table in _DELTAS.values() for kind, name in table.items() if name}


class _MessageStart(msgspec.Struct):
    id: str | int | None = None
    model: msgspec.Raw = msgspec.Raw(b"null")  # not part of the answer: decoded separately
    usage: msgspec.Raw = msgspec.Raw(b"null")


class _ContentBlock(msgspec.Struct):
    type: str = ""
    id: str | int | None = None
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
    text: str | msgspec.UnsetType | None = msgspec.UNSET
    thinking: str | msgspec.UnsetType | None = msgspec.UNSET
    signature: str | msgspec.UnsetType | None = msgspec.UNSET
    partial_json: str | dict[str, msgspec.Raw] | msgspec.UnsetType | None = msgspec.UNSET
    stop_reason: str | None = None
    stop_details: _StopDetails | None = None


class _Event(msgspec.Struct):
    """Every event is decoded as this struct; absent fields keep their defaults."""

    type: str = ""
    index: int | float | str | None = None  # some servers send it as text
    message: _MessageStart | None = None
    content_block: msgspec.Raw = msgspec.Raw(b"null")  # a _ContentBlock
    delta: msgspec.Raw = msgspec.Raw(b"null")  # a _Delta
    usage: msgspec.Raw = msgspec.Raw(b"null")  # not part of the answer: decoded separately
    stop_reason: str | None = None  # some servers send it beside the delta


class _OpenBlock:
    """A block that still arrives."""

    def __init__(self, kind: str, item_id: str, size: ResponseSize) -> None:
        size.begin_item()
        self.kind, self.item_id, self.name = kind, item_id, ""
        self.body = TextAccumulator(size)  # text, thinking, input JSON, or redacted data
        self.signature = TextAccumulator(size)
        self.given = ""  # input that came complete at the start of the block
        self.leading, self.fields = LeadingThought(), OpaqueFields()


_decode = depth_checked(msgspec.json.Decoder(_Event).decode)
_decode_block = depth_checked(msgspec.json.Decoder(_ContentBlock | None).decode)
_decode_delta = depth_checked(msgspec.json.Decoder(_Delta).decode)
_decode_fields = depth_checked(msgspec.json.Decoder(dict[str, msgspec.Raw]).decode)
_decode_text = depth_checked(msgspec.json.Decoder(str).decode)
_encode = msgspec.json.Encoder().encode


def _text_id(given: str | int | None) -> str:
    return "" if given is None else str(given)


def _read_block(raw: msgspec.Raw) -> _ContentBlock | None:
    """Raises UnreadableEvent."""
    try:
        block: _ContentBlock | None = _decode_block(raw)
    except (msgspec.DecodeError, RecursionError) as error:
        raise UnreadableEvent(describe_decode_error(error)) from None
    return block


def _read_delta(raw: msgspec.Raw) -> _Delta | None:
    """None if it is empty. Raises UnreadableEvent."""
    if b"".join(bytes(raw).split()) in _NOTHING:
        return None
    try:
        delta: _Delta = _decode_delta(raw)
    except (msgspec.DecodeError, RecursionError) as error:
        raise UnreadableEvent(describe_decode_error(error)) from None
    return delta


class MessagesStream(WireStream[_Event]):
    """One response."""

    def __init__(self, *, provider: str, slug: str, new_id: NewId) -> None:
        handlers = {
            "message_start": self._take_message_start,
            "message_delta": self._take_message_delta,
            "message_stop": self._take_message_stop,
            "content_block_start": self._take_block_start,
            "content_block_delta": self._take_block_delta,
            "content_block_stop": self._take_block_stop,
        }
        super().__init__(_decode, handlers, provider=provider, new_id=new_id)
        self._slug = slug
        self._response_id = ""
        self._usage = MessagesUsage()
        self._begun = 0  # number of blocks
        self._open: dict[
            int, _OpenBlock | None
        ] = {}  # by the server's number; None: a kind not kept
        self._stopped: set[int] = set()  # numbers of blocks that have stopped
        self._numbers = True  # the server numbers its blocks
        self._unfinished_calls: list[_OpenBlock] = []  # calls whose input is incomplete
        self._stop_reason: str | None = None
        self._stop_details = _StopDetails()

    def _end(self) -> None:
        if self._stop_reason is None:
            raise self._cut_off("no `message_stop` came")
        self._complete(self._stop_reason)

    def _take_end_mark(self) -> None:
        """Where no event gives a stop reason, whole blocks and this mark are the end."""
        if self._stop_reason is None and self._begun and not self._open:
            self._complete("end_turn")

    def _take_message_start(self, read: DecodedEvent[_Event]) -> None:
        start = read.event.message or _MessageStart()
        response_id = read.identifier(_text_id(start.id))
        is_again = bool(response_id) and response_id == self._response_id
        if not is_again and (self._begun or self._response_id or self._stop_reason):
            raise UnreadableEvent("a message begins within another one")
        self._response_id = response_id
        self._note_model(start.model)
        self._usage.add(start.usage)

    def _take_message_delta(self, read: DecodedEvent[_Event]) -> None:
        self._usage.add(read.event.usage)
        delta = _read_delta(read.event.delta) or _Delta()
        self._stop_reason = delta.stop_reason or read.event.stop_reason or self._stop_reason
        self._stop_details = delta.stop_details or self._stop_details

    def _take_message_stop(self, read: DecodedEvent[_Event]) -> None:
        self._take_message_delta(read)
        self._complete(self._stop_reason)

    def _block_index(self, read: DecodedEvent[_Event], *, begins: bool) -> int:
        """The number of the event's block. Raises UnreadableEvent."""
        index = read.event.index
        if isinstance(index, str) and index.isascii() and index.isdecimal():
            index = int(index[:9])
        if isinstance(index, float) and index.is_integer():
            index = int(index)
        if index is None and begins and not self._begun:
            self._numbers = False
        if index is None and not self._numbers and len(self._open) == (not begins):
            index = self._begun if begins else next(iter(self._open))
        if not isinstance(index, int):
            raise UnreadableEvent("a piece of the answer does not say of which block it is")
        return index

    def _take_block_start(self, read: DecodedEvent[_Event]) -> None:
        if self._stop_reason is not None:
            raise UnreadableEvent("a piece of the answer follows its stop reason")
        index = self._block_index(read, begins=True)
        if index in self._open:
            raise UnreadableEvent(f"block {index:,} begins again before it has stopped")
        raw = read.event.content_block
        if (start := _read_block(raw)) is None:
            raise UnreadableEvent("a block begins without saying as what")
        self._begun += 1
        self._stopped.discard(index)
        if (kind := _KINDS.get(start.type)) is None:
            self._open[index] = None  # the server's own tools, which are never offered
            return
        if kind == "function_call":
            block = self._begin_call(start, read)
            block.fields.add(_decode_fields(raw), read, known=_ContentBlock.__struct_fields__)
        else:
            prefix = "msg" if kind == "message" else "rs"
            block = _OpenBlock(start.type, f"{prefix}_{self._new_id()}", self._size)
        self._open[index] = block
        self._emit_started(block.item_id, kind, block.name)
        block.signature.add(read.text(start.signature or ""))
        block.body.add(read.text(start.data or ""))
        first = start.text if start.type == "text" else start.thinking
        self._grow(block, read.text(first or ""))

    def _begin_call(self, start: _ContentBlock, read: DecodedEvent[_Event]) -> _OpenBlock:
        own_id = read.identifier(_text_id(start.id)) or f"call_{self._new_id()}"
        block = _OpenBlock(start.type, own_id, self._size)
        block.name = read.identifier(start.name or "")
        if not block.name:
            raise UnreadableEvent("a call has no name")
        given = bytes(start.input)
        if given not in _NOTHING:
            is_text = given.startswith(b'"')  # some servers send the arguments of a chat
            block.given = read.identifier(_decode_text(given) if is_text else given.decode())
        return block

    def _take_block_delta(self, read: DecodedEvent[_Event]) -> None:
        if self._stop_reason is not None:
            raise UnreadableEvent("a piece of the answer follows its stop reason")
        if (index := self._block_index(read, begins=False)) not in self._open:
            raise UnreadableEvent("a block goes on that has not begun, or has stopped")
        block, delta = self._open[index], _read_delta(read.event.delta)
        if block is not None and delta is not None:
            self._take_piece(block, delta, read)

    def _take_piece(self, block: _OpenBlock, delta: _Delta, read: DecodedEvent[_Event]) -> None:
        name = _FIELDS.get(delta.type, "")
        piece: object = getattr(delta, name) if name else msgspec.UNSET
        if piece is None or piece == "":  # keeps the connection alive, whatever its kind
            return
        if delta.type not in (fields := _DELTAS[block.kind]):
            raise UnreadableEvent(f"a block of kind {block.kind} cannot go on so")
        if fields[delta.type] is None:
            return
        if isinstance(piece, dict):
            block.given = read.identifier(_encode(piece).decode())
        elif not isinstance(piece, str):
            raise UnreadableEvent(f"a piece of a block has no `{name}`")
        elif name == "signature":
            block.signature.add(read.text(piece))
        else:
            self._grow(block, read.text(piece))

    def _grow(self, block: _OpenBlock, piece: str) -> None:
        text = block.body.add(piece)
        if block.kind == "text":
            thought, text = block.leading.feed(text)
            self._emit_reasoning(block.item_id, thought)
            self._emit_text(block.item_id, text)
        elif block.kind != "tool_use":
            self._emit_reasoning(block.item_id, text)

    def _take_block_stop(self, read: DecodedEvent[_Event]) -> None:
        if read.event.index is None and not self._numbers and not self._open:
            return
        index = self._block_index(read, begins=False)
        if index in self._stopped:  # some servers say it twice
            return
        if index not in self._open:
            raise UnreadableEvent("a block stops that has not begun")
        block = self._open.pop(index)
        self._stopped.add(index)
        if block is None:
            return
        if block.kind == "text" and not block.leading.is_open:
            self._emit_text(block.item_id, block.leading.finish()[1])
        if block.kind == "tool_use" and not is_object(block.body.whole() or block.given or "{}"):
            self._unfinished_calls.append(block)
        elif (item := self._item(block)) is not None:
            self._emit_item(item)

    def _item(self, block: _OpenBlock) -> AnyItem | None:
        """The item of a stopped block; None if the block is empty."""
        text, signature = block.body.whole(), block.signature.whole()
        match block.kind:
            case "text":
                thought, text = split_thought(text)
                if thought.strip():
                    origin = self._origin_with("", is_needed=True)
                    name = f"rs_{self._new_id()}"
                    self._emit_item(Reasoning(content=(thought,), id=name, origin=origin))
                part = (OutputText(text=text),)
                return Message(role="assistant", content=part, id=block.item_id) if text else None
            case "thinking":
                kept = Thinking(thinking=text, signature=signature)
                has_any = bool(text or signature)
                if not has_any:
                    return None
                item = seal_block(kept, slug=self._slug, item_id=block.item_id)
                origin = self._origin_with("", is_needed=not signature)
                return msgspec.structs.replace(item, origin=origin)
            case "redacted_thinking":
                hidden = RedactedThinking(data=text)
                return seal_block(hidden, slug=self._slug, item_id=block.item_id)
            case _:
                arguments = text or block.given or "{}"
                origin = self._origin_with(
                    block.fields.json(), is_needed=not is_portable_id(block.item_id)
                )
                return FunctionCall(
                    call_id=block.item_id, name=block.name, arguments=arguments, origin=origin
                )

    def _complete(self, reason: str | None) -> None:
        if self._open:
            raise self._cut_off("a block of it did not stop")
        if reason is None:
            raise self._cut_off("no stop reason came")
        truncated = reason in _STOPPED_AT_LIMIT
        if not truncated:  # complete, so the model is told what is wrong with its calls
            for block in self._unfinished_calls:
                if (item := self._item(block)) is not None:
                    self._emit_item(item)
        self._refuse(reason)
        end_turn = True if truncated else False if reason == "pause_turn" else None
        self._emit_finished(
            self._response_id, self._usage.total(), end_turn=end_turn, truncated=truncated
        )

    def _refuse(self, reason: str) -> None:
        """Raises SampleError if a response that came to its end is a failure."""
        name = self._provider
        match reason:
            case "refusal":
                why = self._stop_details.explanation or self._stop_details.category or "no reason"
                text = f"{name}: the model declined to answer ({why}); change the task or the model"
                failure = Failure(kind="bad_request", message=text)  # earlier text does not count
            case "model_context_window_exceeded":
                text = f"{name}: the conversation filled the model's context window"
                failure = Failure(kind="context_window_exceeded", message=text)
            case "max_tokens" | "length" if not self._items_done:
                raise self._incomplete(
                    f"{name} stopped at its output limit before anything was said; raise "
                    f"`max_output_tokens` of {self._slug} in models.toml, or lower the effort"
                )
            case _:
                return
        raise SampleError(failure)

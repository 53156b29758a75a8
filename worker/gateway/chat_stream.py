"""Decode the Chat Completions event stream: payloads in, response events out. No I/O.

Items come in the order in which they began: reasoning, text, calls. A response is complete when a
`finish_reason` came and the stream ended; an end without one counts as a lost connection. A chunk
that cannot be read, or that does not fit the earlier chunks, cuts the stream (wire_stream.py).
"""

import msgspec

from swarm.mailbox.protocol.items import FunctionCall, Message, OutputText, Reasoning, TokenUsage

from .backend import NewId
from .failures import ErrorFields
from .sse import (
    DecodedEvent,
    ResponseSize,
    TextAccumulator,
    UnreadableEvent,
    is_object,
)
from .text_tool_calls import extract_tool_calls
from .token_usage import read_usage
from .wire_stream import EVERY_TYPE, WireStream

_CUT = frozenset({"length", "content_filter"})  # the model was stopped; its output so far is kept
_BROKEN_OFF = frozenset(  # the server failed; treated as if no reason came
    {"error", "network_error", "insufficient_system_resource", "abort", "aborted", "cancelled"}
)


class _FunctionDelta(msgspec.Struct):
    name: str | None = None
    arguments: msgspec.Raw = msgspec.Raw(b"null")


class _CallDelta(msgspec.Struct):
    """One entry of a chunk's `tool_calls`."""

    index: int | None = None
    id: str | None = None
    function: _FunctionDelta | None = None


class _Part(msgspec.Struct):
    type: str = ""
    text: str | None = None
    content: str | None = None
    thinking: "tuple[_Part, ...] | None" = None


class _Delta(msgspec.Struct):
    content: str | tuple[_Part, ...] | None = None
    refusal: str | None = None
    reasoning: str | _Part | None = None
    reasoning_content: str | None = None  # the name that vLLM, DeepSeek and llama.cpp use
    tool_calls: tuple[_CallDelta, ...] | None = None
    function_call: msgspec.Raw = msgspec.Raw(b"null")  # the obsolete form before `tool_calls`


class _Choice(msgspec.Struct):
    index: int | None = None
    delta: _Delta | None = None
    message: _Delta | None = None
    finish_reason: str | None = None


class _Chunk(msgspec.Struct):
    id: str | None = None
    model: msgspec.Raw = msgspec.Raw(b"null")  # not part of the answer: decoded separately
    choices: tuple[_Choice, ...] | None = None
    usage: msgspec.Raw = msgspec.Raw(b"null")  # not part of the answer: decoded separately
    error: ErrorFields | str | None = None


_decode = msgspec.json.Decoder(_Chunk).decode
_decode_text = msgspec.json.Decoder(str).decode


class ChatStream(WireStream[_Chunk]):
    """One response.

    Args:
        offered: Names of the offered tools. With `tolerant`, calls written as text are read if they
            name one of these.
    """

    end_marks = frozenset({b"[DONE]", b"DONE"})

    def __init__(
        self, *, provider: str, new_id: NewId, offered: frozenset[str], tolerant: bool
    ) -> None:
        handlers = {EVERY_TYPE: self._take_chunk}
        super().__init__(_decode, handlers, provider=provider, new_id=new_id)
        self._offered, self._tolerant = offered, tolerant
        self._text, self._reasoning = TextAccumulator(self._size), TextAccumulator(self._size)
        self._text_id = self._reasoning_id = ""
        self._calls = _PendingCalls(self._size)
        self._is_begun = False  # with deltas, so that no complete message may follow
        self._finish_reason: str | None = None
        self._usage: TokenUsage | None = None
        self._response_id = ""

    def _take_end_mark(self) -> None:
        if self._finish_reason is not None:
            self._end()

    def _take_chunk(self, read: DecodedEvent[_Chunk]) -> None:
        chunk = read.event
        if chunk.error is not None:
            error = chunk.error
            raise self._failed(ErrorFields(message=error) if isinstance(error, str) else error)
        self._usage = read_usage(chunk.usage) or self._usage
        self._response_id = self._response_id or read.identifier(chunk.id or "")
        self._note_model(chunk.model)
        for choice in chunk.choices or ():
            if choice.index:
                raise UnreadableEvent("it holds another answer than the one that was asked for")
            self._take_choice(choice, read)

    def _take_choice(self, choice: _Choice, read: DecodedEvent[_Chunk]) -> None:
        delta = choice.delta
        if delta is None and choice.message is not None:
            if self._is_begun:
                raise UnreadableEvent("a whole message follows pieces of one")
            delta = choice.message
        if delta is not None:
            count = self._size.chars, len(self._calls)
            self._take_delta(delta, read)
            is_news = count != (self._size.chars, len(self._calls))
            if is_news and self._finish_reason is not None:
                raise UnreadableEvent("a piece of the answer follows its `finish_reason`")
            self._is_begun = True
        self._finish_reason = read.identifier(choice.finish_reason or "") or self._finish_reason

    def _take_delta(self, delta: _Delta, read: DecodedEvent[_Chunk]) -> None:
        if bytes(delta.function_call) != b"null":
            raise UnreadableEvent("it holds a call of a kind that was not offered")
        text, thought = _parts(delta.content)
        thought = (delta.reasoning_content or _one_text(delta.reasoning)) + thought
        if thought:
            if not self._reasoning:
                self._reasoning_id = f"rs_{self._new_id()}"
                self._emit_started(self._reasoning_id, "reasoning")
            self._emit_reasoning(self._reasoning_id, self._reasoning.add(read.text(thought)))
        if text := text + (delta.refusal or ""):
            self._take_text(read.text(text))
        taken = [self._calls.take(slot, read) for slot in delta.tool_calls or ()]
        for call in taken:
            if call is not None:
                self._emit_started(call.id, "function_call", call.name)

    def _take_text(self, text: str) -> None:
        if not self._text:
            self._text_id = f"msg_{self._new_id()}"
            self._emit_started(self._text_id, "message")
        self._emit_text(self._text_id, self._text.add(text))

    def _end(self) -> None:
        reason = self._finish_reason
        if reason is None:
            raise self._cut_off("no `finish_reason` came")
        if reason in _BROKEN_OFF:
            raise self._cut_off(f"the server gave {reason!r} as the reason")
        truncated = reason in _CUT
        self._emit_items(truncated=truncated)
        if truncated and not self._items_done:
            what = "stopped at its output limit" if reason == "length" else "held the answer back"
            raise self._incomplete(f"{self._provider} {what} before anything was said")
        end_turn = True if truncated else None
        self._emit_finished(self._response_id, self._usage, end_turn=end_turn, truncated=truncated)

    def _emit_items(self, *, truncated: bool) -> None:
        if thought := self._reasoning.whole():
            self._emit_item(Reasoning(content=(thought,), id=self._reasoning_id))
        calls = self._structured_calls(truncated=truncated)
        text = self._text.whole()
        if self._tolerant and not calls and text:
            reading = extract_tool_calls(text, self._offered, is_whole=not truncated)
            text = reading.text
            calls = [
                FunctionCall(call_id=f"call_{self._new_id()}", name=name, arguments=arguments)
                for name, arguments in reading.calls
            ]
        if text:
            part = OutputText(text=text)
            self._emit_item(Message(role="assistant", content=(part,), id=self._text_id))
        for call in calls:
            self._emit_item(call)

    def _structured_calls(self, *, truncated: bool) -> list[FunctionCall]:
        calls: list[FunctionCall] = []
        for number, (call_id, name, arguments) in enumerate(self._calls.whole()):
            if truncated and not is_object(arguments):
                continue  # a call that was cut off is dropped
            own_id = call_id or f"call_{self._new_id()}_{number}"
            calls.append(FunctionCall(call_id=own_id, name=name, arguments=arguments or "{}"))
        return calls


class _PendingCall:
    """A call whose arguments still arrive."""

    def __init__(self, size: ResponseSize) -> None:
        self.id = ""
        self.name = ""
        self.arguments = TextAccumulator(size)
        self.is_given = False  # its arguments came complete, as an object


class _PendingCalls:
    """All calls of one response, in the order in which they began."""

    def __init__(self, size: ResponseSize) -> None:
        self._size = size
        self._calls: list[_PendingCall] = []
        self._by_id: dict[str, _PendingCall] = {}
        self._by_index: dict[int, _PendingCall] = {}
        self._last_index: int | None = None  # of the call that began last

    def __len__(self) -> int:
        return len(self._calls)

    def take(self, slot: _CallDelta, read: DecodedEvent[object]) -> "_PendingCall | None":
        """Add a fragment. Returns the call if the fragment gave it its name.

        Raises UnreadableEvent and ResponseTooLong.
        """
        function = slot.function or _FunctionDelta()
        read.identifier(slot.id or "")
        read.identifier(function.name or "")
        call = self._find(slot) or self._begin(slot, function)
        if call is None:
            return None
        if slot.id:
            call.id = call.id or slot.id
            self._by_id[slot.id] = call
        if slot.index is not None:
            self._by_index.setdefault(slot.index, call)
        self._add(call, function.arguments, read)
        if not function.name or function.name == call.name:
            return None
        if call.name:
            raise UnreadableEvent("a call changes its name")
        call.name = function.name
        return call

    def whole(self) -> list[tuple[str, str, str]]:
        """Id, name and arguments of each call, after the last fragment. Raises UnreadableEvent."""
        if any(not call.name for call in self._calls):
            raise UnreadableEvent("a call has no name")
        return [(call.id, call.name, call.arguments.whole()) for call in self._calls]

    def _find(self, slot: _CallDelta) -> _PendingCall | None:
        if slot.id and slot.id in self._by_id:
            return self._by_id[slot.id]
        by_index = None if slot.index is None else self._by_index.get(slot.index)
        if by_index is not None and not (slot.id and by_index.id and slot.id != by_index.id):
            return by_index
        if slot.index is None and not slot.id and self._calls:
            return self._calls[-1]
        return None

    def _begin(self, slot: _CallDelta, function: _FunctionDelta) -> _PendingCall | None:
        """Begin a call at its id or its name; None for an empty entry."""
        if not slot.id and not function.name:
            if bytes(function.arguments) in {b"null", b'""'}:
                return None
            raise UnreadableEvent("arguments came for a call that has not begun")
        if slot.index is not None:
            last = slot.index if self._last_index is None else self._last_index
            if not last <= slot.index <= last + 1:
                raise UnreadableEvent("a call begins out of its order")
            self._last_index = slot.index
            self._by_index.pop(slot.index, None)  # some servers give every call the same index
        self._calls.append(call := _PendingCall(self._size))
        return call

    def _add(self, call: _PendingCall, raw: msgspec.Raw, read: DecodedEvent[object]) -> None:
        """Add a fragment of JSON text; some servers send the object itself, or null."""
        data = bytes(raw)
        if data == b"null":
            return
        is_text = data.startswith(b'"')
        if not is_text and not data.startswith(b"{"):
            raise UnreadableEvent("arguments are neither text nor an object")
        piece = _decode_text(data) if is_text else data.decode()
        if piece and call.arguments and (call.is_given or not is_text):
            raise UnreadableEvent("arguments came again after they were whole")
        call.arguments.add(read.text(piece))
        call.is_given = call.is_given or not is_text


def _parts(content: str | tuple[_Part, ...] | None) -> tuple[str, str]:
    """The text and the thinking of a content. Raises UnreadableEvent."""
    if content is None or isinstance(content, str):
        return content or "", ""
    said, thought = "", ""
    for part in content:
        if part.thinking is not None:
            thought += "".join(map(_one_text, part.thinking))
        elif part.text is not None or part.content is not None:
            said += _one_text(part)
        elif part.type not in {"", "text"}:
            raise UnreadableEvent("it holds a kind of content that is no text")
    return said, thought


def _one_text(part: "str | _Part | None") -> str:
    if isinstance(part, _Part):
        return part.text or part.content or ""
    return part or ""

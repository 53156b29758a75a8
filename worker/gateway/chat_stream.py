"""Decode the Chat Completions event stream: payloads in, response events out. No I/O.

Items come in the order in which they began: reasoning, text, calls. A response is complete when a
`finish_reason` came and the stream ended; an end without one counts as a lost connection. A chunk
that cannot be read, or that does not fit the earlier chunks, cuts the stream (wire_stream.py).
"""

import msgspec

from swarm.mailbox.protocol.items import FunctionCall, Message, OutputText, Reasoning, TokenUsage

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
from .chat_tool_calls import PendingCalls, ToolCallDelta
from .event_payloads import DecodedEvent, UnreadableEvent, is_object, read_event
from .failures import ErrorBody, classify_stream_error
from .text_accumulator import TextAccumulator
from .text_tool_calls import extract_tool_calls
from .wire_stream import WireStream

_CUT = frozenset({"length", "content_filter"})  # the model was stopped; its output so far is kept
_BROKEN_OFF = frozenset(  # the server failed; treated as if no reason came
    {"error", "network_error", "insufficient_system_resource", "abort", "aborted", "cancelled"}
)


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
    tool_calls: tuple[ToolCallDelta, ...] | None = None
    function_call: msgspec.Raw = msgspec.Raw(b"null")  # the obsolete form before `tool_calls`


class _Choice(msgspec.Struct):
    index: int | None = None
    delta: _Delta | None = None
    message: _Delta | None = None
    finish_reason: str | None = None


class _Details(msgspec.Struct):
    cached_tokens: int | None = None
    reasoning_tokens: int | None = None


class _Usage(msgspec.Struct):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    total_tokens: int | None = None
    prompt_tokens_details: _Details | None = None
    completion_tokens_details: _Details | None = None


class _Error(msgspec.Struct):
    message: str | None = None
    code: str | int | None = None
    type: str | None = None


class _Chunk(msgspec.Struct):
    id: str | None = None
    choices: tuple[_Choice, ...] | None = None
    usage: msgspec.Raw = msgspec.Raw(b"null")  # not part of the answer: decoded separately
    error: _Error | str | None = None


_decode = msgspec.json.Decoder(_Chunk).decode
_decode_usage = msgspec.json.Decoder(_Usage | None).decode


class ChatStream(WireStream):
    """One response.

    Args:
        offered: Names of the offered tools. With `tolerant`, calls written as text are read if they
            name one of these.
    """

    def __init__(
        self, *, provider: str, new_id: NewId, offered: frozenset[str], tolerant: bool
    ) -> None:
        super().__init__(provider=provider, new_id=new_id)
        self._offered, self._tolerant = offered, tolerant
        self._text, self._reasoning = TextAccumulator(self._size), TextAccumulator(self._size)
        self._text_id = self._reasoning_id = ""
        self._calls = PendingCalls(self._size)
        self._is_begun = False  # with deltas, so that no complete message may follow
        self._finish_reason: str | None = None
        self._usage: TokenUsage | None = None
        self._response_id = ""

    def _feed(self, payload: bytes) -> list[AnyResponseEvent]:
        if payload.strip() in {b"[DONE]", b"DONE", b""}:
            return self.finish() if self._finish_reason is not None and payload.strip() else []
        read = read_event(_decode, payload)
        chunk = read.event
        if chunk.error is not None:
            raise SampleError(self._error_failure(chunk.error))
        self._usage = _read_usage(chunk.usage) or self._usage
        self._response_id = self._response_id or read.identifier(chunk.id or "")
        events: list[AnyResponseEvent] = []
        for choice in chunk.choices or ():
            if choice.index:
                raise UnreadableEvent("it holds another answer than the one that was asked for")
            self._take_choice(choice, read, events)
        return events

    def _finish(self) -> list[AnyResponseEvent]:
        reason = self._finish_reason
        if reason is None:
            raise self._cut_off("no `finish_reason` came")
        if reason in _BROKEN_OFF:
            raise self._cut_off(f"the server gave {reason!r} as the reason")
        truncated = reason in _CUT
        items = self._items(truncated=truncated)
        if truncated and not items:
            what = "stopped at its output limit" if reason == "length" else "held the answer back"
            text = f"{self._provider} {what} before anything was said"
            raise SampleError(Failure(kind="incomplete", message=text))
        self.finished = True
        finished = ResponseFinished(
            response_id=self._response_id,
            usage=self._usage,
            end_turn=True if truncated else None,
            truncated=truncated,
        )
        return [*items, finished]

    def _take_choice(
        self, choice: _Choice, read: DecodedEvent[_Chunk], events: list[AnyResponseEvent]
    ) -> None:
        delta = choice.delta
        if delta is None and choice.message is not None:
            if self._is_begun:
                raise UnreadableEvent("a whole message follows pieces of one")
            delta = choice.message
        if delta is not None:
            is_after_end = self._finish_reason is not None
            count = self._size.chars, len(self._calls)
            self._take(delta, read, events)
            if is_after_end and count != (self._size.chars, len(self._calls)):
                raise UnreadableEvent("a piece of the answer follows its `finish_reason`")
            self._is_begun = True
        self._finish_reason = read.identifier(choice.finish_reason or "") or self._finish_reason

    def _take(
        self, delta: _Delta, read: DecodedEvent[_Chunk], events: list[AnyResponseEvent]
    ) -> None:
        if bytes(delta.function_call) != b"null":
            raise UnreadableEvent("it holds a call of a kind that was not offered")
        said, thought = _parts(delta.content)
        thought = (delta.reasoning_content or _one_text(delta.reasoning)) + thought
        if thought:
            if not self._reasoning:
                self._reasoning_id = f"rs_{self._new_id()}"
                events.append(ResponseItemStarted(item_id=self._reasoning_id, kind="reasoning"))
            if text := self._reasoning.add(read.text(thought)):
                events.append(ResponseReasoningDelta(item_id=self._reasoning_id, text=text))
        if said := said + (delta.refusal or ""):
            if not self._text:
                self._text_id = f"msg_{self._new_id()}"
                events.append(ResponseItemStarted(item_id=self._text_id, kind="message"))
            if text := self._text.add(read.text(said)):
                events.append(ResponseTextDelta(item_id=self._text_id, text=text))
        taken = [self._calls.take(slot, read) for slot in delta.tool_calls or ()]
        named = (call_id for call_id in taken if call_id is not None)
        events += [ResponseItemStarted(item_id=call_id, kind="function_call") for call_id in named]

    def _items(self, *, truncated: bool) -> list[AnyResponseEvent]:
        items: list[AnyResponseEvent] = []
        if thought := self._reasoning.whole():
            items.append(
                ResponseItemDone(item=Reasoning(content=(thought,), id=self._reasoning_id))
            )
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
            message = Message(role="assistant", content=(part,), id=self._text_id)
            items.append(ResponseItemDone(item=message))
        items += [ResponseItemDone(item=call) for call in calls]
        return items

    def _structured_calls(self, *, truncated: bool) -> list[FunctionCall]:
        calls: list[FunctionCall] = []
        for number, (call_id, name, arguments) in enumerate(self._calls.whole()):
            if truncated and not is_object(arguments):
                continue  # a call that was cut off is dropped
            own_id = call_id or f"call_{self._new_id()}_{number}"
            calls.append(FunctionCall(call_id=own_id, name=name, arguments=arguments or "{}"))
        return calls

    def _error_failure(self, error: _Error | str) -> Failure:
        if isinstance(error, str):
            body = ErrorBody(message=error)
        else:
            code = "" if error.code is None else str(error.code)
            body = ErrorBody(message=error.message or "", code=code, type=error.type or "")
        return classify_stream_error(body, provider=self._provider)


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


def _read_usage(raw: msgspec.Raw) -> TokenUsage | None:
    """The token counts; None if there are none, or none that can be read."""
    try:
        usage = _decode_usage(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return None if usage is None else _sum(usage)


def _sum(usage: _Usage) -> TokenUsage:
    read, made = usage.prompt_tokens_details, usage.completion_tokens_details
    prompt, completion = usage.prompt_tokens or 0, usage.completion_tokens or 0
    return TokenUsage(
        input_tokens=prompt,
        cached_input_tokens=(read.cached_tokens if read else None) or 0,
        output_tokens=completion,
        reasoning_output_tokens=(made.reasoning_tokens if made else None) or 0,
        total_tokens=usage.total_tokens or prompt + completion,
    )

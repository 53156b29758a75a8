"""The event stream of the Chat Completions wire → response events. Pure: payloads in, events out.

Items come in the order in which they began: reasoning, text, calls. A response is complete when a
`finish_reason` came and the stream ended; an end without one is a lost connection, not an answer.
"""

import msgspec

from swarm.mailbox.protocol.items import (
    FunctionCall,
    Message,
    OutputText,
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
from .toolcalls import read_tool_calls


class _Part(msgspec.Struct):
    text: str | None = None
    content: str | None = None


class _Called(msgspec.Struct):
    name: str | None = None
    arguments: msgspec.Raw = msgspec.Raw(b"null")


class _Slot(msgspec.Struct):
    index: int | None = None
    id: str | None = None
    function: _Called | None = None


class _Delta(msgspec.Struct):
    content: str | tuple[_Part, ...] | None = None
    reasoning: str | _Part | None = None
    reasoning_content: str | None = None  # the same, as vLLM, DeepSeek and llama.cpp call it
    tool_calls: tuple[_Slot, ...] | None = None


class _Choice(msgspec.Struct):
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
    usage: _Usage | None = None
    error: _Error | str | None = None


_decode = msgspec.json.Decoder(_Chunk).decode
_decode_text = msgspec.json.Decoder(str).decode


class _PendingCall:
    """A call whose arguments still arrive."""

    def __init__(self) -> None:
        self.id = ""
        self.name = ""
        self.arguments: list[str] = []


class ChatStream:
    """One response.

    Args:
        offered: Names of the tools that were offered; with `tolerant`, calls written as text are
            read if they name one of these.
    """

    def __init__(
        self, *, provider: str, new_id: NewId, offered: frozenset[str], tolerant: bool
    ) -> None:
        self._provider, self._new_id = provider, new_id
        self._offered, self._tolerant = offered, tolerant
        self._text: list[str] = []
        self._reasoning: list[str] = []
        self._text_id = self._reasoning_id = ""
        self._calls: list[_PendingCall] = []
        self._by_id: dict[str, _PendingCall] = {}
        self._by_index: dict[int, _PendingCall] = {}
        self._finish_reason: str | None = None
        self._usage: TokenUsage | None = None
        self._response_id = ""
        self.unreadable = 0
        self.finished = False

    def feed(self, payload: bytes) -> list[AnyResponseEvent]:
        """The events that one payload brings. Raises SampleError for an error in the stream."""
        if payload.strip() in {b"[DONE]", b"DONE", b""}:
            return self.finish() if self._finish_reason is not None and payload.strip() else []
        chunk = decode_payload(_decode, payload)
        if chunk is None:
            self.unreadable += 1
            return []
        if chunk.error is not None:
            raise SampleError(self._told(chunk.error))
        if chunk.usage is not None:
            self._usage = _sum(chunk.usage)
        self._response_id = self._response_id or chunk.id or ""
        events: list[AnyResponseEvent] = []
        for choice in (chunk.choices or ())[:1]:
            delta = choice.delta or choice.message
            if delta is not None:
                self._take(delta, events)
            self._finish_reason = choice.finish_reason or self._finish_reason
        return events

    def finish(self) -> list[AnyResponseEvent]:
        """The stream has ended: the whole items. Raises SampleError if it ended too early."""
        if self.finished:
            return []
        if self._finish_reason is None:
            raise SampleError(
                cut_off(
                    "final",
                    provider=self._provider,
                    why="no `finish_reason` came",
                    unreadable=self.unreadable,
                )
            )
        self.finished = True
        truncated = self._finish_reason == "length"
        items = self._items(truncated=truncated)
        if truncated and not items:
            text = f"{self._provider} stopped at its output limit before anything was said"
            raise SampleError(Failure(kind="incomplete", message=text))
        finished = Finished(
            response_id=self._response_id,
            usage=self._usage,
            end_turn=True if truncated else None,
            truncated=truncated,
        )
        return [*items, finished]

    def _take(self, delta: _Delta, events: list[AnyResponseEvent]) -> None:
        thought = delta.reasoning_content or _one_text(delta.reasoning)
        if thought:
            if not self._reasoning:
                self._reasoning_id = f"rs_{self._new_id()}"
                events.append(ItemStarted(item_id=self._reasoning_id, kind="reasoning"))
            self._reasoning.append(thought)
            events.append(ReasoningPiece(item_id=self._reasoning_id, text=thought))
        content = delta.content
        text = content if isinstance(content, str) else "".join(map(_one_text, content or ()))
        if text:
            if not self._text:
                self._text_id = f"msg_{self._new_id()}"
                events.append(ItemStarted(item_id=self._text_id, kind="message"))
            self._text.append(text)
            events.append(TextPiece(item_id=self._text_id, text=text))
        for slot in delta.tool_calls or ():
            self._take_call(slot, events)

    def _take_call(self, slot: _Slot, events: list[AnyResponseEvent]) -> None:
        call = self._slot(slot)
        if slot.id:
            call.id = call.id or slot.id
            self._by_id[slot.id] = call
        if slot.index is not None:
            self._by_index.setdefault(slot.index, call)
        function = slot.function
        if function is None:
            return
        if function.name and not call.name:
            call.name = function.name
            events.append(ItemStarted(item_id=call.id, kind="function_call"))
        call.arguments.append(_argument_piece(function.arguments))

    def _slot(self, slot: _Slot) -> _PendingCall:
        if slot.id and slot.id in self._by_id:
            return self._by_id[slot.id]
        by_index = None if slot.index is None else self._by_index.get(slot.index)
        if by_index is not None and not (slot.id and by_index.id and slot.id != by_index.id):
            return by_index
        if slot.index is None and not slot.id and self._calls:
            return self._calls[-1]
        if by_index is not None and slot.index is not None:
            del self._by_index[slot.index]  # a server that gives every call the same index
        self._calls.append(call := _PendingCall())
        return call

    def _items(self, *, truncated: bool) -> list[AnyResponseEvent]:
        items: list[AnyResponseEvent] = []
        if self._reasoning:
            thought = "".join(self._reasoning)
            items.append(ItemDone(item=Reasoning(content=(thought,), id=self._reasoning_id)))
        calls = self._structured_calls(truncated=truncated)
        text = "".join(self._text)
        if self._tolerant and not calls and text:
            reading = read_tool_calls(text, self._offered)
            text = reading.text
            calls = [
                FunctionCall(call_id=f"call_{self._new_id()}", name=name, arguments=arguments)
                for name, arguments in reading.calls
            ]
        if text:
            part = OutputText(text=text)
            message = Message(role="assistant", content=(part,), id=self._text_id)
            items.append(ItemDone(item=message))
        items += [ItemDone(item=call) for call in calls]
        return items

    def _structured_calls(self, *, truncated: bool) -> list[FunctionCall]:
        calls: list[FunctionCall] = []
        for number, pending in enumerate(self._calls):
            arguments = "".join(pending.arguments)
            if not pending.name or (truncated and not _is_json(arguments)):
                continue  # a call that was cut off in the middle is no call
            call_id = pending.id or f"call_{self._new_id()}_{number}"
            calls.append(
                FunctionCall(call_id=call_id, name=pending.name, arguments=arguments or "{}")
            )
        return calls

    def _told(self, error: _Error | str) -> Failure:
        if isinstance(error, str):
            body = ErrorBody(message=error)
        else:
            code = "" if error.code is None else str(error.code)
            body = ErrorBody(message=error.message or "", code=code, type=error.type or "")
        return classify_stream_error(body, provider=self._provider)


def _one_text(part: "str | _Part | None") -> str:
    if isinstance(part, _Part):
        return part.text or part.content or ""
    return part or ""


def _argument_piece(raw: msgspec.Raw) -> str:
    """A piece of JSON text; some servers send the object itself, or null."""
    data = bytes(raw)
    if data == b"null":
        return ""
    try:
        return _decode_text(data) if data.startswith(b'"') else data.decode("utf-8", "replace")
    except (msgspec.DecodeError, UnicodeDecodeError):
        return data.decode("utf-8", "replace")


def _is_json(text: str) -> bool:
    try:
        msgspec.json.decode(text.encode())
    except msgspec.DecodeError:
        return False
    return True


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

"""Decode the Chat Completions event stream: payloads in, response events out. No I/O.

Items come in the order in which they began: reasoning, text, calls. A response is complete when a
`finish_reason` came and the stream ended, or when `[DONE]` came and every call is whole; another
end counts as a lost connection. A chunk that cannot be read, or that does not fit the earlier
chunks, cuts the stream (wire_stream.py).
"""

from contextlib import suppress

import msgspec

from swarm.mailbox.base.bounded_formats import decode_json_as, depth_checked
from swarm.mailbox.protocol.items import FunctionCall, Message, OutputText, Reasoning, TokenUsage

from .backend import NewId
from .failures import ErrorFields
from .fit.call_ids import is_portable_id
from .leading_thought import LeadingThought, split_ended_thought
from .opaque_fields import OpaqueFields
from .prompt_reading import PromptProgress, describe_progress
from .sse import (
    DecodedEvent,
    ResponseSize,
    TextAccumulator,
    UnreadableEvent,
    describe_decode_error,
    is_object,
)
from .streamed_calls import StreamedCalls, is_empty_call
from .text_tool_calls import extract_tool_calls
from .token_usage import read_usage
from .wire_stream import EVERY_TYPE, WireStream

_CUT = frozenset(
    {"length", "max_tokens", "content_filter"}
)  # the model was stopped; its output so far is kept
_BROKEN_OFF = frozenset(  # the server failed; treated as if no reason came
    {"error", "network_error", "insufficient_system_resource", "abort", "aborted", "cancelled"}
)
_UNREADABLE_CALL = "malformed_function_call"  # Gemini: it threw the model's call away


_NOTHING = msgspec.Raw(b"null")


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
    reasoning_text: str | None = None  # Copilot's
    tool_calls: tuple[msgspec.Raw, ...] | None = None
    function_call: msgspec.Raw = _NOTHING  # the obsolete form of a call, before `tool_calls`


class _Choice(msgspec.Struct):
    index: int | str | None = None
    delta: msgspec.Raw = _NOTHING
    message: msgspec.Raw = _NOTHING
    finish_reason: str | int | None = None


class _Chunk(msgspec.Struct):
    id: msgspec.Raw = _NOTHING  # not part of the answer, like the next two: decoded separately
    model: msgspec.Raw = _NOTHING
    usage: msgspec.Raw = _NOTHING
    choices: tuple[_Choice, ...] | None = None
    prompt_progress: msgspec.Raw = _NOTHING  # of llama.cpp, if asked for
    error: ErrorFields | str | bool | None = None


_decode = depth_checked(msgspec.json.Decoder(_Chunk).decode)
_decode_delta = depth_checked(msgspec.json.Decoder(_Delta | None).decode)
_decode_fields = depth_checked(msgspec.json.Decoder(dict[str, msgspec.Raw] | None).decode)
_decode_id = depth_checked(msgspec.json.Decoder(str | int | None).decode)
_USED = frozenset(_Delta.__struct_fields__) - {"reasoning", "reasoning_content", "reasoning_text"}


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
        self._said = TextAccumulator(ResponseSize())  # the text as it came
        self._text_id = self._reasoning_id = ""
        self._leading, self._fields = LeadingThought(), OpaqueFields()
        self._calls = StreamedCalls(self._size, offered)
        self._is_begun = False  # with deltas: a whole message may only repeat them
        self._is_marked = False  # an end mark came
        self._finish_reason: str | None = None
        self._usage: TokenUsage | None = None
        self._response_id = ""

    def _take_end_mark(self) -> None:
        self._is_marked = True
        self._end()

    def _take_chunk(self, read: DecodedEvent[_Chunk]) -> None:
        chunk = read.event
        if (error := _error_of(chunk)) is not None:
            raise self._failed(error)
        self._note_progress(chunk.prompt_progress)
        self._usage = read_usage(chunk.usage) or self._usage
        self._response_id = self._response_id or read.identifier(_identifier(chunk.id))
        self._note_model(chunk.model)
        for choice in chunk.choices or ():
            if choice.index not in {None, 0, "0", ""}:
                raise UnreadableEvent("it holds another answer than the one that was asked for")
            self._take_choice(choice, read)

    def _note_progress(self, raw: msgspec.Raw) -> None:
        """Tell how far the server has read the prompt; what cannot be read is no part of it."""
        if bytes(raw) == b"null":
            return
        with suppress(msgspec.MsgspecError):
            progress = decode_json_as(raw, PromptProgress)
            if text := describe_progress(progress):
                self._emit_waiting(text)

    def _take_choice(self, choice: _Choice, read: DecodedEvent[_Chunk]) -> None:
        delta, message = _read_delta(choice.delta), _read_delta(choice.message)
        is_news = delta is not None and self._take_piece(delta, choice.delta, read)
        if message is not None and not is_news:
            if not self._is_begun:
                self._take_piece(message, choice.message, read)
            elif delta is None or self._repeats(message):
                self._take_repeated(message, read)
        reason = choice.finish_reason
        said = read.identifier("" if reason is None else str(reason)).lower()
        self._finish_reason = said or self._finish_reason

    def _take_piece(self, delta: _Delta, raw: msgspec.Raw, read: DecodedEvent[_Chunk]) -> bool:
        """Returns True if it says something."""
        count = self._size.chars, len(self._calls)
        self._take_delta(delta, raw, read)
        is_news = count != (self._size.chars, len(self._calls))
        if is_news and self._finish_reason is not None:
            raise UnreadableEvent("a piece of the answer follows its `finish_reason`")
        self._is_begun = self._is_begun or is_news
        return is_news

    def _repeats(self, message: _Delta) -> bool:
        """True unless its text is another one than that of the pieces."""
        text = _parts(message.content)[0]
        return not text or text.startswith(self._said.peek())

    def _take_repeated(self, message: _Delta, read: DecodedEvent[_Chunk]) -> None:
        """A whole message after its pieces: it repeats them, or holds what they did not."""
        if not self._repeats(message):
            raise UnreadableEvent("a whole message follows pieces of another one")
        text, said = read.text(_parts(message.content)[0]), self._said.peek()
        calls = message.tool_calls if not len(self._calls) else None
        rest = _Delta(content=text[len(said) :] or None, tool_calls=calls)
        self._take_delta(rest, _NOTHING, read)

    def _take_delta(self, delta: _Delta, raw: msgspec.Raw, read: DecodedEvent[_Chunk]) -> None:
        text, thought = _parts(delta.content)
        named = delta.reasoning_content or _one_text(delta.reasoning) or delta.reasoning_text or ""
        self._take_thought(read.text(named + thought))
        if raw is not _NOTHING:
            self._fields.add(_read_fields(raw), read, known=_USED)
        if text := read.text(text + (delta.refusal or "")):
            self._said.add(text)
            thought, text = self._leading.feed(text)
            if thought.strip() or self._reasoning:
                self._take_thought(thought)
            self._take_text(text)
        calls = delta.tool_calls or ()
        if not calls and not len(self._calls) and not is_empty_call(delta.function_call):
            raise UnreadableEvent("it holds a call of a kind that was not offered")
        for call in self._calls.take(calls, read) if calls else ():
            self._emit_started(call.id, "function_call", call.name)

    def _take_thought(self, thought: str) -> None:
        if not thought:
            return
        if not self._reasoning:
            self._reasoning_id = f"rs_{self._new_id()}"
            self._emit_started(self._reasoning_id, "reasoning")
        self._emit_reasoning(self._reasoning_id, self._reasoning.add(thought))

    def _take_text(self, text: str) -> None:
        if not text:
            return
        if not self._text:
            self._text_id = f"msg_{self._new_id()}"
            self._emit_started(self._text_id, "message")
        self._emit_text(self._text_id, self._text.add(text))

    def _end(self) -> None:
        reason = self._finish_reason
        if reason is None and self._is_marked and self._is_whole():
            reason = "stop"  # `[DONE]` says that nothing of the answer is missing
        if reason is None:
            raise self._cut_off("no `finish_reason` came")
        if reason in _BROKEN_OFF or (_UNREADABLE_CALL in reason and not len(self._calls)):
            raise self._cut_off(f"the server gave {reason!r} as the reason")
        truncated = reason in _CUT
        self._take_held(truncated=truncated)
        self._emit_items(truncated=truncated)
        if truncated and not self._items_done:
            what = (
                "stopped at its output limit"
                if reason != "content_filter"
                else "held the answer back"
            )
            raise self._incomplete(f"{self._provider} {what} before anything was said")
        end_turn = True if truncated else None
        self._emit_finished(self._response_id, self._usage, end_turn=end_turn, truncated=truncated)

    def _is_whole(self) -> bool:
        """True if something was said, and no call lacks a part."""
        return bool(self._said or len(self._calls)) and self._calls.are_whole()

    def _take_held(self, *, truncated: bool) -> None:
        """A thought that has not ended is what the answer holds, unless it was cut off there."""
        is_open = self._leading.is_open
        _, text = self._leading.finish()
        if is_open and not truncated:
            self._reasoning = TextAccumulator(ResponseSize())
        if not (is_open and truncated):
            self._take_text(text)

    def _emit_items(self, *, truncated: bool) -> None:
        text = self._text.whole()
        ended, text = split_ended_thought(text) if not self._reasoning else ("", text)
        self._emit_thoughts(self._reasoning.whole() or ended)
        calls = self._structured_calls(truncated=truncated)
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

    def _emit_thoughts(self, thought: str) -> None:
        """The reasoning, and the fields of the message that only the server understands."""
        for name in self._fields.names_of_texts():
            self._fields.set_own_text(name, thought)
        origin = self._origin_with(self._fields.json(), is_needed=bool(thought))
        if thought or (origin is not None and origin.fields):
            item_id = self._reasoning_id or f"rs_{self._new_id()}"
            content = (thought,) if thought else ()
            self._emit_item(Reasoning(content=content, id=item_id, origin=origin))

    def _structured_calls(self, *, truncated: bool) -> list[FunctionCall]:
        calls: list[FunctionCall] = []
        for number, (call, arguments) in enumerate(self._calls.whole()):
            if truncated and not is_object(arguments):
                continue  # a call that was cut off is dropped
            own_id = call.id or f"call_{self._new_id()}_{number}"
            call.fields.nest("function", call.function_fields)
            fields = call.fields.json()
            origin = self._origin_with(fields, is_needed=not is_portable_id(own_id))
            calls.append(
                FunctionCall(
                    call_id=own_id, name=call.name, arguments=arguments or "{}", origin=origin
                )
            )
        return calls


def _error_of(chunk: _Chunk) -> ErrorFields | None:
    """The error that a chunk tells of; None for a field that is empty beside an answer."""
    error = chunk.error
    if isinstance(error, str):
        error = ErrorFields(message=error)
    if error is None or isinstance(error, bool):
        return ErrorFields() if error else None
    is_empty = not (error.message or error.code or error.type)
    return None if is_empty and chunk.choices is not None else error


def _read_delta(raw: msgspec.Raw) -> _Delta | None:
    """Raises UnreadableEvent."""
    try:
        delta: _Delta | None = _decode_delta(raw)
    except (msgspec.DecodeError, RecursionError) as error:
        raise UnreadableEvent(describe_decode_error(error)) from None
    return delta


def _read_fields(raw: msgspec.Raw) -> dict[str, msgspec.Raw]:
    try:
        return _decode_fields(raw) or {}
    except (msgspec.DecodeError, RecursionError) as error:
        raise UnreadableEvent(describe_decode_error(error)) from None


def _identifier(raw: msgspec.Raw) -> str:
    """The id of the response; an odd one is passed over."""
    try:
        found: str | int | None = _decode_id(raw)
    except msgspec.DecodeError:
        return ""
    return "" if found is None else str(found)


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
            raise UnreadableEvent("it holds a kind of content that is not text")
    return said, thought


def _one_text(part: "str | _Part | None") -> str:
    if isinstance(part, _Part):
        return part.text or part.content or ""
    return part or ""

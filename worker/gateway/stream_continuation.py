"""Continue a response whose stream broke off in the middle of its text. No I/O.

The agent receives the text once, joined exactly. Anything beyond plain text (a begun call,
thinking, an answer with a schema) is never continued: the agent sends its request again.
"""

import re
from collections.abc import Iterator

import msgspec

from swarm.mailbox.protocol.items import AnyCall, Message, OutputText, text_of

from .backend import (
    AnyResponseEvent,
    Failure,
    RenderedRequest,
    RequestWaiting,
    ResponseFinished,
    ResponseItemDone,
    ResponseItemStarted,
    ResponseReasoningDelta,
    ResponseTextDelta,
)

MIN_CHARS = 64  # a shorter text is quickly repeated, and its echo could not be told from an answer
MAX_CONTINUATIONS = 5  # limit for one response
_CONTINUABLE_FAILURES = frozenset({"stream_disconnected", "idle_timeout", "overloaded"})
_CALL = re.compile(
    r"\A\s*(?:```|[\[{])|<\|?(?:tool_?call|function_?call|function=)|\[TOOL_CALLS\]", re.IGNORECASE
)


class ResponseContinuation:
    """One response over all its attempts, as the agent receives it. For one use."""

    def __init__(self, request: RenderedRequest) -> None:
        self._request = request
        self._is_plain = request.output_schema is None
        self._item_id = ""
        self._pieces: list[str] = []
        self._sent = ""  # the text that the current attempt continues
        self.continuations = 0  # number of continuations
        self._attempt_item_id = ""  # the message's id in the current attempt
        self._echo = EchoFilter("")
        self._is_whole = False

    def filter_event(self, event: AnyResponseEvent) -> Iterator[AnyResponseEvent]:
        """The events that the agent receives for an event."""
        if self._sent and not self._is_whole:
            yield from self._join_event(event)
            return
        match event:
            case RequestWaiting():
                pass
            case ResponseItemStarted(kind="message", item_id=name) if not self._item_id:
                self._item_id = name
            case ResponseTextDelta(item_id=name, text=text) if name == self._item_id:
                self._pieces.append(text)
            case _:
                self._is_plain = False
        yield event

    def continuation_request(self, failure: Failure) -> RenderedRequest | None:
        """The request that continues where the stream broke; None: it cannot be continued."""
        if not (self._is_plain and failure.retryable and failure.kind in _CONTINUABLE_FAILURES):
            return None
        text = "".join(self._pieces).rstrip()
        is_news = len(text) >= max(MIN_CHARS, len(self._sent) + 1)
        if not is_news or self.continuations >= MAX_CONTINUATIONS or self._may_be_call(text):
            return None
        body = self._request.with_partial(text)
        if not body:
            return None
        self.continuations += 1
        self._sent, self._pieces, self._attempt_item_id, self._echo = (
            text,
            [text],
            "",
            EchoFilter(text),
        )
        return msgspec.structs.replace(self._request, body=body, without_thinking=tuple)

    def _may_be_call(self, text: str) -> bool:
        return bool(self._request.tools) and _CALL.search(text) is not None

    def _join_event(self, event: AnyResponseEvent) -> Iterator[AnyResponseEvent]:
        match event:
            case RequestWaiting():
                yield event
            case ResponseItemStarted(kind="message", item_id=name) if not self._attempt_item_id:
                self._attempt_item_id = name
            case ResponseTextDelta(item_id=name, text=text) if name == self._attempt_item_id:
                yield from self._emit_text(self._echo.feed(text))
            case ResponseItemDone(item=Message(role="assistant") as message) if (
                message.id == self._attempt_item_id
            ):
                rest = text_of(message.content)
                if len(rest) >= len(self._sent):
                    rest = rest.removeprefix(self._sent)
                yield from self._finish_message(self._sent + rest)
            case ResponseItemStarted() | ResponseReasoningDelta() | ResponseTextDelta():
                self._is_plain = False
                yield event
            case ResponseItemDone(item=item):
                self._is_plain = False
                if isinstance(item, AnyCall):
                    yield from self._finish_message(None)
                yield event
            case ResponseFinished():
                yield from self._finish_message(None)
                yield event

    def _emit_text(self, text: str) -> Iterator[AnyResponseEvent]:
        if text:
            self._pieces.append(text)
            yield ResponseTextDelta(item_id=self._item_id, text=text)

    def _finish_message(self, whole: str | None) -> Iterator[AnyResponseEvent]:
        """The joined message; without `whole`, the text so far."""
        yield from self._emit_text(self._echo.rest())
        self._is_whole, self._is_plain = True, False
        text = "".join(self._pieces) if whole is None else whole
        content = (OutputText(text=text),)
        yield ResponseItemDone(item=Message(role="assistant", content=content, id=self._item_id))


class EchoFilter:
    """Removes an echo: the sent text that a server repeats before its continuation.

    Args:
        sent: The text whose echo is removed. Output is held back as long as it may be the echo.
    """

    def __init__(self, sent: str) -> None:
        self._sent, self._held = sent, ""
        self._is_open = bool(sent)

    def feed(self, text: str) -> str:
        """The new text, as far as it is certain."""
        if not self._is_open:
            return text
        self._held += text
        if self._sent.startswith(self._held) and self._held != self._sent:
            return ""
        self._is_open = False
        held, self._held = self._held, ""
        return held.removeprefix(self._sent)

    def rest(self) -> str:
        """At the end: the text that was held back and is not an echo."""
        held, self._held = self._held, ""
        self._is_open = False
        return held

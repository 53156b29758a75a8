"""A response that broke off in the middle of its text, and goes on from there. Pure.

Rule guarded: the text is said once and joined exactly; what was more than plain text (a call that
had begun, thoughts, an answer held to a schema) is never gone on with: the agent asks anew.
"""

import re
from collections.abc import Iterator

import msgspec

from swarm.mailbox.protocol.items import AnyCall, Message, OutputText, text_of

from .backend import (
    AnyResponseEvent,
    Failure,
    Finished,
    Held,
    ItemDone,
    ItemStarted,
    ReasoningPiece,
    RenderedRequest,
    TextPiece,
)

LEAST_CHARS = 64  # less is quickly said again; and an echo of less could not be told from an answer
MOST_TIMES = 5  # of one response
_BROKEN = frozenset({"stream_disconnected", "idle_timeout", "overloaded"})
_CALL = re.compile(
    r"\A\s*(?:```|[\[{])|<\|?(?:tool_?call|function_?call|function=)|\[TOOL_CALLS\]", re.IGNORECASE
)


class Thread:
    """One response over all its attempts, as the agent shall hear it. For use once."""

    def __init__(self, request: RenderedRequest) -> None:
        self._request = request
        self._is_plain = request.output_schema is None
        self._item_id = ""
        self._pieces: list[str] = []
        self._sent = ""  # what the present attempt goes on from
        self.times = 0  # that it went on
        self._now_id = ""  # the message's id in the present attempt
        self._echo = Echo("")
        self._is_whole = False

    def take(self, event: AnyResponseEvent) -> Iterator[AnyResponseEvent]:
        """What the agent is to hear of an event."""
        if self._sent and not self._is_whole:
            yield from self._join(event)
            return
        match event:
            case Held():
                pass
            case ItemStarted(kind="message", item_id=name) if not self._item_id:
                self._item_id = name
            case TextPiece(item_id=name, text=text) if name == self._item_id:
                self._pieces.append(text)
            case _:
                self._is_plain = False
        yield event

    def go_on(self, failure: Failure) -> RenderedRequest | None:
        """The request that goes on where the stream broke; None: it cannot be gone on with."""
        if not (self._is_plain and failure.retryable and failure.kind in _BROKEN):
            return None
        text = "".join(self._pieces).rstrip()
        is_news = len(text) >= max(LEAST_CHARS, len(self._sent) + 1)
        if not is_news or self.times >= MOST_TIMES or self._may_be_call(text):
            return None
        body = self._request.with_partial(text)
        if not body:
            return None
        self.times += 1
        self._sent, self._pieces, self._now_id, self._echo = text, [text], "", Echo(text)
        return msgspec.structs.replace(self._request, body=body, without_thinking=tuple)

    def _may_be_call(self, text: str) -> bool:
        return bool(self._request.tools) and _CALL.search(text) is not None

    def _join(self, event: AnyResponseEvent) -> Iterator[AnyResponseEvent]:
        match event:
            case Held():
                yield event
            case ItemStarted(kind="message", item_id=name) if not self._now_id:
                self._now_id = name
            case TextPiece(item_id=name, text=text) if name == self._now_id:
                yield from self._say(self._echo.feed(text))
            case ItemDone(item=Message(role="assistant") as message) if message.id == self._now_id:
                rest = text_of(message.content)
                if len(rest) >= len(self._sent):
                    rest = rest.removeprefix(self._sent)
                yield from self._close(self._sent + rest)
            case ItemStarted() | ReasoningPiece() | TextPiece():
                self._is_plain = False
                yield event
            case ItemDone(item=item):
                self._is_plain = False
                if isinstance(item, AnyCall):
                    yield from self._close(None)
                yield event
            case Finished():
                yield from self._close(None)
                yield event

    def _say(self, text: str) -> Iterator[AnyResponseEvent]:
        if text:
            self._pieces.append(text)
            yield TextPiece(item_id=self._item_id, text=text)

    def _close(self, whole: str | None) -> Iterator[AnyResponseEvent]:
        """The joined message; without `whole` it is what was said so far."""
        yield from self._say(self._echo.rest())
        self._is_whole, self._is_plain = True, False
        text = "".join(self._pieces) if whole is None else whole
        content = (OutputText(text=text),)
        yield ItemDone(item=Message(role="assistant", content=content, id=self._item_id))


class Echo:
    """Leaves out what a server says again of what it was sent, if it does.

    Args:
        sent: What an echo would be. It is held back as long as it may be one.
    """

    def __init__(self, sent: str) -> None:
        self._sent, self._held = sent, ""
        self._is_open = bool(sent)

    def feed(self, text: str) -> str:
        """What is new, as far as it is clear."""
        if not self._is_open:
            return text
        self._held += text
        if self._sent.startswith(self._held) and self._held != self._sent:
            return ""
        self._is_open = False
        held, self._held = self._held, ""
        return held.removeprefix(self._sent)

    def rest(self) -> str:
        """What was held back and is no echo after all, at the end."""
        held, self._held = self._held, ""
        self._is_open = False
        return held

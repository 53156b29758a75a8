"""Decode the event stream of a response: what all wires share. No I/O.

A wire is a decoder of its events and a table of handlers by event type. Unreadable data cuts the
stream and is never skipped, so an agent never receives text that was joined around a gap. Items
that were complete before the cut stay valid. Events of types without a handler are skipped, as the
wires allow.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Generic

import msgspec

from swarm.mailbox.base.bounded_formats import depth_checked
from swarm.mailbox.protocol.items import (
    AnyItem,
    CustomToolCall,
    FunctionCall,
    Origin,
    TokenUsage,
)

from .backend import (
    AnyResponseEvent,
    Failure,
    NewId,
    RequestWaiting,
    ResponseFinished,
    ResponseItemDone,
    ResponseItemStarted,
    ResponseReasoningDelta,
    ResponseTextDelta,
    SampleError,
)
from .failures import (
    ErrorFields,
    classify_stream_error,
    cut_off,
    read_error_event,
    unreadable,
)
from .fit.call_names import meant_name
from .sse import (
    Decode,
    DecodedEvent,
    Event_co,
    ResponseSize,
    ResponseTooLong,
    UnreadableEvent,
    read_event,
)

EVERY_TYPE = ""  # key of the handler of a wire whose events have no types


class _Typed(msgspec.Struct):
    type: str = ""
    error: msgspec.Raw = msgspec.Raw(b"null")


_decode_type = depth_checked(msgspec.json.Decoder(_Typed).decode)
_decode_name = depth_checked(msgspec.json.Decoder(str).decode)


class WireStream(ABC, Generic[Event_co]):
    """One response. Feed payloads until `finished`; then stop reading.

    Args:
        decode: Decodes an event that has a handler.
        handlers: By event type. A handler emits response events, or raises UnreadableEvent,
            ResponseTooLong or SampleError.
    """

    end_marks = frozenset({b"[DONE]"})  # payloads that are no events

    def __init__(
        self,
        decode: Decode[Event_co],
        handlers: Mapping[str, Callable[[DecodedEvent[Event_co]], None]],
        *,
        provider: str,
        new_id: NewId,
    ) -> None:
        self._decode, self._handlers = decode, handlers
        self._provider, self._new_id = provider, new_id
        self._size = ResponseSize()
        self._events: list[AnyResponseEvent] = []  # of the current call
        self._content_events = 0
        self._items_done = 0
        self._call_ids: set[str] = set()
        self.offered_tools: frozenset[str] = frozenset()  # what a call's name may mean
        self.origin: Origin | None = None  # of what is answered, where it is known
        self.served_model = ""  # the server's own name of the model that answers; "" if none came
        self.finished = False

    @property
    def progress(self) -> int:
        """Grows with the answer; keep-alives add nothing."""
        return self._size.chars + self._content_events

    def feed(self, payload: bytes) -> list[AnyResponseEvent]:
        """The events of one payload; none after the end. Raises SampleError if the response
        failed.
        """
        return self._collect(lambda: self._take(payload))

    def finish(self) -> list[AnyResponseEvent]:
        """The stream has ended. Raises SampleError unless the response was complete."""
        return self._collect(self._end)

    def _collect(self, step: Callable[[], None]) -> list[AnyResponseEvent]:
        if self.finished:
            return []
        name = self._provider
        try:
            step()
        except UnreadableEvent as error:
            raise SampleError(unreadable(provider=name, why=str(error))) from error
        except ResponseTooLong as error:
            text = f"{name}: {error}; ask for less at once, or lower `max_output_tokens`"
            raise SampleError(Failure(kind="bad_response", message=text)) from error
        events, self._events = self._events, []
        return events

    def _take(self, payload: bytes) -> None:
        if not (bare := payload.strip()):
            return
        if bare in self.end_marks:
            self._take_end_mark()
            return
        handler = self._handlers.get(EVERY_TYPE)
        if handler is None:
            if (kind := self._kind_of(payload, bare)) == "error":
                error, name = read_error_event(payload), self._provider
                raise SampleError(classify_stream_error(error, provider=name, event=payload))
            self._content_events += self._has_content(kind)
            handler = self._handlers.get(kind)
        if handler is not None:
            handler(read_event(self._decode, payload))

    def _kind_of(self, payload: bytes, bare: bytes) -> str:
        """The type of an event, on a wire that has them; "" for one that is empty."""
        typed = read_event(_decode_type, payload).event
        if typed.type:
            return typed.type
        if bytes(typed.error) != b"null":  # proxies send errors in a form of their own
            return "error"
        if bare != b"{}":
            raise UnreadableEvent("an event does not say of what type it is")
        return ""

    def _has_content(self, kind: str) -> bool:
        """True if an event of this type is progress although it holds no text that is used."""
        return False

    def _take_end_mark(self) -> None:
        """An end mark came; on most wires an event says the same."""
        return

    @abstractmethod
    def _end(self) -> None:
        """The stream has ended. Raises UnreadableEvent and SampleError."""

    def _note_model(self, name: msgspec.Raw) -> None:
        """A name of the model came. It is no part of the answer: an odd one is passed over."""
        if not self.served_model:
            try:
                self.served_model = _decode_name(name)
            except msgspec.DecodeError:
                return

    # --- what handlers emit ------------------------------------------------------------------

    def _emit_waiting(self, reason: str) -> None:
        self._events.append(RequestWaiting(reason=reason, delay_s=0.0))

    def _emit_started(self, item_id: str, kind: str, tool: str = "") -> None:
        self._events.append(
            ResponseItemStarted(item_id=item_id, kind=kind, tool=tool and self._meant(tool))
        )

    def _meant(self, name: str) -> str:
        """The tool that a call's name means."""
        return meant_name(name, self.offered_tools)

    def _emit_text(self, item_id: str, text: str) -> None:
        if text:
            self._events.append(ResponseTextDelta(item_id=item_id, text=text))

    def _emit_reasoning(self, item_id: str, text: str) -> None:
        if text:
            self._events.append(ResponseReasoningDelta(item_id=item_id, text=text))

    def _emit_item(self, item: AnyItem) -> None:
        self._items_done += 1
        if isinstance(item, FunctionCall | CustomToolCall):
            call_id = item.call_id
            if call_id in self._call_ids:  # an output must belong to one call
                call_id = f"call_{self._new_id()}_{len(self._call_ids)}"
            self._call_ids.add(call_id)
            item = msgspec.structs.replace(item, name=self._meant(item.name), call_id=call_id)
        self._events.append(ResponseItemDone(item=item))

    def _emit_finished(
        self,
        response_id: str,
        usage: TokenUsage | None,
        *,
        end_turn: bool | None = None,
        truncated: bool = False,
    ) -> None:
        self.finished = True
        self._events.append(
            ResponseFinished(
                response_id=response_id, usage=usage, end_turn=end_turn, truncated=truncated
            )
        )

    def _origin_with(self, fields: str, *, is_needed: bool = False) -> Origin | None:
        """The origin of an item with such fields; None if nothing of it must be known later."""
        if self.origin is None or not (fields or is_needed):
            return None
        return msgspec.structs.replace(self.origin, fields=fields)

    # --- how a response fails ----------------------------------------------------------------

    def _cut_off(self, why: str) -> SampleError:
        return SampleError(cut_off("final", provider=self._provider, why=why))

    def _failed(self, error: ErrorFields) -> SampleError:
        return SampleError(classify_stream_error(error.body(), provider=self._provider))

    def _incomplete(self, text: str) -> SampleError:
        return SampleError(Failure(kind="incomplete", message=text))

"""Redacts secrets in streamed deltas: one redacting stream per message and per call.

Text that is shown before it is journaled hides the same secrets as the journal does, also a key
that is split across two deltas. The record that ends a stream contains the whole text, so what the
stream held back is not lost.
"""

from collections.abc import Iterator

from msgspec.structs import replace

from swarm.mailbox.base.redact import Redactor
from swarm.mailbox.base.redact_stream import RedactedStream
from swarm.mailbox.base.redact_structs import redact_struct
from swarm.mailbox.protocol.control import TransientEvent
from swarm.mailbox.protocol.events import (
    CallEnded,
    OutputArrived,
    ReasoningArrived,
    TextArrived,
    TurnAborted,
    TurnCompleted,
    TurnFailed,
    Waiting,
)
from swarm.mailbox.protocol.records import AgentEnded, ItemRecorded, ProcessEnded, Record

_MAX_STREAMS = 64  # per agent at once; further streams are not shown until they are complete

_Name = tuple[str, str]  # kind of text, and the id of its item or call
_Delta = TextArrived | ReasoningArrived | OutputArrived


class DeltaRedactor:
    """The open delta streams of all agents. Never waits, never raises."""

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        self._streams: dict[str, dict[_Name, tuple[_Delta, RedactedStream]]] = {}

    def redact(self, passed: TransientEvent) -> TransientEvent | None:
        """The event as it may be shown; None while all of its text is held back."""
        event = passed.event
        if isinstance(event, Waiting):
            event = replace(event, reason=self._redactor.redact_error(event.reason))
            return replace(passed, event=event)
        if not isinstance(event, _Delta):
            return redact_struct(self._redactor, passed)  # rare: gateway events, already clean
        streams = self._streams.setdefault(passed.agent, {})
        name = _name_of(event)
        if name not in streams and len(streams) >= _MAX_STREAMS:
            return None
        _, stream = streams.get(name) or (event, RedactedStream(self._redactor))
        streams[name] = replace(event, delta=""), stream
        shown = stream.push(event.delta)
        return replace(passed, event=replace(event, delta=shown)) if shown else None

    def end_streams(self, record: Record) -> Iterator[TransientEvent]:
        """Held-back rest of the streams that this record ends, to be shown before the record."""
        streams = self._streams.get(record.agent)
        if streams is None:
            return
        for name in _ended_by(record, streams):
            event, stream = streams.pop(name)
            if rest := stream.finish():
                yield TransientEvent(agent=record.agent, event=replace(event, delta=rest))
        if not streams:
            del self._streams[record.agent]


def _name_of(event: _Delta) -> _Name:
    if isinstance(event, OutputArrived):
        return "output", event.call_id
    return ("text" if isinstance(event, TextArrived) else "reasoning"), event.item_id


def _ended_by(record: Record, streams: dict[_Name, tuple[_Delta, RedactedStream]]) -> list[_Name]:
    match record.body:
        case ItemRecorded(item_id=item_id):
            ended = [("text", item_id), ("reasoning", item_id)]
        case CallEnded(call_id=call_id):
            ended = [("output", call_id)]
        case TurnCompleted() | TurnFailed() | TurnAborted() | ProcessEnded() | AgentEnded():
            return list(streams)
        case _:
            return []
    return [name for name in ended if name in streams]

"""Assemble the tool calls of a Chat Completions response from their fragments. No I/O.

Some servers number the calls, some give them ids, some do neither; a fragment belongs to the call
that it names. A fragment that names no begun call, or that contradicts an earlier one, is an error.
"""

import msgspec

from .event_payloads import DecodedEvent, UnreadableEvent
from .text_accumulator import ResponseSize, TextAccumulator


class FunctionCallDelta(msgspec.Struct):
    name: str | None = None
    arguments: msgspec.Raw = msgspec.Raw(b"null")


class ToolCallDelta(msgspec.Struct):
    """One entry of a chunk's `tool_calls`."""

    index: int | None = None
    id: str | None = None
    function: FunctionCallDelta | None = None


_decode_text = msgspec.json.Decoder(str).decode


class _PendingCall:
    """A call whose arguments still arrive."""

    def __init__(self, size: ResponseSize) -> None:
        self.id = ""
        self.name = ""
        self.arguments = TextAccumulator(size)
        self.is_given = False  # its arguments came complete, as an object


class PendingCalls:
    """All calls of one response, in the order in which they began."""

    def __init__(self, size: ResponseSize) -> None:
        self._size = size
        self._calls: list[_PendingCall] = []
        self._by_id: dict[str, _PendingCall] = {}
        self._by_index: dict[int, _PendingCall] = {}
        self._last_index: int | None = None  # of the call that began last

    def __len__(self) -> int:
        return len(self._calls)

    def take(self, slot: ToolCallDelta, read: DecodedEvent[object]) -> str | None:
        """Add a fragment. Returns the call's id ("" for none) if the fragment gave the call its
        name.

        Raises UnreadableEvent and ResponseTooLong.
        """
        function = slot.function or FunctionCallDelta()
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
        return call.id

    def whole(self) -> list[tuple[str, str, str]]:
        """Id, name and arguments of each call, after the last fragment. Raises UnreadableEvent."""
        if any(not call.name for call in self._calls):
            raise UnreadableEvent("a call has no name")
        return [(call.id, call.name, call.arguments.whole()) for call in self._calls]

    def _find(self, slot: ToolCallDelta) -> _PendingCall | None:
        if slot.id and slot.id in self._by_id:
            return self._by_id[slot.id]
        by_index = None if slot.index is None else self._by_index.get(slot.index)
        if by_index is not None and not (slot.id and by_index.id and slot.id != by_index.id):
            return by_index
        if slot.index is None and not slot.id and self._calls:
            return self._calls[-1]
        return None

    def _begin(self, slot: ToolCallDelta, function: FunctionCallDelta) -> _PendingCall | None:
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

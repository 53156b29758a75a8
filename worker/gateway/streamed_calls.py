"""Put the calls of a Chat Completions stream together from their entries. No I/O.

Servers differ in what they send: an index that has gaps, counts other blocks, is the same for all
or is missing; ids that are missing, empty or the same; names in each entry or in two pieces;
arguments as text or as an object. An entry goes on with a call, or begins one:

- an id that is known goes on with its call, and an id that is new begins one;
- the index of a call goes on with it, unless the entry has a name and the call is whole;
- without either, an entry with a name begins a call once the last one is whole, and each further
  entry of the same event is a call of its own.

Calls stand in the order in which they began.
"""

import msgspec

from .opaque_fields import OpaqueFields
from .sse import (
    DecodedEvent,
    ResponseSize,
    TextAccumulator,
    UnreadableEvent,
    describe_decode_error,
    is_object,
)


class _FunctionEntry(msgspec.Struct):
    name: str | None = None
    arguments: msgspec.Raw = msgspec.Raw(b"null")


class CallEntry(msgspec.Struct):
    """One entry of an event's `tool_calls`, as far as it is used."""

    index: int | float | str | None = None
    id: str | int | float | None = None
    function: msgspec.Raw = msgspec.Raw(b"null")

    @property
    def place(self) -> int | str | None:
        """The index; some servers send it as text."""
        if isinstance(self.index, str) and self.index.isdecimal():
            return int(self.index)
        return int(self.index) if isinstance(self.index, float) else self.index


_EMPTY = frozenset({b"null", b'""'})
_decode_entry = msgspec.json.Decoder(CallEntry).decode
_decode_function = msgspec.json.Decoder(_FunctionEntry | None).decode
_decode_fields = msgspec.json.Decoder(dict[str, msgspec.Raw] | None).decode
_decode_text = msgspec.json.Decoder(str).decode


def _read_entry(raw: msgspec.Raw) -> tuple[CallEntry, _FunctionEntry]:
    """An entry, and what it says of its function. Raises UnreadableEvent."""
    try:
        slot = _decode_entry(raw)
    except (msgspec.DecodeError, RecursionError) as error:
        raise UnreadableEvent(describe_decode_error(error)) from None
    has_function = bytes(slot.function) != b"null"
    return slot, _read_function(slot.function if has_function else raw)


def _read_function(raw: msgspec.Raw) -> _FunctionEntry:
    try:
        return _decode_function(raw) or _FunctionEntry()
    except (msgspec.DecodeError, RecursionError) as error:
        raise UnreadableEvent(describe_decode_error(error)) from None


def _read_fields(raw: msgspec.Raw) -> dict[str, msgspec.Raw]:
    try:
        return _decode_fields(raw) or {}
    except (msgspec.DecodeError, RecursionError) as error:
        raise UnreadableEvent(describe_decode_error(error)) from None


def is_empty_call(function: msgspec.Raw) -> bool:
    """True for a `function` that names nothing and has no arguments, whatever it is made of."""
    if not bytes(function).startswith(b"{"):
        return True
    said = _read_function(function)
    return not said.name and bytes(said.arguments) in _EMPTY | {b"{}", b'"{}"'}


def _without_placeholder(arguments: str) -> str:
    """The arguments without the `{}` that some servers send before the pieces."""
    rest = arguments.removeprefix("{}")
    return rest if rest != arguments and is_object(rest) else arguments


class StreamedCall:
    """A call whose arguments still arrive."""

    def __init__(self, size: ResponseSize) -> None:
        self.id = ""
        self.name = ""
        self.arguments = TextAccumulator(size)
        self.is_given = False  # its arguments came complete, as an object
        self.fields, self.function_fields = OpaqueFields(), OpaqueFields()
        self.event = 0  # in which it began

    @property
    def is_whole(self) -> bool:
        """True if its arguments are a JSON object already."""
        return self.is_given or (self.arguments.ends_with("}") and is_object(self.arguments.peek()))


class StreamedCalls:
    """All calls of one response, in the order in which they began.

    Args:
        offered: Names of the tools that may be called.
    """

    def __init__(self, size: ResponseSize, offered: frozenset[str]) -> None:
        self._size, self._offered = size, offered
        self._calls: list[StreamedCall] = []
        self._by_index: dict[int | str, StreamedCall] = {}
        self._by_id: dict[str, StreamedCall] = {}
        self._lanes: list[StreamedCall] = []  # the calls of the last event with names, in its order
        self._events = 0

    def __len__(self) -> int:
        return len(self._calls)

    @property
    def calls(self) -> list[StreamedCall]:
        """The calls so far."""
        return self._calls

    def take(
        self, entries: tuple[msgspec.Raw, ...], read: DecodedEvent[object]
    ) -> list[StreamedCall]:
        """Add the entries of one event. Returns the calls that got their name by it.

        Raises UnreadableEvent and ResponseTooLong.
        """
        self._events += 1
        named: list[StreamedCall] = []
        for place, raw in enumerate(entries):
            lane = self._lanes[place] if len(entries) == len(self._lanes) > 1 else None
            call = self._take_one(raw, read, lane)
            if call is not None:
                named.append(call)
        if named:
            self._lanes = [call for call in self._calls if call.event == self._events]
        return named

    def _take_one(
        self, raw: msgspec.Raw, read: DecodedEvent[object], lane: StreamedCall | None
    ) -> StreamedCall | None:
        slot, function = _read_entry(raw)
        slot_id = read.identifier("" if slot.id is None else str(slot.id))
        name = read.identifier(function.name or "")
        if lane is None or name or slot_id or slot.index is not None:
            lane = self._find(slot, slot_id, name) or self._begin(slot_id, name, function)
        if (call := lane) is None:
            return None
        self._bind(call, slot, slot_id)
        is_named = self._name(call, name)
        self._add(call, function.arguments, read)
        call.fields.add(_read_fields(raw), read)
        call.function_fields.add(_read_fields(slot.function), read)
        return call if is_named else None

    def _bind(self, call: StreamedCall, slot: CallEntry, slot_id: str) -> None:
        if slot_id and not call.id and slot_id not in self._by_id:
            call.id = slot_id
        if slot_id:
            self._by_id.setdefault(slot_id, call)
        if slot.place is not None:
            self._by_index[slot.place] = call

    def whole(self) -> list[tuple[StreamedCall, str]]:
        """The calls with their arguments, after the last entry. Raises UnreadableEvent."""
        if any(not call.name for call in self._calls):
            raise UnreadableEvent("a call has no name")
        return [(call, _without_placeholder(call.arguments.whole())) for call in self._calls]

    def are_whole(self) -> bool:
        """True if nothing of any call is missing, as far as can be seen."""
        return all(call.name and (call.is_whole or not call.arguments) for call in self._calls)

    # --- which call an entry is of -----------------------------------------------------------

    def _find(self, slot: CallEntry, slot_id: str, name: str) -> StreamedCall | None:
        """The call that the entry goes on with; None: it begins one."""
        place = slot.place
        at_place = None if place is None else self._by_index.get(place)
        if slot_id and (known := self._by_id.get(slot_id)) is not None:
            is_moved = place is not None and at_place is not known
            is_new = name and (is_moved or self._is_other(known, name, slot))
            return None if is_new else known
        if place is None:
            at_place = self._calls[-1] if self._calls and not slot_id else None
        if at_place is None:
            return None
        if slot_id and at_place.id and not self._goes_on(at_place, name, slot):
            return None
        return None if self._is_new(at_place, name) else at_place

    def _goes_on(self, call: StreamedCall, name: str, slot: CallEntry) -> bool:
        """True for a piece whose server makes a new id for each: only arguments can follow."""
        is_begun = bool(call.arguments) and not call.is_whole
        return slot.place is not None and is_begun and name in {"", call.name}

    def _is_other(self, call: StreamedCall, name: str, slot: CallEntry) -> bool:
        """True if an entry with the id of the call is none of it, though nothing else says so."""
        has_arguments = bytes(_read_function(slot.function).arguments) not in _EMPTY
        return (has_arguments or name != call.name) and call.is_whole

    def _is_new(self, call: StreamedCall, name: str) -> bool:
        """True if an entry with this name, without an id of its own, begins a call."""
        if not name or not call.name:
            return False
        if call.event == self._events or call.is_whole:
            return True
        if name == call.name or self._joined_name(call, name) is not None:
            return False
        return call.name in self._offered and not call.id

    def _joined_name(self, call: StreamedCall, name: str) -> str | None:
        """The name as far as it is known, where it comes in pieces, or again from its beginning."""
        if call.arguments:
            return None
        whole = [call.name + name, *([name] if name.startswith(call.name) else [])]
        offered = [one for one in whole if one in self._offered]
        begun = [one for one in whole if any(tool.startswith(one) for tool in self._offered)]
        if found := offered or begun:
            return found[0]
        # A name that nobody offered: the model is told so, rather than the answer thrown away.
        return None if call.name in self._offered or name in self._offered else whole[-1]

    def _begin(self, slot_id: str, name: str, function: _FunctionEntry) -> StreamedCall | None:
        """Begin a call at its id or its name; None for an empty entry."""
        is_empty = bytes(function.arguments) in _EMPTY
        if not slot_id and not name:
            if is_empty:
                return None
            raise UnreadableEvent("arguments came for a call that has not begun")
        last = self._calls[-1] if self._calls else None
        is_repeat = last is not None and last.event < self._events and name == last.name
        if is_repeat and not slot_id and is_empty:
            return None  # the end of the last call, said with its name
        self._size.begin_item()
        call = StreamedCall(self._size)
        call.event = self._events
        self._calls.append(call)
        return call

    def _name(self, call: StreamedCall, name: str) -> bool:
        """Give the call its name; True if it is new."""
        if not name or name == call.name:
            return False
        if call.name:
            whole = self._joined_name(call, name)
            if whole is None:
                raise UnreadableEvent("a call changes its name")
            name = whole
        call.name = name
        return True

    def _add(self, call: StreamedCall, raw: msgspec.Raw, read: DecodedEvent[object]) -> None:
        """Add a fragment of JSON text; some servers send the value itself, or null."""
        data = bytes(raw)
        if data == b"null":
            return
        is_text = data.startswith(b'"')  # anything else is whole; the tool says what it takes
        piece = _decode_text(data) if is_text else data.decode()
        if piece and call.arguments and (call.is_given or not is_text):
            raise UnreadableEvent("arguments came again after they were whole")
        call.arguments.add(read.text(piece))
        call.is_given = call.is_given or not is_text

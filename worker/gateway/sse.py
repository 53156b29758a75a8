r"""Server-sent events: split bytes into events, decode their JSON, assemble texts. Pure.

Line ends may be CR, LF or CRLF, split anywhere. Comments and the other fields of the standard are
dropped; the data lines of one event are joined by a newline, but two lines that are an object each
are two events: some servers leave out the blank line between them. Any other line may be a damaged
part of an event, so it is returned as an unreadable event. An event over the limit is an error, so
that memory stays bounded; so is a response whose texts are over theirs.

An event is decoded completely or not at all: an unreadable one may have carried a part of an item,
so it is never skipped. `UnreadableEvent` says why it is unreadable, and never quotes the payload.

JSON writes a character beyond U+FFFF as a surrogate pair (`\ud83d\ude00`). A server that cuts its
text anywhere sends one surrogate at the end of an event and the other at the start of the next.
msgspec rejects lone surrogates, so each is replaced by a mark, a code point that no text here can
contain; `text` turns the mark back into the surrogate, and `TextAccumulator` joins the surrogates
of two fragments.
"""

import re
from collections.abc import Callable
from typing import Generic, TypeVar

import msgspec

from swarm.mailbox.base.bounded_formats import depth_checked
from swarm.mailbox.base.errors import SwarmError

Event_co = TypeVar("Event_co", covariant=True)
Decode = Callable[[bytes], Event_co]

_ESCAPE = re.compile(
    rb"\\(?:u(?P<pair>[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2})"
    rb"|u(?P<half>[dD][89a-fA-F][0-9a-fA-F]{2})|.)",
    re.DOTALL,
)
_FIRST_HALF, _FIRST_MARK = 0xD800, 0x10F800  # marks: the last 2,048 code points, one per surrogate
_MARK = re.compile("[\U0010f800-\U0010ffff]")
MOST_CHARS = 8 * 1024 * 1024  # limit of all texts of one response together
MOST_ITEMS = 2_000  # of one response: calls, messages, blocks
_SURROGATE = re.compile("[\ud800-\udfff]")
_ALONE = "half a character stands alone"

_decode_object = depth_checked(msgspec.json.Decoder(dict[str, msgspec.Raw]).decode)
_BEYOND = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
MAX_EVENT_BYTES = 16 * 1024 * 1024
DAMAGED = b"\xff"  # returned for a line that is invalid in an event stream; no decoder reads it
_BOM = b"\xef\xbb\xbf"
_PASSED_OVER = (b":", b"event:", b"id:", b"retry:")
_BARE = frozenset({b"event", b"id", b"retry"})


class EventTooLarge(SwarmError):
    """One event, or one line, is longer than the limit."""

    def __init__(self, *, limit_bytes: int) -> None:
        super().__init__(f"one event of the stream is over {limit_bytes:,} bytes")
        self.limit_bytes = limit_bytes


class SseSplitter:
    """Feed it chunks as they arrive; it returns the events that they complete."""

    def __init__(self, *, limit_bytes: int = MAX_EVENT_BYTES) -> None:
        self._limit = limit_bytes
        self._line: list[bytes] = []  # pieces of an incomplete line
        self._data: list[bytes] = []  # data lines of an incomplete event
        self._size = 0  # bytes held in both
        self._after_cr = False  # the last chunk ended in CR: a following LF belongs to it
        self._first = True  # the first line may begin with a byte order mark
        self.events_seen = 0

    def feed(self, chunk: bytes) -> list[bytes]:
        """The data of every event that `chunk` completes. Raises EventTooLarge."""
        if not chunk:
            return []
        if self._after_cr and chunk.startswith(b"\n"):
            chunk = chunk[1:]
        self._after_cr = chunk.endswith(b"\r")
        if b"\r" in chunk:
            chunk = chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        lines = chunk.split(b"\n")
        self._keep_piece(lines[0])
        events: list[bytes] = []
        if len(lines) > 1:
            self._take_line(self._whole_line(), events)
            for line in lines[1:-1]:
                self._take_line(line, events)
            self._keep_piece(lines[-1])
        return events

    def finish(self) -> list[bytes]:
        """The last event of a closed stream that lacks its blank line, if there is one."""
        events: list[bytes] = []
        if self._line:
            self._take_line(self._whole_line(), events)
        self._take_line(b"", events)
        self._size = 0
        return events

    def _whole_line(self) -> bytes:
        line = b"".join(self._line)
        self._line.clear()
        self._size -= len(line)
        return line

    def _keep_piece(self, piece: bytes) -> None:
        if piece:
            self._line.append(piece)
            self._grow(len(piece))

    def _take_line(self, line: bytes, events: list[bytes]) -> None:
        if self._first:
            self._first = False
            line = line.removeprefix(_BOM)
        if not line:
            if self._data:
                events.append(b"\n".join(self._data) if len(self._data) > 1 else self._data[0])
                self._data.clear()
                self._size = 0
                self.events_seen += 1
        elif line.startswith(b"data:"):
            value = line[6:] if line[5:6] == b" " else line[5:]
            if self._is_object(value):
                self._take_line(b"", events)
            self._data.append(value)
            self._grow(len(value) + 1)
        elif line == b"data":
            self._data.append(b"")
            self._grow(1)
        elif not line.startswith(_PASSED_OVER) and line not in _BARE:
            events.append(DAMAGED)

    def _is_object(self, value: bytes) -> bool:
        """True if what came is an object, and this line begins another one, or is the end mark."""
        first = self._data[0] if len(self._data) == 1 else b""
        is_next = value.startswith(b"{") or value.strip() == b"[DONE]"
        return is_next and first.startswith(b"{") and first.rstrip().endswith(b"}")

    def _grow(self, size_bytes: int) -> None:
        self._size += size_bytes
        if self._size > self._limit:
            raise EventTooLarge(limit_bytes=self._limit)


class UnreadableEvent(SwarmError):
    """The payload cannot be decoded, or does not fit the earlier events."""


class DecodedEvent(Generic[Event_co]):
    """An event, and whether it contains lone surrogates."""

    __slots__ = ("_event", "has_halves")

    def __init__(self, event: Event_co, *, has_halves: bool = False) -> None:
        self._event, self.has_halves = event, has_halves

    @property
    def event(self) -> Event_co:
        """The decoded event."""
        return self._event

    def text(self, sent: str) -> str:
        """A fragment of a text, which may begin and end with a lone surrogate."""
        return _MARK.sub(lambda found: _half_of(found[0]), sent) if self.has_halves else sent

    def identifier(self, sent: str) -> str:
        """A name or an id, which is always complete. Raises UnreadableEvent."""
        if self.has_halves and _MARK.search(sent) is not None:
            raise UnreadableEvent("half a character stands where no piece of a text is")
        return sent


def read_event(decode: Decode[Event_co], payload: bytes) -> DecodedEvent[Event_co]:
    """Decode a payload. Raises UnreadableEvent."""
    try:
        if not payload.isascii():
            payload.decode()  # the decoder does not check what it leaves encoded
        return DecodedEvent(decode(payload))
    except UnicodeDecodeError:
        raise UnreadableEvent("it is no UTF-8") from None
    except RecursionError:
        raise UnreadableEvent("it is nested too deep") from None
    except msgspec.DecodeError as error:
        if (marked := _mark_halves(payload)) is None:
            raise UnreadableEvent(describe_decode_error(error)) from None
    try:
        return DecodedEvent(decode(marked), has_halves=True)
    except _BEYOND as error:
        raise UnreadableEvent(describe_decode_error(error)) from None


def describe_decode_error(error: Exception) -> str:
    """Why a decoder failed: only positions and types, no content."""
    if isinstance(error, msgspec.ValidationError):
        return f"a field has the wrong type ({str(error)[:100]})"
    return "it is no JSON"


def _mark_halves(payload: bytes) -> bytes | None:
    """The payload with a mark for each lone surrogate. None: it has none, or it already contains
    a mark, which could not be told from a surrogate.
    """
    count, is_clear = 0, _MARK.search(payload.decode()) is None

    def mark(found: re.Match[bytes]) -> bytes:
        nonlocal count, is_clear
        if (half := found["half"]) is not None:
            count += 1
            return chr(int(half, 16) - _FIRST_HALF + _FIRST_MARK).encode()
        is_clear = is_clear and not (found["pair"] and _is_mark(found["pair"]))
        return found[0]

    marked = _ESCAPE.sub(mark, payload)
    return marked if count and is_clear else None


def _is_mark(pair: bytes) -> bool:
    high, low = int(pair[:4], 16), int(pair[6:], 16)
    return 0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00) >= _FIRST_MARK


def _half_of(mark: str) -> str:
    return chr(ord(mark) - _FIRST_MARK + _FIRST_HALF)


def is_object(text: str) -> bool:
    """True if the text is one JSON object."""
    try:
        _decode_object(text.encode())
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return False
    return True


class ResponseTooLong(SwarmError):
    """The texts of one response together, or its items, exceed their limit."""

    def __init__(self, over: str = f"{MOST_CHARS:,} characters") -> None:
        super().__init__(f"the response is over {over}")


class ResponseSize:
    """The characters and items received so far; all texts of a response share one counter."""

    __slots__ = ("_items", "chars")

    def __init__(self) -> None:
        self.chars = 0
        self._items = 0

    def begin_item(self) -> None:
        """A call, a message or another item begins. Raises ResponseTooLong."""
        self._items += 1
        if self._items > MOST_ITEMS:
            raise ResponseTooLong(f"{MOST_ITEMS:,} items")


class TextAccumulator:
    """A text that still arrives."""

    __slots__ = ("_half", "_pieces", "_size")

    def __init__(self, size: ResponseSize) -> None:
        self._size = size
        self._pieces: list[str] = []
        self._half = ""  # a high surrogate: the next fragment must begin with the low one

    def __bool__(self) -> bool:
        """True once anything has arrived."""
        return bool(self._pieces or self._half)

    def add(self, piece: str) -> str:
        """Add a fragment; returns the complete characters. Raises UnreadableEvent and
        ResponseTooLong.
        """
        self._size.chars += len(piece)
        if self._size.chars > MOST_CHARS:
            raise ResponseTooLong
        if piece and (self._half or not piece.isascii()):
            piece = self._join(piece)
        if piece:
            self._pieces.append(piece)
        return piece

    def _join(self, piece: str) -> str:
        piece = self._half + piece
        self._half = ""
        if _SURROGATE.search(piece) is None:
            return piece
        if "\ud800" <= piece[-1] <= "\udbff":
            piece, self._half = piece[:-1], piece[-1]
        try:
            return piece.encode("utf-16-le", "surrogatepass").decode("utf-16-le")
        except UnicodeDecodeError:
            raise UnreadableEvent(_ALONE) from None

    def ends_with(self, character: str) -> bool:
        """True if the text so far ends with this character."""
        return (
            bool(self._pieces) and not self._half and self._pieces[-1].rstrip().endswith(character)
        )

    def peek(self) -> str:
        """The text so far."""
        return "".join(self._pieces)

    def whole(self) -> str:
        """The text, after the last fragment. Raises UnreadableEvent."""
        if self._half:
            raise UnreadableEvent(_ALONE)
        return "".join(self._pieces)

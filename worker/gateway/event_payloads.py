"""One event's JSON, read as a whole or not at all: what every wire does with what it is sent.

The rule it guards: an event that cannot be read may have carried a part of an item, so it is never
passed over. `Unreadable` says why, and never quotes what was sent.

A character beyond U+FFFF is two halves in JSON (`\\ud83d\\ude00`), and a server that cuts its text
anywhere sends one half at the end of an event and the other at the beginning of the next. Our
decoder knows no halves: each stands in as a character that no text here can hold, until `text`
puts the half back. pieces.py joins them.
"""

import re
from collections.abc import Callable
from typing import Generic, TypeVar

import msgspec

from swarm.mailbox.errors import SwarmError

Event_co = TypeVar("Event_co", covariant=True)
Decode = Callable[[bytes], Event_co]

_ESCAPE = re.compile(
    rb"\\(?:u(?P<pair>[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2})"
    rb"|u(?P<half>[dD][89a-fA-F][0-9a-fA-F]{2})|.)",
    re.DOTALL,
)
_FIRST_HALF, _FIRST_MARK = 0xD800, 0x10F800  # marks: the last 2,048 of Unicode, one a half
_MARK = re.compile("[\U0010f800-\U0010ffff]")
_decode_object = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_BEYOND = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


class UnreadableEvent(SwarmError):
    """What was sent cannot be read, or does not fit what came before it."""


class DecodedEvent(Generic[Event_co]):
    """An event, and whether halves of characters stand in it."""

    __slots__ = ("_event", "has_halves")

    def __init__(self, event: Event_co, *, has_halves: bool = False) -> None:
        self._event, self.has_halves = event, has_halves

    @property
    def event(self) -> Event_co:
        """What was sent."""
        return self._event

    def text(self, sent: str) -> str:
        """A piece of a text, which may begin and end with half a character."""
        return _MARK.sub(lambda found: _half_of(found[0]), sent) if self.has_halves else sent

    def identifier(self, sent: str) -> str:
        """A name or the like, which is always whole. Raises Unreadable."""
        if self.has_halves and _MARK.search(sent) is not None:
            raise UnreadableEvent("half a character stands where no piece of a text is")
        return sent


def read_event(decode: Decode[Event_co], payload: bytes) -> DecodedEvent[Event_co]:
    """The event of a payload. Raises Unreadable."""
    try:
        if not payload.isascii():
            payload.decode()  # the decoder does not look into what it leaves encoded
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
    """Why a decoder refused, without what it refused: places and types only."""
    if isinstance(error, msgspec.ValidationError):
        return f"a field has the wrong type ({str(error)[:100]})"
    return "it is no JSON"


def _mark_halves(payload: bytes) -> bytes | None:
    """The payload with a mark in place of each half that stands alone; None: there is none, or a
    mark was sent, which could not be told from a half any more.
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

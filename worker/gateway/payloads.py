"""One event's JSON, read as far as it can be: what every wire does with what it is sent."""

from collections.abc import Callable
from typing import TypeVar

import msgspec

Event = TypeVar("Event")


def decode_payload(decode: Callable[[bytes | str], Event], payload: bytes) -> Event | None:
    """The event; None for what cannot be read.

    Bytes that are no UTF-8 cost their characters, not the event.
    """
    try:
        return decode(payload)
    except (msgspec.DecodeError, UnicodeDecodeError):
        try:
            return decode(payload.decode("utf-8", "replace"))
        except msgspec.DecodeError:
            return None

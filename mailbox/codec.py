"""Bytes ⇄ Envelope. The door where size, version and shape are checked, before anything else.

The rule it guards: whatever bytes arrive, the outcome is an Envelope or a MalformedMessage.
"""

import msgspec

from .errors import MalformedMessage, MessageTooLarge
from .protocol.base import PROTOCOL_VERSION
from .sequencer import Envelope

FRAME_BYTES = 1024 * 1024  # senders refuse more; receivers count it and drop it

_SMALL_ARRAYS = range(0x90, 0xA0)  # msgpack: an array of up to 15 elements, its length in one byte
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Envelope).decode


class OversizedFrame(MalformedMessage):
    """A frame over 1 MiB."""


class UnknownVersion(MalformedMessage):
    """Well-formed as far as we can see, but of another protocol version."""


def encode_envelope(envelope: Envelope) -> bytes:
    """The frame of an envelope. Raises MessageTooLarge over 1 MiB."""
    frame = _encode(envelope)
    if len(frame) > FRAME_BYTES:
        raise MessageTooLarge(size_bytes=len(frame), limit_bytes=FRAME_BYTES)
    return frame


def decode_envelope(frame: bytes) -> Envelope:
    """The envelope in a frame.

    The version is read before the rest, so that a newer layout is told from nonsense.

    Raises:
        OversizedFrame, UnknownVersion, MalformedMessage: The first two are the third as well.
    """
    if len(frame) > FRAME_BYTES:
        raise OversizedFrame(f"a frame of {len(frame)} bytes is over the limit of {FRAME_BYTES}")
    if len(frame) < 2 or frame[0] not in _SMALL_ARRAYS or frame[1] > 0x7F:
        raise MalformedMessage("the frame is not an envelope")
    if frame[1] != PROTOCOL_VERSION:
        raise UnknownVersion(f"protocol version {frame[1]} is not {PROTOCOL_VERSION}")
    try:
        return _decode(frame)
    except (msgspec.DecodeError, RecursionError) as error:
        raise MalformedMessage(f"the frame is not an envelope: {error}") from error

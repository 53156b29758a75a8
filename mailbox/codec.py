"""Encodes and decodes envelopes; checks size, version and shape. Pure.

Any bytes that arrive decode to an Envelope or raise MalformedMessage.
"""

import msgspec

from .errors import MalformedMessage, MessageTooLarge
from .protocol.base import PROTOCOL_VERSION
from .sequencer import Envelope

FRAME_BYTES = 1024 * 1024  # senders refuse a larger one; receivers count and drop it

_SMALL_ARRAYS = range(0x90, 0xA0)  # msgpack: arrays of up to 15 elements, with a one-byte header
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Envelope).decode


class OversizedFrame(MalformedMessage):
    """A frame over 1 MiB."""


class UnknownVersion(MalformedMessage):
    """The frame has another protocol version; nothing else in it was checked."""


def encode_envelope(envelope: Envelope) -> bytes:
    """Encode an envelope as a frame. Raises MessageTooLarge over 1 MiB."""
    frame = _encode(envelope)
    if len(frame) > FRAME_BYTES:
        raise MessageTooLarge(size_bytes=len(frame), limit_bytes=FRAME_BYTES)
    return frame


def decode_envelope(frame: bytes) -> Envelope:
    """Decode a frame.

    The version is checked before the rest, so a newer layout is not reported as malformed.

    Raises:
        OversizedFrame, UnknownVersion, MalformedMessage: The first two are subclasses of the third.
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

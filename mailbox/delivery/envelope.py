"""Envelopes: what is sent, its encoding, and the fragments of large bodies. Pure.

Any bytes that arrive decode to an Envelope or raise MalformedMessage. Memory is bounded at both
ends, whatever the sender does.
"""

import enum
from typing import Annotated

import msgspec

from ..base.errors import MalformedMessage, MessageTooLarge
from ..protocol.values.base import PROTOCOL_VERSION

Count = Annotated[int, msgspec.Meta(ge=0)]

KIB = 1024
FRAGMENT_BYTES = 256 * KIB  # a larger body is split into fragments of this size
MAX_MESSAGE_BYTES = 16 * KIB * KIB  # a larger one is refused; 64 fragments, so it fits one window


class EnvelopeKind(enum.IntEnum):
    """The kind of an envelope, which decides what its `seq` means."""

    WHOLE = 0  # numbered: a body, or its last fragment
    FRAGMENT = 1  # numbered: a fragment; more follow under the next numbers
    TRANSIENT = 2  # unnumbered, not resent
    ACK = 3  # carries only `ack`
    RESEND = 4  # "send again what comes after `seq`"
    PROBE = 5  # "my last number is `seq`: do you have it?"; answered by ACK or RESEND


class Envelope(msgspec.Struct, frozen=True, array_like=True):
    """What is sent, as a msgpack array. `version` always stays the first element."""

    version: Count = PROTOCOL_VERSION
    epoch: Count = 0  # one for each start of the sending process
    seq: Count = 0  # 1, 2, 3 … for each (sender, receiver) pair; see EnvelopeKind
    ack: Count = 0  # all from the peer up to this number is *handled*
    kind: EnvelopeKind = EnvelopeKind.ACK
    body: bytes = b""


def split_into_fragments(body: bytes) -> list[bytes]:
    """Split `body` into fragments, in order; at least one, each of at most 256 KiB.

    Raises MessageTooLarge over 16 MiB.
    """
    size = len(body)
    if size <= FRAGMENT_BYTES:
        return [body]
    if size > MAX_MESSAGE_BYTES:
        raise MessageTooLarge(size_bytes=size, limit_bytes=MAX_MESSAGE_BYTES)
    return [body[at : at + FRAGMENT_BYTES] for at in range(0, size, FRAGMENT_BYTES)]


class FragmentAssembler:
    """Joins fragments that arrive in order. A body over the limit is dropped and reported once."""

    __slots__ = ("_parts", "_size", "count", "overflowed")

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._size = 0
        self.count = 0  # fragments received of the current body
        self.overflowed = False

    def add(self, part: bytes) -> None:
        """Add a fragment that is not the last."""
        self.count += 1
        self._size += len(part)
        if self._size > MAX_MESSAGE_BYTES:
            self.overflowed = True
            self._parts.clear()
        if not self.overflowed:
            self._parts.append(part)

    def finish(self, last: bytes) -> bytes | None:
        """Add the last fragment and reset; return the body, or None if it was over the limit."""
        if not self.count:
            return last
        self.add(last)
        whole = None if self.overflowed else b"".join(self._parts)
        self._parts.clear()
        self._size = self.count = 0
        self.overflowed = False
        return whole


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

"""Whatever bytes arrive: an envelope or a MalformedMessage."""

from contextlib import suppress

import hypothesis.strategies as st
import msgspec
import pytest
from hypothesis import given

from swarm.mailbox.base.errors import MalformedMessage, MessageTooLarge
from swarm.mailbox.delivery.envelope import (
    FRAME_BYTES,
    Envelope,
    EnvelopeKind,
    OversizedFrame,
    UnknownVersion,
    decode_envelope,
    encode_envelope,
)
from swarm.mailbox.protocol.values.base import PROTOCOL_VERSION

NUMBERS = st.integers(min_value=0, max_value=2**63)
ENVELOPES = st.builds(
    Envelope,
    epoch=NUMBERS,
    seq=NUMBERS,
    ack=NUMBERS,
    kind=st.sampled_from(EnvelopeKind),
    body=st.binary(max_size=200),
)


@given(ENVELOPES)
def test_an_envelope_comes_back_as_it_was(envelope):
    assert decode_envelope(encode_envelope(envelope)) == envelope


@given(st.binary(max_size=300))
def test_no_bytes_raise_anything_but_malformed_message(frame):
    with suppress(MalformedMessage):
        decode_envelope(frame)


@given(ENVELOPES, st.integers(0, 400), st.binary(max_size=4))
def test_a_damaged_frame_raises_nothing_but_malformed_message(envelope, where, patch):
    frame = bytearray(encode_envelope(envelope))
    frame[where : where + len(patch)] = patch
    with suppress(MalformedMessage):
        decode_envelope(bytes(frame))


@given(st.recursive(st.none() | st.integers(-9, 9) | st.text(), st.lists, max_leaves=20))
def test_well_formed_msgpack_of_another_shape_is_malformed(value):
    with pytest.raises(MalformedMessage):
        decode_envelope(msgspec.msgpack.encode([PROTOCOL_VERSION, 1, 1, 1, 1, value]))


@pytest.mark.parametrize(
    ("frame", "error"),
    [
        (b"", MalformedMessage),
        (b"\x91" * 5000, MalformedMessage),
        (b"\x96\x01" + b"\x91" * 900_000, MalformedMessage),
        (b"\x96\x01" + b"x" * FRAME_BYTES, OversizedFrame),
        (encode_envelope(Envelope(version=PROTOCOL_VERSION + 1)), UnknownVersion),
        (msgspec.msgpack.encode([PROTOCOL_VERSION + 1, "a layout of tomorrow"]), UnknownVersion),
        (msgspec.msgpack.encode([1, -1, 0, 0, 0, b""]), MalformedMessage),
        (msgspec.msgpack.encode([1, 0, 0, 0, 99, b""]), MalformedMessage),
    ],
)
def test_each_kind_of_bad_frame_has_its_name(frame, error):
    with pytest.raises(error) as caught:
        decode_envelope(frame)
    assert type(caught.value) is error


def test_elements_added_by_a_newer_peer_are_ignored():
    frame = msgspec.msgpack.encode([PROTOCOL_VERSION, 1, 2, 3, 0, b"body", "new"])
    assert decode_envelope(frame) == Envelope(
        epoch=1, seq=2, ack=3, kind=EnvelopeKind.WHOLE, body=b"body"
    )


def test_a_sender_refuses_a_frame_over_one_mebibyte():
    with pytest.raises(MessageTooLarge):
        encode_envelope(Envelope(body=b"x" * FRAME_BYTES))

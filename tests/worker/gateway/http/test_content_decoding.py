"""A packed body is read however it was cut, and never becomes more than it may."""

import gzip
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swarm.worker.gateway.http.content_decoding import (
    FREE_BYTES,
    PIECE_BYTES,
    ContentDecoder,
    UndecodableContent,
)


def raw_deflate(data):
    packer = zlib.compressobj(wbits=-15)
    return packer.compress(data) + packer.flush()


PACKED = {
    "": bytes,
    "identity": bytes,
    "gzip": gzip.compress,
    "x-gzip": lambda data: gzip.compress(data[:7]) + gzip.compress(data[7:]),
    "deflate": zlib.compress,
    " Deflate , identity": raw_deflate,
}


def unpack(encoding, pieces):
    unpacker = ContentDecoder(encoding)
    made = b"".join(part for piece in pieces for part in unpacker.feed(piece))
    unpacker.finish()
    return made


@given(st.sampled_from(sorted(PACKED)), st.binary(max_size=500), st.integers(1, 90))
def test_what_was_packed_comes_out_however_it_was_cut(encoding, data, size):
    packed = PACKED[encoding](data)
    pieces = [packed[at : at + size] for at in range(0, len(packed), size)]
    assert unpack(encoding, pieces) == data


@pytest.mark.parametrize("encoding", ["br", "zstd", "gzip, gzip", "gzip, br", "\x00\xff"])
def test_what_is_not_read_here_is_said_by_its_name(encoding):
    with pytest.raises(UndecodableContent, match="not read here"):
        ContentDecoder(encoding)


@pytest.mark.parametrize("encoding", ["gzip", "deflate"])
def test_what_is_damaged_or_ends_early_is_never_taken_for_whole(encoding):
    packed = PACKED[encoding](b"data: the answer\n\n" * 20)
    with pytest.raises(UndecodableContent, match="middle"):
        unpack(encoding, [packed[:-5]])
    with pytest.raises(UndecodableContent, match="damaged"):
        unpack(encoding, [packed[:-4] + b"\xff" * 4])


@pytest.mark.parametrize("size", [PIECE_BYTES, PIECE_BYTES + 1, 9 * PIECE_BYTES])
def test_the_end_of_what_was_packed_is_not_left_behind(size):
    packed = gzip.compress(b"\0" * size)
    assert len(unpack("gzip", [packed])) == size


def test_a_bomb_is_let_go_off_in_small_pieces_and_then_refused():
    bomb = gzip.compress(b"\0" * (2 * FREE_BYTES))
    unpacker, made = ContentDecoder("gzip"), 0
    with pytest.raises(UndecodableContent, match="unpack"):
        for piece in unpacker.feed(bomb):
            assert len(piece) <= PIECE_BYTES
            made += len(piece)
    assert made <= FREE_BYTES

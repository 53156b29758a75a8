"""The splitter gives the same events however the bytes were cut."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swarm.worker.gateway.sse import DAMAGED, EventTooLarge, SseSplitter


def split(*chunks, limit_bytes=1 << 20):
    splitter = SseSplitter(limit_bytes=limit_bytes)
    events = [event for chunk in chunks for event in splitter.feed(chunk)]
    return events + splitter.finish()


@pytest.mark.parametrize(
    ("stream", "events"),
    [
        (b"data: a\n\ndata: b\n\n", [b"a", b"b"]),
        (b"data: a\r\n\r\ndata: b\r\n\r\n", [b"a", b"b"]),
        (b"data: a\r\rdata: b\r\r", [b"a", b"b"]),
        (b"\xef\xbb\xbfdata: a\n\n", [b"a"]),
        (b"data: a\ndata: b\n\n", [b"a\nb"]),
        (b"data:a\n\n", [b"a"]),
        (b"data:  a\n\n", [b" a"]),
        (b"event: x\nid: 1\nretry: 5\ndata: a\n\n", [b"a"]),
        (b": comment\n\n\n\ndata: a\n\n", [b"a"]),
        (b"data\n\n", [b""]),
        (b"data: unfinished", [b"unfinished"]),
        (b"id\nevent\nretry\ndata: a\n\n", [b"a"]),
        (b"database: a\n\n", [DAMAGED]),
        (b"data: a\ndta: b\n\n", [DAMAGED, b"a"]),
        (b"data: \xe2\x80\xa8 stays\n\n", [b"\xe2\x80\xa8 stays"]),
        (b"", []),
    ],
)
def test_streams_are_split_as_the_standard_says_and_damage_is_told(stream, events):
    assert split(stream) == events


lines = st.sampled_from(
    [
        b"data: a",
        b"data: \xc3\xa9\xff",
        b"data:",
        b": note",
        b"event: x",
        b"",
        b"",
        b"junk",
        b"data",
    ]
)


@given(
    st.lists(st.tuples(lines, st.sampled_from([b"\n", b"\r\n", b"\r"])), max_size=30),
    st.lists(st.integers(0, 200), max_size=12),
    st.booleans(),
)
def test_where_the_bytes_are_cut_does_not_matter(parts, cuts, with_mark):
    stream = (b"\xef\xbb\xbf" if with_mark else b"") + b"".join(line + end for line, end in parts)
    places = sorted({0, len(stream), *(cut for cut in cuts if cut < len(stream))})
    pieces = [stream[a:b] for a, b in itertools.pairwise(places)]
    bytewise = [stream[place : place + 1] for place in range(len(stream))]
    assert split(*pieces) == split(stream) == split(*bytewise)


@given(st.binary(max_size=300), st.integers(1, 40))
def test_no_bytes_at_all_make_it_raise_anything_else(stream, size):
    pieces = [stream[place : place + size] for place in range(0, len(stream), size)]
    try:
        split(*pieces, limit_bytes=64)
    except EventTooLarge as error:
        assert error.limit_bytes == 64


@pytest.mark.parametrize(
    "chunks",
    [
        [b"data: " + b"x" * 200 + b"\n\n"],
        [b"x"] * 200,
        [b"data: x\n"] * 200,
        [b"data\n"] * 200,
        [b": " + b"x" * 200],
    ],
)
def test_what_never_ends_is_an_error_and_not_memory(chunks):
    with pytest.raises(EventTooLarge):
        split(*chunks, limit_bytes=100)


def test_many_small_events_are_no_large_one():
    assert len(split(*[b"data: xxxxxxxxxx\n\n"] * 100, limit_bytes=50)) == 100

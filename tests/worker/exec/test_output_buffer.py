"""The head-and-tail buffer keeps exactly the first and the last bytes, whatever the chunks."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swarm.worker.exec.exec_session import HeadTailBuffer

CHUNKS = st.lists(st.binary(max_size=40), max_size=30)


@given(chunks=CHUNKS, limit=st.integers(2, 60))
def test_head_and_tail_are_the_exact_ends_of_what_was_added(chunks, limit):
    buffer = HeadTailBuffer(limit)
    for chunk in chunks:
        buffer.add(chunk)
    whole = b"".join(chunks)
    length = len(buffer)
    kept = buffer.take()
    assert kept.total_bytes == len(whole)
    assert len(kept.joined()) == length == min(len(whole), limit)
    if len(whole) <= limit:
        assert kept.joined() == whole
        assert kept.omitted_bytes == 0
    else:
        assert kept.head == whole[: limit // 2]
        assert kept.tail == whole[-(limit - limit // 2) :]


@given(first=CHUNKS, second=CHUNKS)
def test_a_take_begins_again(first, second):
    buffer, fresh = HeadTailBuffer(16), HeadTailBuffer(16)
    for chunk in first:
        buffer.add(chunk)
    buffer.take()
    for chunk in second:
        buffer.add(chunk)
        fresh.add(chunk)
    assert buffer.take() == fresh.take()


def test_an_odd_limit_gives_the_tail_more():
    buffer = HeadTailBuffer(3)
    buffer.add(b"abcdef")
    kept = buffer.take()
    assert (kept.head, kept.tail, kept.omitted_bytes) == (b"a", b"ef", 3)


def test_memory_stays_bounded_however_small_the_chunks_are():
    buffer = HeadTailBuffer(1000)
    for _ in range(100_000):
        buffer.add(b"x")
    assert len(buffer._tail) <= 1001
    assert buffer.take().total_bytes == 100_000


def test_a_limit_without_room_for_two_ends_is_refused():
    with pytest.raises(ValueError, match="at least 2"):
        HeadTailBuffer(1)

"""Lines on their way to a reader: in order, never waited for, never lost in silence."""

import io
import os
import threading

import pytest
import trio
import trio.testing

from swarm.supervisor.clients.console.line_spool import LineSpool


@pytest.fixture
def pipe():
    reading, writing = os.pipe()
    with os.fdopen(reading, "rb", buffering=0) as reader, os.fdopen(writing, "w") as writer:
        yield reader, writer


async def test_a_reader_that_stops_reading_holds_up_nobody(pipe):
    reader, writer = pipe
    spool = LineSpool(writer)
    lines = [b"%06d " % number + b"x" * number + b"\n" for number in range(0, 9000, 90)]
    with trio.fail_after(10):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(spool.drain)
            for line in lines:
                spool.put(line)
            await trio.testing.wait_all_tasks_blocked(0.05)  # the pipe is full: drain waits
            received = b""
            while len(received) < sum(map(len, lines)):
                await trio.lowlevel.wait_readable(reader.fileno())
                received += os.read(reader.fileno(), 65536)
            nursery.cancel_scope.cancel()
    assert received == b"".join(lines)


async def test_what_is_left_when_the_drain_is_cancelled_is_flushed(pipe):
    reader, writer = pipe
    spool = LineSpool(writer)
    for number in range(5000):
        spool.put(b"%d some words that fill the pipe\n" % number)
    with trio.move_on_after(0):
        await spool.drain()
    got: list[bytes] = []
    thread = threading.Thread(target=lambda: got.extend(iter(lambda: reader.read(65536), b"")))
    thread.start()
    spool.flush()
    writer.close()
    thread.join()
    numbers = [int(line.split()[0]) for line in b"".join(got).splitlines()]
    assert numbers == list(range(5000))


def test_a_reader_too_far_behind_loses_lines_and_they_are_counted():
    spool = LineSpool(io.StringIO(), max_waiting_bytes=10)
    for line in (b"12345\n", b"678\n", b"too much\n"):
        spool.put(line)
    assert spool.take_left_out() == 0  # it is told when half of the queue is free again
    spool.flush()
    assert [spool.take_left_out(), spool.take_left_out()] == [1, 0]


def test_a_reader_that_is_gone_ends_it_quietly(pipe):
    reader, writer = pipe
    reader.close()
    spool = LineSpool(writer)
    spool.put(b"x\n")
    spool.flush()
    spool.put(b"y\n")
    assert spool.closed


def test_a_plain_file_is_written_as_it_is(tmp_path):
    with open(tmp_path / "out", "w") as out:
        spool = LineSpool(out)
        spool.put(b"x" * 10_000 + b"\n")
        spool.flush()
    assert (tmp_path / "out").read_bytes() == b"x" * 10_000 + b"\n"

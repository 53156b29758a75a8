"""The tail of stderr: bounded, decodable, and never waited for beyond a limit."""

import os

import trio

from swarm.supervisor.processes.child_process import StderrTail

LIMIT_S = 10


async def test_the_end_is_kept_and_a_cut_character_is_replaced(nursery):
    reader, writer = os.pipe()
    tail = StderrTail(reader)
    with trio.fail_after(LIMIT_S):
        nursery.start_soon(tail.read_all)
        async with trio.lowlevel.FdStream(writer) as stream:
            await stream.send_all("ä".encode() * 100_000 + b"end")
        text = await tail.wait_end(limit_s=LIMIT_S)
    assert len(text.encode(errors="replace")) <= 64 * 1024 + 3
    assert text.startswith("\N{REPLACEMENT CHARACTER}ä")
    assert text.endswith("äend")


async def test_an_orphan_that_holds_the_pipe_is_not_waited_for(nursery):
    reader, writer = os.pipe()
    tail = StderrTail(reader)
    nursery.start_soon(tail.read_all)
    os.write(writer, b"so far")
    with trio.fail_after(LIMIT_S):
        while tail.text != "so far":
            await trio.lowlevel.checkpoint()
        assert await tail.wait_end(limit_s=0) == "so far"
    os.close(writer)

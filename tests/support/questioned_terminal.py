"""Runs swarm, or a part of it, to its end on a terminal of its own, and answers one question."""

import os
import pty
import sys
from pathlib import Path

import trio

from support.forked_programs import forked_python

SWARM = str(Path(sys.executable).parent / "swarm")


async def answer_on_terminal(
    rig, question: bytes, key: bytes, *words: str, program: str = SWARM
) -> bytes:
    """All that is seen there. `key` b"": no question is waited for. The exit code must be 0."""
    parent, child = pty.openpty()
    python = (forked_python(),) if program == SWARM else ()
    process = rig.adopt(await trio.lowlevel.open_process(
        ["setsid", "-c", "-w", *python, program, *words], stdin=child, stdout=child, stderr=child,
        env={**rig.environment, "TERM": "xterm"}, cwd=rig.work,
    ))  # fmt: skip
    os.close(child)
    seen = bytearray()

    async def read() -> None:
        while True:
            await trio.lowlevel.wait_readable(parent)
            try:
                seen.extend(os.read(parent, 65_536))
            except OSError:
                return

    async with trio.open_nursery() as nursery:
        nursery.start_soon(read)
        if key:
            await rig.wait(lambda: question in seen)
            os.write(parent, key)
        assert await process.wait() == 0, seen.decode(errors="replace")
    os.close(parent)
    return bytes(seen)

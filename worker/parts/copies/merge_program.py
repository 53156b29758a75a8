"""Runs the supervisor's program that writes a merge into this agent's own copy.

The copy is mounted for this process and its descendants alone. The program is no command of a
model: it is not sandboxed, and writes through no link.
"""

import subprocess
from collections.abc import Sequence

import trio

_LIMIT_S = 600.0
_MOST_BYTES = 1 << 20


async def run_merge_program(program: Sequence[str]) -> str:
    """What it printed; "" if it failed. Once begun it is not cut off, but for its time limit.

    It ends with this process: its standard input is then at its end.
    """
    with trio.CancelScope(shield=True, deadline=trio.current_time() + _LIMIT_S):
        try:
            process = await trio.lowlevel.open_process(
                program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd="/"
            )
        except OSError:
            return ""
        try:
            said = await _read(process)
            code = await process.wait()
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        return said.decode("utf-8", "replace") if code == 0 else ""
    return ""


async def _read(process: trio.Process) -> bytes:
    assert process.stdout is not None
    said = b""
    async for part in process.stdout:
        said = (said + part)[:_MOST_BYTES]
    return said

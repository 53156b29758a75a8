"""Runs `swarm …` as a person would type it, and returns what it printed.

A command of the conversation is so the same code as on the command line. It gets no
terminal, so it asks nothing, and what it prints is bounded and cleaned.
"""

import asyncio
import sys
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ...base.safe_text import clean_block

COMMAND_LIMIT_S = 60.0
_MOST_BYTES = 256 << 10
_PREFIX = "swarm: "


class SwarmOutput(NamedTuple):
    """What a command printed: `text` on stdout, `words` on stderr; both cleaned."""

    exit_code: int
    text: str
    words: str


async def run_swarm_command(
    arguments: Sequence[str],
    *,
    environment: Mapping[str, str],
    columns: int,
    cwd: str | None = None,
    limit_s: float = COMMAND_LIMIT_S,
) -> SwarmOutput:
    """Run one command to its end, at most `limit_s` seconds. Never raises for what it does."""
    # -P: nothing of the present folder is imported
    command = [sys.executable, "-P", "-m", "swarm.supervisor.clients.cli.entry", *arguments]
    process = await asyncio.create_subprocess_exec(
        *command,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={**environment, "COLUMNS": str(columns), "NO_COLOR": "1"},
        cwd=cwd,
        start_new_session=True,  # Ctrl-C on the terminal is meant for the conversation
    )
    try:
        out, err = await asyncio.wait_for(process.communicate(), limit_s)
    except TimeoutError:
        process.kill()
        await process.wait()
        return SwarmOutput(1, "", f"`swarm {arguments[0]}` took longer than {limit_s:g} s")
    return SwarmOutput(process.returncode or 0, _text(out), _text(err))


def _text(raw: bytes) -> str:
    text = clean_block(raw[:_MOST_BYTES].decode("utf-8", "replace")).rstrip("\n")
    lines = [line.removeprefix(_PREFIX) for line in text.split("\n")]
    if len(raw) > _MOST_BYTES:
        lines.append(f"… cut after {_MOST_BYTES >> 10} KiB")
    return "\n".join(lines) if text else ""

"""The last lines of one agent's transcript, for Ctrl-T. Reads the journal in a thread."""

import asyncio
from collections import deque

from ...journal.journal_reader import read_records
from ...runs.paths import RunPaths
from ..console.agent_transcript import transcript_lines

_MOST_LINES = 200


class AgentPage:
    """One per conversation; a new look begins only when the last one has ended."""

    def __init__(self) -> None:
        self._shown: tuple[str, int] = ("", -1)  # agent, number of the last record
        self._lines: tuple[str, ...] = ()
        self._look: asyncio.Task[None] | None = None

    def lines(self, paths: RunPaths, agent: str, seq: int) -> tuple[str, ...]:
        """What is known now; what is newer comes with a later call."""
        if self._shown != (agent, seq) and (self._look is None or self._look.done()):
            self._look = asyncio.create_task(self._read(paths, agent, seq))
        return self._lines if self._shown[0] == agent else ()

    async def _read(self, paths: RunPaths, agent: str, seq: int) -> None:
        self._lines = await asyncio.to_thread(_last_lines, paths, agent)
        self._shown = (agent, seq)


def _last_lines(paths: RunPaths, agent: str) -> tuple[str, ...]:
    lines = deque(transcript_lines(read_records(paths), agent), maxlen=_MOST_LINES)
    return tuple(line.plain for line in lines)

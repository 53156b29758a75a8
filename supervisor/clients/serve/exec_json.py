"""`--json`: one JSON object per line on stdout, and nothing else there.

Every line has `ts` and an ascending `seq`; the last line is always `run.completed`. If the reader
has gone, the stream ends without an error. A reader that is too slow is told how many lines it
missed.
"""

import time
from collections.abc import Callable
from typing import Protocol, TextIO

from msgspec.structs import replace

from swarm.mailbox.protocol.control import AnyFeed, RunView, TransientEvent
from swarm.mailbox.protocol.records import Record, RunCompleted

from ...base.number_format import render_time
from ..console.line_spool import LineSpool
from .json_conversion import JsonConversion
from .json_lines import JsonLine, WarningLine, encode_line


class RenderLine(Protocol):
    """Renders each line, in order, with the Unix time that it is about; None leaves it out."""

    def __call__(self, line: JsonLine, at: float, /) -> bytes | None: ...


class StampedLines:
    """Each line with its number and time."""

    def __init__(self) -> None:
        self._seq = 0

    def __call__(self, line: JsonLine, at: float) -> bytes:
        self._seq += 1
        return encode_line(replace(line, seq=self._seq, ts=render_time(at)))


class ExecJsonDisplay:
    """The JSON lines of a run (a `RunDisplay`).

    Args:
        stdout: Written through its file descriptor if it has one; nothing else may write there.
        render: Makes the bytes of each line; None: numbers and times are added (`StampedLines`).
        clock: Unix seconds, for lines without a record's time.
    """

    def __init__(
        self,
        stdout: TextIO,
        *,
        render: RenderLine | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._spool = LineSpool(stdout)
        self._clock = clock
        self._conversion = JsonConversion()
        self._render = render or StampedLines()

    @property
    def closed(self) -> bool:
        """The reader has gone."""
        return self._spool.closed

    def on_feed(self, feed: AnyFeed) -> None:
        if self._spool.closed:
            return
        if isinstance(feed, TransientEvent):
            self._put(self._conversion.transient_lines(feed), self._clock())
        elif not isinstance(feed.record.body, RunCompleted):  # `finish` writes that one last
            self._put(self._conversion.record_lines(feed.record), feed.record.ts)

    async def draw(self, current: Callable[[], RunView]) -> None:
        """Write lines while the run goes on. The view is unused: lines come from records."""
        await self._spool.drain()

    def finish(self, completed: RunCompleted) -> None:
        """Write the last lines. Raises OutputLost if any could not be written to a reader."""
        now = self._clock()
        self._spool.flush()
        record = Record(seq=0, ts=now, body=completed)
        self._put(self._conversion.record_lines(record), now)
        self._spool.flush()
        self._spool.check()

    def _put(self, lines: list[JsonLine], at: float) -> None:
        if lines and (missed := self._spool.take_left_out()):
            text = f"{missed} lines left out: the reader is too slow; `swarm log --json` has all"
            lines = [WarningLine(message=text), *lines]
        for line in lines:
            if (rendered := self._render(line, at)) is not None:
                self._spool.put(rendered + b"\n")

"""What a server says of a running call, in one line."""

from collections.abc import Callable

import trio

from .tool_schema import clean_text

MAX_LINE = 160  # characters
INTERVAL_S = 1.0  # between two lines of one call

OnProgress = Callable[[str], None]
"""Takes one line; never waits."""


def clean_line(text: str) -> str:
    """One line of at most `MAX_LINE` characters, without control characters."""
    return clean_text(" ".join(text[: 4 * MAX_LINE].split()), limit=MAX_LINE)


def describe_progress(progress: float, total: float | None, message: str | None) -> str:
    """`3/10 message`, `42 message`."""
    done = f"{progress:g}" if total is None else f"{progress:g}/{total:g}"
    return clean_line(f"{done} {message or ''}")


class ProgressLimit:
    """Passes on at most one line in `INTERVAL_S`; those in between are dropped."""

    def __init__(self, send: OnProgress) -> None:
        self._send = send
        self._next_s = trio.current_time()

    def note(self, line: str) -> None:
        """Pass it on, or drop it."""
        now = trio.current_time()
        if now >= self._next_s and line:
            self._next_s = now + INTERVAL_S
            self._send(line)

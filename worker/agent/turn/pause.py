"""Pause: no further request to the model until a person resumes the agent.

A pause interrupts nothing. A running request and its calls complete, input and mail are accepted,
and an interrupt ends the turn as usual; only the next request waits.
"""

import trio

from ...base.reporter import Reporter

PAUSED = "paused by a person"


class PauseState:
    """The pause state of one agent."""

    def __init__(self, reporter: Reporter, *, paused: bool) -> None:
        self._reporter = reporter
        self._open = trio.Event()
        if not paused:
            self._open.set()

    def begin(self) -> None:
        """Allow no further request until `end`."""
        if self._open.is_set():
            self._open = trio.Event()

    def end(self) -> None:
        """End the pause."""
        self._open.set()

    async def wait_ended(self) -> None:
        """Return when no pause is active; emits Waiting events meanwhile."""
        if not self._open.is_set():
            async with self._reporter.shown_wait(PAUSED, after_s=0):
                while not self._open.is_set():
                    await self._open.wait()

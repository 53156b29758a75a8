"""A pause: no further request to the model until a person lets the agent go on.

Rule guarded: a pause cuts nothing off. What runs comes to its end, words and letters are taken, an
interrupt ends the turn as ever; only the next request waits.
"""

import trio

from swarm.mailbox.protocol.events import Waiting

from ..reporter import Reporter

PAUSED = "paused by a person"
_PROGRESS_INTERVAL_S = 20.0  # between two signs of a pause that goes on


class PauseState:
    """One agent's pause."""

    def __init__(self, reporter: Reporter, *, paused: bool) -> None:
        self._reporter = reporter
        self._open = trio.Event()
        if not paused:
            self._open.set()

    def begin(self) -> None:
        """No further request until `go_on`."""
        if self._open.is_set():
            self._open = trio.Event()

    def end(self) -> None:
        """The pause is over."""
        self._open.set()

    async def wait_ended(self) -> None:
        """Return at once, or when the pause is over; watchers see the wait."""
        while not self._open.is_set():
            self._reporter.progress += 1
            self._reporter.emit_transient(Waiting(reason=PAUSED))
            with trio.move_on_after(_PROGRESS_INTERVAL_S):
                await self._open.wait()

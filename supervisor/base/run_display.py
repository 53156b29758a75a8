"""The interface of a run's display: the console, plain lines or JSON lines."""

from collections.abc import Callable
from typing import Protocol

from swarm.mailbox.protocol.control import AnyFeed, RunView
from swarm.mailbox.protocol.records import RunCompleted


class RunDisplay(Protocol):
    """Called in the supervisor's own task, so `on_feed` never waits and never raises."""

    def on_feed(self, feed: AnyFeed) -> None:
        """Show one journaled record or transient event; they come in order."""
        ...

    async def draw(self, current: Callable[[], RunView]) -> None:
        """Run beside the supervisor until cancelled. `current()` is cheap: it folds nothing."""
        ...

    def finish(self, completed: RunCompleted) -> None:
        """Print the answer or the last line. Called once, after `draw` has ended."""
        ...

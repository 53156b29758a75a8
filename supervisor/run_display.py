"""What shows a run to a person or a script: the console, the plain lines, the JSON lines."""

from collections.abc import Callable
from typing import Protocol

from swarm.mailbox.protocol.control import AnyFeed, RunView
from swarm.mailbox.protocol.records import RunCompleted


class RunDisplay(Protocol):
    """Fed in the supervisor's own task; so `on_feed` never waits and never raises."""

    def on_feed(self, feed: AnyFeed) -> None:
        """One journaled record or passing event, in order."""
        ...

    async def draw(self, current: Callable[[], RunView]) -> None:
        """Run beside the supervisor until cancelled; `current()` folds nothing, it is cheap."""
        ...

    def finish(self, completed: RunCompleted) -> None:
        """Called once, last, after `draw` has ended: print the answer or the last line."""
        ...

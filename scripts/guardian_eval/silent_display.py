"""A view that shows nothing: the evaluation prints its own figures at the end."""

from collections.abc import Callable

import trio

from swarm.mailbox.protocol.control import AnyFeed, RunView
from swarm.mailbox.protocol.records import RunCompleted


class SilentEvaluationDisplay:
    """Shows nothing."""

    def on_feed(self, feed: AnyFeed) -> None:
        """One record or passing event."""

    async def draw(self, current: Callable[[], RunView]) -> None:
        """Nothing, for as long as the run lasts."""
        await trio.sleep_forever()

    def finish(self, completed: RunCompleted) -> None:
        """The run is over."""
